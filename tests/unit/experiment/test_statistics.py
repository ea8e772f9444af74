"""Shares come with intervals, bins with their counts, and nothing is averaged that does not count."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from app.experiment.statistics import MARGIN_BINS, Summary, share_interval, summarise, upper_bound
from app.trajectory.compare import compare
from app.trajectory.pair import NoiseFloor, Pair, Verdict
from app.trajectory.trajectory import Path, Status, Trajectory
from tests.builders import request, step, trajectory


def pair(*margins: float, flip: bool = False, cached_change: float = 0.0, problems: tuple[str, ...] = ()) -> Pair:
    """One cold and one cached request; the second has the recompute margins given, the last of which may flip."""

    def side(path: Path) -> Trajectory:
        on_cached = path is Path.CACHED
        steps = [
            step(9 if flip and on_cached and at == len(margins) - 1 else 5, margin + cached_change * on_cached)
            for at, margin in enumerate(margins)
        ]
        first = request(0, [1], [step(3, 0.001)], cached=0)
        return trajectory([first, request(1, [1, 3, 4], steps, cached=2 if on_cached else 0)], path=path)

    cached, recompute = side(Path.CACHED), side(Path.RECOMPUTE)
    comparison = compare(cached, recompute, problems=problems)
    return Pair(cached, recompute, comparison, Verdict("equal", "", "", ""), NoiseFloor(None, 0))


def test_the_bound_of_none_in_800_is_the_studys() -> None:
    assert upper_bound(800) == pytest.approx(0.003738, abs=1e-6)


def test_the_interval_of_a_share_is_clopper_pearsons() -> None:
    interval = share_interval(9, 20)
    assert interval is not None
    assert [interval.low, interval.high] == pytest.approx([0.23058, 0.68472], abs=1e-5)
    assert share_interval(0, 0) is None


def test_pairs_are_counted_and_what_is_invalid_or_unfinished_is_left_out() -> None:
    running = pair(2.0)
    running = replace(running, cached=replace(running.cached, status=Status.RUNNING))
    found = summarise([pair(2.0), pair(0.05, flip=True), pair(1.0, flip=True, problems=("broken",)), running])
    assert (found.pairs, found.left_out, found.forked, found.share) == (2, 2, 1, 0.5)
    assert found.upper_bound is None
    assert found.interval == share_interval(1, 2)


def test_where_nothing_forked_the_one_sided_bound_is_given() -> None:
    found = summarise([pair(2.0)] * 20)
    assert found.forked == 0 and found.upper_bound == upper_bound(20)


def test_hazard_counts_flips_and_shared_steps_by_recompute_margin_and_cold_requests_do_not_count() -> None:
    found = summarise([pair(0.0, 0.005, 0.012, 2.0, 5.0, 0.02, flip=True), pair(0.05, flip=True)])
    assert [(b.flips, b.steps) for b in found.hazard] == [(0, 2), (1, 2), (1, 1), (0, 0), (0, 0), (0, 1), (0, 1)]
    assert (found.flips, found.shared_steps) == (2, 7)
    assert found.hazard[1].hazard == 0.5 and found.hazard[3].hazard is None
    assert (found.hazard[0].low, found.hazard[-1].high) == (0.0, MARGIN_BINS[-1])


def test_a_bin_quotes_an_interval_only_from_20_steps_on() -> None:
    found = summarise([pair(*[2.0] * 19, *[0.2] * 20)])
    assert [b.interval is not None for b in found.hazard] == [False, False, False, True, False, False, False]


def test_medians_and_near_tie_shares_are_of_shared_steps() -> None:
    found = summarise([pair(0.05, 0.3, 2.0, 2.0, cached_change=0.25), pair(2.0, 2.0, 2.0, 0.08, flip=True)])
    assert found.median_margin_at_forks == pytest.approx(0.08, abs=1e-6)
    assert found.median_margin_change == pytest.approx(0.25, abs=1e-6)
    assert (found.below_01, found.below_05) == (0.25, 0.375)


def test_no_pairs_say_nothing() -> None:
    found: Summary = summarise([])
    known = (found.share, found.interval, found.upper_bound, found.median_margin_at_forks, found.median_margin_change)
    assert {*known, found.below_01, found.below_05} == {None}


def test_scipy_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, app.experiment.statistics; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
