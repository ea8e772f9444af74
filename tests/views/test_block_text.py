"""The words in the blocks of the token panes."""

from __future__ import annotations

from dataclasses import replace

from app.trajectory.episode import Message, Outcome, ToolCall, ToolResult
from app.trajectory.pair import Fork, ForkKind, ForkSide
from app.trajectory.trajectory import Path, Status
from app.views import block_text
from tests.builders import forked_pair_of_trajectories, request, step, trajectory

SIDE = ForkSide(1, b" 14", -0.7, 0.04)
FORK = Fork(ForkKind.TOKEN, 2, 16, SIDE, SIDE)


def test_a_request_before_the_fork_says_that_its_tokens_are_equal_and_what_it_called() -> None:
    cached, recompute = forked_pair_of_trajectories()
    title = block_text.request_title(cached.requests[0], recompute.requests[0], FORK)
    assert title.name == "Request 1"
    assert title.detail == "30 equal tokens · move_event(id=7, hour=14)"
    assert title.right == "finish: stop · 30 tokens"


def test_a_request_after_the_fork_says_so_and_names_the_call_that_failed() -> None:
    call, result = ToolCall("get", {"id": 7}, "{}"), ToolResult("get", "no such id", False)
    own = request(3, range(5), [step(1)], calls=(call,), results=(result,))
    assert block_text.request_title(own, None, FORK).detail == "after the fork · get(id=7) → error"


def test_an_answer_without_calls_is_named_by_how_it_begins() -> None:
    own = request(0, range(5), [step(1, piece=b"Moved \n to\x1b 14.")])
    assert block_text.request_title(own, None, None).detail == "1 token · “Moved to\\x1B 14.”"


def test_an_open_request_says_how_far_it_is() -> None:
    own = replace(request(0, range(5), [step(1)]), report=None)
    assert block_text.request_title(own, own, None).right == "1 token so far"


def test_an_unusable_call_and_long_arguments_stay_short() -> None:
    assert block_text.call_text(ToolCall("get", None, "{", "not JSON")) == "get: not a usable call"
    assert len(block_text.call_text(ToolCall("get", {"text": "x" * 5000}, "{}"))) < 60


def test_a_run_counts_its_tokens_and_calls() -> None:
    cached, _ = forked_pair_of_trajectories()
    title = block_text.run_title(cached.requests[:3])
    assert (title.name, title.detail) == ("Requests 1–3", "90 equal tokens · move_event ×3")


def test_the_opening_ends_before_the_first_turn() -> None:
    added = (Message("system", "s"), Message("user", "2+2?"), Message("assistant", "4"), Message("user", "now"))
    side = trajectory([request(0, range(5), [step(1)], added=added)])
    opening, turn = block_text.split_opening(side)
    assert [message.content for message in opening] == ["s", "2+2?", "4"]
    assert [remark.text for remark in block_text.remarks_before(side, side.requests[0], None)] == ["now"]
    assert turn == added[3:]
    assert block_text.opening_title(side, side).detail == "first prompt 5 equal tokens"
    assert block_text.opening_title(side, None).detail == "first prompt 5 tokens"


def test_the_previous_answer_is_not_shown_again_as_a_message() -> None:
    added = (Message("assistant", "earlier"), Message("tool", "result"))
    side = trajectory([request(0, range(5), [step(1)]), request(1, range(9), [step(1)], added=added)])
    assert [remark.role for remark in block_text.remarks_before(side, side.requests[1], None)] == ["tool"]


def test_a_rewritten_prompt_and_a_prompt_fork_are_remarked_counting_from_1() -> None:
    own = request(2, range(5), [step(1)], added=())
    own = replace(own, prompt=replace(own.prompt, mismatch=17))
    fork = Fork(ForkKind.PROMPT, 2, 17, SIDE, ForkSide(2, b" 15", None, None))
    texts = [remark.text for remark in block_text.remarks_before(trajectory([own], path=Path.RECOMPUTE), own, fork)]
    assert texts[0].endswith("rewritten from token 18 on.")
    assert texts[1] == "◆ The prompts differ first at token 18: ‘ 15’ here, ‘ 14’ on the other path."


def test_only_the_last_request_shows_its_results_and_a_contradiction_of_counts_is_shown() -> None:
    result = ToolResult("get", "done", True)
    first, last = (request(index, range(5), [step(1)], results=(result,)) for index in range(2))
    assert last.report is not None
    last = replace(last, report=replace(last.report, problem="n_p_eval says 9, not 5"))
    side = trajectory([first, last])
    assert block_text.remarks_after(side, first) == []
    assert [remark.text for remark in block_text.remarks_after(side, last)] == ["▲ n_p_eval says 9, not 5", "done"]


def test_the_outcome_is_named_when_there_is_one() -> None:
    side = trajectory([], outcome=Outcome("missed", "event 7 was not moved"))
    title = block_text.outcome_title(side)
    assert title is not None
    assert title.detail == "missed: event 7 was not moved"
    stopped = block_text.outcome_title(replace(side, status=Status.STOPPED, outcome=Outcome("none")))
    assert stopped is not None
    assert stopped.detail == "stopped · no check"
    assert block_text.outcome_title(replace(side, status=Status.RUNNING)) is None
