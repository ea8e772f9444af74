"""The least history that leaves the cache as the forked request found it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.diagnosis.verdict import judge
from app.errors import StoreError
from app.trajectory.compare import compare
from app.trajectory.pair import NEAR_TIE_NATS, NoiseFloor, Pair, run_names
from app.trajectory.provenance import KvLedger
from app.trajectory.reproducer import WarmUp, needed, reproducer_of, warm_up_of, why_no_reproducer
from app.trajectory.step import as_ids, shared_length
from app.trajectory.trajectory import Request, Trajectory
from tests.builders import forked_pair_of_trajectories, request, step

PLAN: dict[str, Any] = {
    "max_tokens": 64,
    "rivals": 5,
    "sampling": {"temperature": 0.0, "top_k": 40, "top_p": 0.95, "seed": 42},
}
SYSTEM = list(range(1, 31))


def serve(conversations: Sequence[tuple[str, list[int], list[int]]]) -> list[tuple[str, Request]]:
    """Requests (writer, prompt ids, answer ids) as one State answers them in this order, with its counts and spans."""
    held: list[int] = []
    ledger = KvLedger()
    served = []
    for writer, prompt, answer in conversations:
        cached = min(shared_length(as_ids(held), as_ids(prompt)), len(prompt) - 1)
        spans = ledger.take(writer, prompt, cached, [len(prompt) - cached], answer)
        one = replace(request(0, prompt, [step(token) for token in answer], cached=cached), spans=spans)
        served.append((writer, one))
        held = prompt + answer[:-1]
    return served


def replayed(history: Sequence[WarmUp], last: Request) -> tuple[int, list[tuple[int, int, str, str, int]]]:
    """The count and the spans of `last` after serving `history` to an empty State."""
    answers = [(one.writer, one.prompt_ids.tolist(), one.answer_ids.tolist()) for one in history]
    _, again = serve([*answers, ("last", last.prompt.ids.tolist(), [1])])[-1]
    assert again.report is not None and again.report.cached_tokens is not None
    reused = again.report.cached_tokens
    return reused, [(s.start, s.length, s.kind, s.writer, s.chunk) for s in again.spans if s.start < reused]


def check(conversations: list[tuple[str, list[int], list[int]]]) -> list[str]:
    """The kept writers of the last request's history, after a check that the cache comes out the same."""
    *before, (_, last) = serve(conversations)
    kept = needed([warm_up_of(*one) for one in before], last)
    assert last.report is not None and last.report.cached_tokens is not None
    reused = last.report.cached_tokens
    spans = [(s.start, s.length, s.kind, s.writer, s.chunk) for s in last.spans if s.start < reused]
    assert replayed(kept, last) == (reused, spans)
    writers = [one.writer for one in kept]
    assert [one.writer for one in needed(kept, last)] == writers, "the least history needs nothing less"
    return writers


def test_only_requests_that_wrote_what_is_reused_are_kept() -> None:
    a1, a2 = [*SYSTEM, 50, 51], [*SYSTEM, 50, 51, 60, 61, 62]
    kept = check([
        ("a r1", a1, [60, 61, 2]),
        ("a r2", a2, [70, 71, 2]),
        ("b r1", [*SYSTEM, 80], [81, 2]),
        ("b r2", [*SYSTEM, 80, 81, 2, 90], [91, 2]),
        ("b r3", [*SYSTEM, 80, 81, 2, 90, 91, 2, 95], [96]),
    ])  # fmt: skip
    assert kept == ["a r1", "b r1", "b r2"]


def test_where_the_cache_would_keep_too_much_the_shortest_request_that_takes_it_away_is_kept_too() -> None:
    shared = [*SYSTEM, 50]  # b begins as a does, but c had cut the cache in between
    kept = check([
        ("a r1", [*shared, 51, 52], [60, 2]),
        ("c r1", [*SYSTEM, 70, 71, 72, 73], [74, 75, 2]),
        ("c r2", [*SYSTEM, 70, 71, 72, 73, 74, 75, 2, 76], [77, 2]),
        ("d r1", [*SYSTEM, 90], [91, 92, 2]),
        ("b r1", [*shared, 80], [81]),
    ])  # fmt: skip
    assert kept == ["a r1", "d r1"]


def test_what_takes_away_is_asked_for_one_token_and_its_own_count_is_not_known() -> None:
    *before, (_, last) = serve([
        ("a r1", [*SYSTEM, 50, 51], [60, 2]), ("c r1", [*SYSTEM, 70], [71, 72, 2]), ("b r1", [*SYSTEM, 50, 80], [81]),
    ])  # fmt: skip
    _, taker = needed([warm_up_of(*one) for one in before], last)
    assert (taker.writer, taker.max_tokens, len(taker.answer_ids), taker.cached_tokens) == ("c r1", 1, 1, None)


def test_where_counts_were_not_reported_the_whole_history_is_kept() -> None:
    *before, (_, last) = serve([("a r1", SYSTEM, [40, 2]), ("x r1", [99], [98]), ("b r1", [*SYSTEM, 7], [8])])
    assert last.report is not None
    unknown = replace(last, report=replace(last.report, cached_tokens=None))
    assert [one.writer for one in needed([warm_up_of(*one) for one in before], unknown)] == ["a r1", "x r1"]


def pair(cached: Trajectory, recompute: Trajectory, **changes: object) -> Pair:
    comparison = replace(compare(cached, recompute), **changes)  # type: ignore[arg-type]
    noise = NoiseFloor(0.1, 500)
    return Pair(
        cached, recompute, comparison, judge(comparison, cached, recompute, noise, near_tie=NEAR_TIE_NATS), noise
    )


def test_a_forked_pair_has_a_reproducer_with_all_that_a_replay_asks() -> None:
    forked = pair(*forked_pair_of_trajectories())
    found = reproducer_of(forked, (), PLAN)
    assert [one.writer for one in found.history] == ["made-00 r1", "made-00 r2"]
    assert found.prompt_ids.tolist() == forked.cached.requests[2].prompt.ids.tolist()
    assert found.fork == forked.comparison.fork and len(found.shared_ids) == 16
    assert (found.max_tokens, found.rivals, found.temperature, found.seed) == (64, 5, 0.0, 42)
    assert found.token_count == sum(len(one.prompt_ids) + one.max_tokens for one in found.history) + len(
        found.prompt_ids
    )


def test_a_pair_that_did_not_fork_at_a_token_has_none_and_says_why() -> None:
    cached, recompute = forked_pair_of_trajectories()
    equal = pair(cached, replace(cached, path=recompute.path))
    assert why_no_reproducer(equal) == "The two paths did not fork."
    with pytest.raises(StoreError, match="did not fork"):
        reproducer_of(equal, (), PLAN)
    shorter = replace(recompute, requests=recompute.requests[:2])
    assert "by their requests" in why_no_reproducer(pair(replace(cached, requests=cached.requests[:1]), shorter))
    assert "two runs of one path" in why_no_reproducer(pair(cached, recompute, names=run_names(2)))
    assert "compared by their text" in why_no_reproducer(pair(cached, recompute, level="text"))


@pytest.mark.parametrize(
    "changes",
    [
        {"max_tokens": "64"},
        {"rivals": -1},
        {"sampling": []},
        {"sampling": PLAN["sampling"] | {"temperature": float("nan")}},
        {"sampling": PLAN["sampling"] | {"seed": 0.5}},
    ],
)
def test_a_plan_that_does_not_say_how_tokens_were_chosen_is_a_sentence(changes: dict[str, Any]) -> None:
    with pytest.raises(StoreError, match="The plan of this run"):
        reproducer_of(pair(*forked_pair_of_trajectories()), (), PLAN | changes)
