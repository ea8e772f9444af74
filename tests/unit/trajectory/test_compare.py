"""Forks, drift and margins by STUDY's definitions, the odd inputs of REPORTS 5 included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trajectory.compare import (
    bit_identical,
    blocks_differ,
    compare,
    drift,
    find_fork,
    margin_changes,
    shared_drift,
    shared_mask,
)
from app.trajectory.episode import Outcome, ToolCall
from app.trajectory.pair import ForkKind, Repeats
from app.trajectory.step import Rival, Step, StepBlock
from app.trajectory.trajectory import RequestReport, Status, Trajectory
from tests.builders import forked_pair_of_trajectories, request, step, trajectory

LOWEST = float(np.finfo(np.float32).min)


def one(
    ids: Sequence[int], *, prompt: Sequence[int] = (1, 2, 3), cached: int = 2, margin: float = 2, logprob: float = -0.1
) -> Trajectory:
    """A cached trajectory of two requests: the first fixed, the second with the answer `ids`."""
    return trajectory(
        [
            request(0, [9], [step(8)], cached=0),
            request(1, prompt, [step(i, margin, logprob) for i in ids], cached=cached),
        ]
    )


def with_last(whole: Trajectory, **changes: object) -> Trajectory:
    """The trajectory with fields of its last request replaced."""
    return replace(whole, requests=(*whole.requests[:-1], replace(whole.requests[-1], **changes)))  # type: ignore[arg-type]


def test_the_first_different_token_is_the_fork_with_both_sides() -> None:
    cached, recompute = forked_pair_of_trajectories(fork_request=2, fork_step=16)
    fork = find_fork(cached, recompute)
    assert fork is not None and fork.cached is not None and fork.recompute is not None
    assert (fork.kind, fork.request, fork.step, fork.label) == (ForkKind.TOKEN, 2, 16, "3:17")
    assert fork.cached.token_id == fork.recompute.token_id + 1
    assert fork.recompute.margin == pytest.approx(0.04, abs=1e-6)
    assert fork.cached.piece == cached.requests[2].steps.piece(16)


def test_equal_trajectories_have_no_fork() -> None:
    assert find_fork(one([5, 6]), one([5, 6])) is None


@pytest.mark.parametrize(("other", "at"), [([1, 2, 4], 2), ([1, 2], 2), ([1, 2, 3, 4], 3), ([], 0)])
def test_different_prompts_fork_at_the_first_different_position(other: list[int], at: int) -> None:
    fork = find_fork(one([5]), one([5], prompt=other))
    assert fork is not None
    assert (fork.kind, fork.request, fork.step) == (ForkKind.PROMPT, 1, at)
    assert (fork.cached is None) == (at >= 3) and (fork.recompute is None) == (at >= len(other))


def test_a_prompt_difference_counts_before_a_token_difference_in_the_same_request() -> None:
    fork = find_fork(one([5]), one([6], prompt=[1, 2, 4]))
    assert fork is not None and fork.kind is ForkKind.PROMPT


def test_an_answer_that_ends_earlier_forks_at_its_length_and_has_one_side() -> None:
    fork = find_fork(one([5, 6]), one([5, 6, 7]))
    assert fork is not None and fork.recompute is not None
    assert (fork.kind, fork.step, fork.cached, fork.recompute.token_id) == (ForkKind.LENGTH, 2, None, 7)
    comparison = compare(one([5, 6]), one([5, 6, 7]))
    assert comparison.aligned_steps == 3
    assert comparison.shared_steps == 2


def test_another_number_of_requests_is_a_fork_at_the_first_that_one_side_lacks() -> None:
    longer = one([5])
    shorter = replace(longer, requests=longer.requests[:1])
    for pair in ((longer, shorter), (shorter, longer)):
        fork = find_fork(*pair)
        assert fork is not None
        assert (fork.kind, fork.request, fork.step, fork.label) == (ForkKind.REQUESTS, 1, None, "2")


def test_one_side_ending_in_an_error_is_a_fork_of_requests() -> None:
    fork = find_fork(one([5]), replace(one([5]), outcome=Outcome("overflow")))
    assert fork is not None and (fork.kind, fork.request) == (ForkKind.REQUESTS, 2)
    both = [replace(one([5]), outcome=Outcome("error", text)) for text in ("HTTP 500", "HTTP 400")]
    assert find_fork(*both) is None


def test_an_error_in_the_middle_of_an_answer_is_a_fork_of_requests_at_that_request() -> None:
    broken = replace(with_last(one([5]), report=None), outcome=Outcome("error"))
    fork = find_fork(one([5, 6]), broken)
    assert fork is not None and (fork.kind, fork.request, fork.step) == (ForkKind.REQUESTS, 1, None)
    same_tokens = find_fork(one([5]), broken)
    assert same_tokens is not None and (same_tokens.kind, same_tokens.request) == (ForkKind.REQUESTS, 1)


def test_a_token_that_differed_before_the_error_is_the_fork() -> None:
    broken = replace(with_last(one([7]), report=None), outcome=Outcome("error"))
    fork = find_fork(one([5, 6]), broken)
    assert fork is not None and fork.kind is ForkKind.TOKEN


@pytest.mark.parametrize("status", [Status.RUNNING, Status.STOPPED, Status.INTERRUPTED, Status.FAILED])
def test_what_an_unfinished_side_lacks_is_no_difference(status: Status) -> None:
    whole = one([5, 6, 7])
    mid_answer = replace(with_last(one([5]), report=None), status=status)
    fewer = replace(whole, requests=whole.requests[:1], status=status)
    for part in (mid_answer, fewer):
        assert find_fork(whole, part) is None
        assert find_fork(part, whole) is None
        assert not compare(part, whole).tool_calls_changed
        assert bit_identical(part, whole) == ""


def test_a_token_that_differs_is_a_fork_while_a_side_still_runs() -> None:
    running = replace(with_last(one([5, 9]), report=None), status=Status.RUNNING)
    fork = find_fork(one([5, 6, 7]), running)
    assert fork is not None and (fork.kind, fork.step) == (ForkKind.TOKEN, 1)


def test_a_cancelled_answer_is_no_fork_of_length() -> None:
    part = one([5])
    report = part.requests[-1].report
    assert report is not None
    stopped = replace(with_last(part, report=replace(report, finish_reason="cancelled")), status=Status.STOPPED)
    assert find_fork(one([5, 6]), stopped) is None


def test_trajectories_without_requests_or_steps_compare_as_empty() -> None:
    for empty in (trajectory([]), trajectory([request(0, [1, 2], [])])):
        comparison = compare(empty, empty)
        assert comparison.fork is None and comparison.logprobs_equal
        assert (comparison.aligned_steps, comparison.drift_max, comparison.margin_change_median) == (0, None, None)
        assert len(drift(empty, empty)) == len(shared_mask(empty, empty)) == len(shared_drift(empty, empty)) == 0


def test_drift_is_the_change_of_the_same_tokens_logprob_and_unknown_at_the_flip() -> None:
    cached, recompute = one([5, 6, 7], logprob=-0.25), one([5, 6, 8], logprob=-0.5)
    np.testing.assert_array_equal(drift(cached, recompute)[1:], [0.25, 0.25, np.nan])
    assert compare(cached, recompute).drift_max == 0.25


def test_margin_change_is_absolute_and_unknown_at_the_flip() -> None:
    cached, recompute = one([5, 6], margin=1.0), one([5, 7], margin=3.0)
    changes = margin_changes(cached, recompute)
    assert changes[1] == pytest.approx(2.0, abs=1e-6) and np.isnan(changes[2])
    assert compare(cached, recompute).margin_change_median == pytest.approx(2.0, abs=1e-6)


def test_only_requests_that_hit_the_cache_have_shared_steps_and_the_flip_is_one_of_them() -> None:
    cached, recompute = one([5, 6]), one([5, 7])
    assert shared_mask(cached, recompute).tolist() == [False, True, True]
    assert compare(cached, recompute).shared_steps == 2
    for cold in (0, None):
        report = RequestReport(cold, None, (), "stop")
        assert compare(with_last(cached, report=report), recompute).shared_steps == 0


def test_drift_in_a_request_that_hit_nothing_is_drift_but_not_noise() -> None:
    cached, recompute = (one([5, 6], cached=0, logprob=value) for value in (-0.1, -0.2))
    assert compare(cached, recompute).drift_max == pytest.approx(0.1)
    assert len(shared_drift(cached, recompute)) == 0


def test_near_ties_count_up_to_the_fork_and_not_beyond_and_an_exact_tie_is_one() -> None:
    margins = (2.0, 0.0, 0.09, 0.1, 0.01)
    cached = trajectory([request(0, [1], [step(i, m) for i, m in enumerate(margins)])])
    recompute = trajectory([request(0, [1], [step(i + 10 * (i > 2), m) for i, m in enumerate(margins)])])
    assert compare(cached, recompute, near_tie=0.0999).near_ties == 2
    assert compare(cached, cached, near_tie=0.0999).near_ties == 3


def test_logprobs_are_equal_only_bit_for_bit_and_rivals_count() -> None:
    base = one([5, 6])
    assert compare(base, one([5, 6])).logprobs_equal
    next_float = float(np.nextafter(np.float32(-0.1), np.float32(0)))
    assert not compare(base, one([5, 6], logprob=next_float)).logprobs_equal
    assert not compare(base, one([5, 6], margin=2.0000005)).logprobs_equal
    assert compare(base, one([5, 6], logprob=next_float)).fork is None


def bare(logprob: float | None, rivals: tuple[Rival, ...] = ()) -> Trajectory:
    return trajectory([request(0, [1], [Step(5, logprob, b"x", rivals)])])


@pytest.mark.parametrize("value", [None, LOWEST, float("-inf")])
def test_a_logprob_that_measures_nothing_gives_no_drift_and_no_equality(value: float | None) -> None:
    for other in (value, -0.5):
        comparison = compare(bare(value), bare(other))
        assert comparison.drift_max is None and not comparison.logprobs_equal
    assert bit_identical(bare(value), bare(value)) == ""


def test_a_rival_of_probability_zero_gives_no_change_of_margin() -> None:
    rivals = (Rival(5, -0.1, b"x"), Rival(6, LOWEST, b"y"))
    comparison = compare(bare(-0.1, rivals), bare(-0.1, rivals))
    assert comparison.margin_change_median is None and comparison.near_ties == 0


def test_steps_without_rivals_have_no_margin_at_the_fork() -> None:
    fork = find_fork(bare(0.0), trajectory([request(0, [1], [Step(6, None, b"\xe2")])]))
    assert fork is not None and fork.cached is not None and fork.recompute is not None
    assert (fork.cached.logprob, fork.cached.margin) == (0.0, None)
    assert (fork.recompute.logprob, fork.recompute.piece) == (None, b"\xe2")


def repacked(whole: Trajectory, k: int, shift: float = 0.0) -> Trajectory:
    """The trajectory asked with k rivals, every logprob shifted."""
    requests = []
    for each in whole.requests:
        s = each.steps
        steps = StepBlock(
            s.token_ids, s.logprobs + np.float32(shift), s.rival_ids[:, :k],
            s.rival_logprobs[:, :k] + np.float32(shift), s.piece_bytes, s.piece_ends,
        )  # fmt: skip
        requests.append(replace(each, steps=steps))
    return replace(whole, requests=tuple(requests))


def test_another_logprob_depth_is_compared_within_a_tolerance_and_equal_depths_exactly() -> None:
    base = one([5, 6])
    assert compare(base, repacked(base, 3, 5e-4)).logprobs_equal
    assert bit_identical(base, repacked(base, 3, 5e-4)) == ""
    assert not compare(base, repacked(base, 3, 2e-3)).logprobs_equal
    assert not compare(base, repacked(base, 5, 5e-4)).logprobs_equal
    assert compare(base, repacked(base, 0)).logprobs_equal


def test_tool_calls_changed_looks_at_names_and_arguments_and_at_raw_text_only_where_that_is_no_call() -> None:
    def calling(arguments: dict[str, object] | None, raw: str = "", name: str = "move") -> Trajectory:
        return with_last(one([5]), calls=(ToolCall(name, arguments, raw),))

    base = calling({"a": 1, "b": 2})
    assert not compare(base, calling({"b": 2, "a": 1}, "another text")).tool_calls_changed
    for other in (calling({"a": True, "b": 2}), calling({"a": 1, "b": 2}, name="copy"), calling(None), one([5])):
        assert compare(base, other).tool_calls_changed
    nan = calling({"a": float("nan")}), calling({"a": float("nan")})
    assert not compare(*nan).tool_calls_changed
    unusable = calling(None, '{"tool": "move", "args": 7}')
    assert not compare(unusable, calling(None, '{"tool": "move", "args": 7}')).tool_calls_changed
    assert compare(unusable, calling(None, '{"tool": "move"}')).tool_calls_changed


def test_the_outcome_changed_where_its_kind_differs() -> None:
    reached = one([5])
    assert compare(reached, replace(reached, outcome=Outcome("missed"))).outcome_changed
    assert not compare(reached, replace(reached, outcome=Outcome("reached", "other words"))).outcome_changed


def test_what_the_caller_knows_is_passed_through_and_decides_validity() -> None:
    repeats = {"cached": Repeats(2, True)}
    comparison = compare(one([5]), one([5]), repeats=repeats, unproven=["no counts"])
    assert comparison.repeats == repeats and not comparison.valid
    assert compare(one([5]), one([5])).valid


def test_repeats_say_where_they_first_differ() -> None:
    base = one([5, 6])
    assert bit_identical(base, one([5, 6])) == ""
    assert bit_identical(base, one([5, 7])) == "request 2, token 2: another token"
    assert bit_identical(base, one([5])) == "request 2, token 2: only one run has it"
    assert bit_identical(base, one([5, 6], logprob=-0.1000001)) == "request 2, token 1: another logprob"
    assert bit_identical(base, one([5, 6], prompt=[1, 9, 3])) == "request 2, prompt token 2"
    assert bit_identical(base, replace(base, requests=base.requests[:1])) == "request 2: only one run has it"
    assert blocks_differ(StepBlock.empty(5), StepBlock.empty(5)) == ""


ANSWERS = st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=3)


@given(ANSWERS, ANSWERS)
def test_the_walk_agrees_with_a_plain_one(left: list[list[int]], right: list[list[int]]) -> None:
    def built(answers: list[list[int]]) -> Trajectory:
        return trajectory([request(i, [1], [step(t) for t in answer], cached=i) for i, answer in enumerate(answers)])

    expected: tuple[str, int, int | None] | None = None
    aligned = 0
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
        aligned += min(len(a), len(b)) if at is None else at + 1
        if a != b:
            expected = ("length", index, min(len(a), len(b))) if at is None else ("token", index, at)
            break
    else:
        expected = ("requests", min(len(left), len(right)), None) if len(left) != len(right) else None
    fork = find_fork(built(left), built(right))
    assert (fork and (str(fork.kind), fork.request, fork.step)) == expected
    sizes = {len(f(built(left), built(right))) for f in (drift, margin_changes, shared_mask)}
    assert sizes == {aligned}
    assert (bit_identical(built(left), built(right)) == "") == (expected is None)
