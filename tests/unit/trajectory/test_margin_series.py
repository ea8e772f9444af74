from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trajectory.margin_series import FLOOR_NATS, MarginSeries, envelope, labelled_requests, log_margin, peaks
from app.trajectory.pair import Fork, ForkKind
from app.trajectory.step import as_ids
from app.trajectory.trajectory import Path
from tests.builders import forked_pair_of_trajectories, request, step, trajectory

FORK = Fork(ForkKind.TOKEN, 2, 16, None, None)


def test_both_paths_coincide_before_the_fork_and_have_a_change_there() -> None:
    cached, recompute = forked_pair_of_trajectories()
    series = MarginSeries.of(cached, recompute, FORK)
    assert len(series) == 120
    assert series.fork == 76
    np.testing.assert_array_equal(series.recompute, recompute.margins)
    np.testing.assert_allclose(series.change[:77], np.abs(cached.margins - recompute.margins)[:77])
    assert np.isnan(series.change[77:]).all()


def test_a_request_starts_at_one_place_on_both_paths_though_their_answers_differ_in_length() -> None:
    left = trajectory([request(n, [1], [step(1)] * size) for n, size in enumerate((3, 2, 4))])
    right = trajectory([request(n, [1], [step(1)] * size) for n, size in enumerate((3, 5))], path=Path.RECOMPUTE)
    series = MarginSeries.of(left, right, Fork(ForkKind.LENGTH, 1, 2, None, None))
    assert series.starts.tolist() == [0, 3, 8, 12]
    assert np.isnan(series.cached).nonzero()[0].tolist() == [5, 6, 7]
    assert np.isnan(series.recompute).nonzero()[0].tolist() == [8, 9, 10, 11]
    assert series.position(2, 1) == 9
    assert series.locate(9) == (2, 1)


def test_a_fork_of_the_prompts_lies_where_its_request_starts_and_nothing_after_it_is_compared() -> None:
    cached, recompute = forked_pair_of_trajectories()
    series = MarginSeries.of(cached, recompute, Fork(ForkKind.PROMPT, 2, 900, None, None))
    assert series.fork == 60
    assert np.isnan(series.change[60:]).all()
    assert np.isfinite(series.change[:60]).all()


def test_a_fork_of_the_number_of_requests_lies_after_the_shorter_path() -> None:
    cached, recompute = forked_pair_of_trajectories()
    shorter = replace(recompute, requests=recompute.requests[:2])
    series = MarginSeries.of(cached, shorter, Fork(ForkKind.REQUESTS, 2, None, None, None))
    assert series.fork == 60
    assert series.fork_margin == pytest.approx(cached.margins[60])


@pytest.mark.parametrize("missing", ["cached", "recompute", "both"])
def test_a_path_that_is_not_there_is_unknown_and_not_zero(missing: str) -> None:
    cached, recompute = forked_pair_of_trajectories()
    series = MarginSeries.of(
        None if missing in ("cached", "both") else cached, None if missing in ("recompute", "both") else recompute, None
    )
    assert len(series) == (0 if missing == "both" else 120)
    assert np.isnan(series.change).all()


def test_positions_outside_are_clipped() -> None:
    cached, recompute = forked_pair_of_trajectories()
    series = MarginSeries.of(cached, recompute, None)
    assert series.position(99, 99) == 119
    assert series.position(-1, -5) == 0
    assert series.locate(10_000) == (3, 29)
    assert MarginSeries.of(None, None, None).locate(3) == (0, 0)


def test_an_exact_tie_is_found_and_drawn_on_the_floor() -> None:
    tied = trajectory([request(0, [1], [step(1, 2.0), step(1, 0.0), step(1, 0.05)])])
    series = MarginSeries.of(tied, tied, None)
    assert series.exact_ties.tolist() == [1]
    assert series.near_ties(0.1) == 2
    assert log_margin(series.cached)[1] == np.log10(FLOOR_NATS)


@given(
    values=st.lists(st.one_of(st.just(np.nan), st.floats(0, 20)), min_size=1, max_size=400),
    columns=st.integers(1, 50),
    first=st.integers(0, 300),
)
def test_thinning_out_keeps_the_least_and_the_largest_of_what_is_shown(
    values: list[float], columns: int, first: int
) -> None:
    shown = np.array(values)[first:]
    at, thinned = envelope(np.array(values), first, len(values), columns)
    assert len(at) == len(thinned) <= 2 * columns + 2
    if np.isfinite(shown).any():
        assert np.nanmin(thinned) <= np.nanmin(shown)
        assert np.nanmax(thinned) >= np.nanmax(shown)


def test_a_bar_stands_for_the_largest_change_in_its_bucket_and_unknown_steps_have_none() -> None:
    values = np.array([0.1, np.nan, 0.3, 0.2, np.nan, np.nan])
    at, heights, width = peaks(values, 0, 6, 3)
    assert heights.tolist() == [0.1, 0.3]
    assert at.tolist() == [0.5, 2.5]
    assert width == 2
    at, heights, width = peaks(values, 0, 6, 100)
    assert heights.tolist() == [0.1, 0.3, 0.2]
    assert width == 1


@pytest.mark.parametrize("requests", [1, 4, 60, 1600])
def test_labels_of_requests_never_overlap(requests: int) -> None:
    starts = as_ids(range(0, requests * 10 + 1, 10))
    labels = labelled_requests(starts, -0.5, requests * 10, 700 / (requests * 10), 70)
    assert labels
    assert len(labels) <= 10
    gaps = np.diff([at for at, _ in labels]) * 700 / (requests * 10)
    assert (gaps >= 70).all()
