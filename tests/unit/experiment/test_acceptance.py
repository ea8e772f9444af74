"""A pass that does not prove what it claims is not accepted (STUDY: Pass accepted)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from app.experiment.acceptance import accept, pair_problems
from app.trajectory.episode import Outcome
from app.trajectory.step import Step
from app.trajectory.trajectory import Path, Request, Status, Trajectory
from tests.builders import forked_pair_of_trajectories, request, step, trajectory

EPISODES = ["made-00"]


def changed(whole: Trajectory, index: int, change: Callable[[Request], Request]) -> Trajectory:
    requests = list(whole.requests)
    requests[index] = change(requests[index])
    return replace(whole, requests=tuple(requests))


def with_report(**values: object) -> Callable[[Request], Request]:
    def change(each: Request) -> Request:
        assert each.report is not None
        return replace(each, report=replace(each.report, **values))  # type: ignore[arg-type]

    return change


def with_steps(**values: object) -> Callable[[Request], Request]:
    return lambda each: replace(each, steps=replace(each.steps, **values))  # type: ignore[arg-type]


@pytest.fixture
def cached() -> Trajectory:
    return forked_pair_of_trajectories()[0]


@pytest.fixture
def recompute() -> Trajectory:
    return forked_pair_of_trajectories()[1]


def test_a_sound_pass_of_either_path_is_accepted(cached: Trajectory, recompute: Trajectory) -> None:
    assert accept([cached], Path.CACHED, EPISODES, 5) == ([], [])
    assert accept([recompute], Path.RECOMPUTE, EPISODES, 5) == ([], [])
    assert pair_problems(cached, recompute) == ([], [])


def test_a_missing_or_unfinished_episode_is_named(cached: Trajectory) -> None:
    problems, _ = accept([cached], Path.CACHED, ["made-00", "units-01", "notes-07"], 5)
    assert problems == ["units-01 and 1 more: not finished"]
    stopped = replace(cached, status=Status.STOPPED)
    assert accept([stopped], Path.CACHED, EPISODES, 5)[0] == ["made-00: not finished"]


def test_a_gap_in_the_requests_is_a_problem(cached: Trajectory) -> None:
    gap = replace(cached, requests=cached.requests[:1] + cached.requests[2:])
    assert accept([gap], Path.CACHED, EPISODES, 5)[0] == ["made-00: request indices are not contiguous"]


def test_the_logprob_depth_must_be_as_asked_at_every_step(cached: Trajectory) -> None:
    assert accept([cached], Path.CACHED, EPISODES, 6)[0] == ["made-00 request 1 and 3 more: not 6 logprobs a step"]
    steps = cached.requests[1].steps
    lacking = {
        "rival_ids": np.where(np.arange(5) < 4, steps.rival_ids, -1).astype(np.int32),
        "rival_logprobs": np.where(np.arange(5) < 4, steps.rival_logprobs, np.nan).astype(np.float32),
        "logprobs": np.full(len(steps), np.nan, np.float32),
    }
    for name, values in lacking.items():
        found, _ = accept([changed(cached, 1, with_steps(**{name: values}))], Path.CACHED, EPISODES, 5)
        assert found == ["made-00 request 2: not 5 logprobs a step"]


@pytest.mark.parametrize("ends", ["short", "falling", "long", "missing"])
def test_pieces_must_rebuild_the_text(cached: Trajectory, ends: str) -> None:
    steps = cached.requests[0].steps
    wrong = steps.piece_ends.copy()
    if ends == "missing":
        wrong = wrong[:-1]
    elif ends == "falling":
        wrong[3] = wrong[-1]
    else:
        wrong[-1] += 1 if ends == "long" else -1
    found, _ = accept([changed(cached, 0, with_steps(piece_ends=wrong))], Path.CACHED, EPISODES, 5)
    assert found == ["made-00 request 1: piece bytes do not add up"]


def test_a_recompute_request_that_hit_something_spoils_the_pass_and_the_pair(
    cached: Trajectory, recompute: Trajectory
) -> None:
    hit = changed(recompute, 2, with_report(cached_tokens=1))
    expected = ["made-00 request 3: the recompute path took tokens from the cache"]
    assert accept([hit], Path.RECOMPUTE, EPISODES, 5)[0] == expected
    assert pair_problems(cached, hit)[0] == expected


@pytest.mark.parametrize(("missed", "accepted"), [(0, True), (1, True), (2, False), (20, False)])
def test_95_percent_of_the_later_requests_must_hit(missed: int, accepted: bool) -> None:
    requests = [request(i, range(1, 41), [step(5)], cached=0 if i <= missed else 30) for i in range(21)]
    problems, unproven = accept([trajectory(requests)], Path.CACHED, EPISODES, 5)
    assert (problems == []) is accepted and unproven == []
    if not accepted:
        assert problems == [f"only {20 - missed} of 20 later requests hit the cache, 95 % must"]


def test_a_cached_path_whose_later_requests_hit_nothing_makes_the_pair_invalid(recompute: Trajectory) -> None:
    cold = replace(recompute, path=Path.CACHED)
    assert pair_problems(cold, recompute) == (["the cached path hit nothing in made-00"], [])


def test_an_episode_of_one_request_has_no_later_request_that_could_hit(recompute: Trajectory) -> None:
    single = replace(recompute, path=Path.CACHED, requests=recompute.requests[:1])
    assert accept([single], Path.CACHED, EPISODES, 5) == ([], [])
    assert pair_problems(single, recompute) == ([], [])


def test_counts_that_were_not_reported_leave_it_unproven_not_invalid(cached: Trajectory, recompute: Trajectory) -> None:
    silent = [changed(side, 2, with_report(cached_tokens=None)) for side in (cached, recompute)]
    for side in silent:
        problems, unproven = accept([side], side.path, EPISODES, 5)
        assert problems == []
        assert unproven == [
            f"made-00 request 3: the {side.path} path did not report how many tokens came from the cache"
        ]
    assert len(pair_problems(*silent)[1]) == 2
    first_only = changed(cached, 0, with_report(cached_tokens=None))
    assert accept([first_only], Path.CACHED, EPISODES, 5) == ([], [])


def test_only_where_a_token_ends_inside_a_character_may_entries_be_missing() -> None:
    split, whole = [b" a", "é".encode()[:1], "é".encode()[1:]], [b" a", "é".encode(), b"."]
    for pieces, accepted in ((split, True), (whole, False)):
        steps = [step(n, piece=piece) for n, piece in enumerate(pieces)]
        steps[1] = Step(1, None, pieces[1])
        found, _ = accept([trajectory([request(0, [1], steps)])], Path.CACHED, EPISODES, 5)
        assert (found == []) is accepted
        steps[1] = Step(1, None, pieces[1], step(1).rivals[:2])
        found, _ = accept([trajectory([request(0, [1], steps)])], Path.CACHED, EPISODES, 5)
        assert found == ["made-00 request 1: not 5 logprobs a step"], "half an entry is no fold"


def test_an_engine_that_reports_no_logprobs_is_not_asked_for_them() -> None:
    bare = trajectory([request(0, [1], [Step(7, None, b"x")])])
    assert accept([bare], Path.CACHED, EPISODES, None) == ([], [])
    assert accept([bare], Path.CACHED, EPISODES, 5)[0] == ["made-00 request 1: not 5 logprobs a step"]


def test_runs_of_one_path_claim_nothing_of_it_yet_must_not_contradict_themselves(cached: Trajectory) -> None:
    missed = [request(i, range(1, 41), [step(5)], cached=None if i % 2 else 0) for i in range(4)]
    assert accept([trajectory(missed)], Path.CACHED, EPISODES, 5, run_to_run=True) == ([], [])
    assert pair_problems(trajectory(missed), trajectory(missed), run_to_run=True) == ([], [])
    tampered = changed(cached, 1, with_report(problem="The server restarted with another model."))
    expected = ["made-00 request 2: The server restarted with another model"]
    assert accept([tampered], Path.CACHED, EPISODES, 5, run_to_run=True)[0] == expected
    assert pair_problems(tampered, cached, run_to_run=True)[0] == expected


def test_counters_of_the_engine_that_contradict_its_report_are_a_problem(
    cached: Trajectory, recompute: Trajectory
) -> None:
    tampered = changed(cached, 1, with_report(problem="n_p_eval grew by 9, reported 6"))
    expected = ["made-00 request 2: n_p_eval grew by 9, reported 6"]
    assert accept([tampered], Path.CACHED, EPISODES, 5)[0] == expected
    assert pair_problems(tampered, recompute)[0] == expected


def test_a_request_that_ended_in_an_error_has_nothing_to_check(cached: Trajectory) -> None:
    broken = changed(cached, 3, lambda each: replace(each, report=None))
    assert accept([broken], Path.CACHED, EPISODES, 5) == ([], [])


def test_a_pair_in_which_no_request_was_answered_proves_nothing(cached: Trajectory, recompute: Trajectory) -> None:
    failed = Outcome("error", "The template says no. Choose another model.")
    silent = [replace(side, requests=(), outcome=failed) for side in (cached, recompute)]
    assert pair_problems(*silent) == ([], ["no request was answered: The template says no. Choose another model"])
    assert pair_problems(silent[0], recompute) == ([], []), "one path that fails is a fork"
