"""The words in a block of the token panes: its title, its messages, its remarks. No Qt; all of it is inert."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.trajectory.episode import Message, ToolCall, ToolResult
from app.trajectory.pair import Fork, ForkKind, ForkSide
from app.trajectory.piece_text import inert, quoted
from app.trajectory.trajectory import Path, Request, Status, Trajectory
from app.views.theme import FORK_MARK
from app.views.token_layout import Remark

END_OF_ANSWER = "end of answer"
_ARGUMENT_LENGTH = 32
_OUTCOMES = {"reached": "reached", "missed": "missed", "error": "error", "overflow": "context full", "none": "no check"}


@dataclass(frozen=True, slots=True)
class Title:
    """A block's first line: `name` first, `detail` after it where the block is folded, `right` where it is open."""

    name: str
    detail: str = ""
    right: str = ""


def plural(count: int, noun: str) -> str:
    """ "1 token", "1 204 tokens" with thin spaces between thousands."""
    return f"{count:,}".replace(",", "\u2009") + f" {noun}" + ("" if count == 1 else "s")


def one_line(text: str, longest: int = 200) -> str:
    """The beginning of a text with its line ends as spaces."""
    return inert(" ".join(text[: 4 * longest].split()))[:longest]


def split_opening(trajectory: Trajectory | None) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The messages before the first turn, and the first turn's own: the last user message and what follows it."""
    if trajectory is None or not trajectory.requests:
        return (), ()
    added = trajectory.requests[0].prompt.added
    users = [index for index, message in enumerate(added) if message.role == "user"]
    at = users[-1] if users else len(added)
    return added[:at], added[at:]


def call_text(call: ToolCall) -> str:
    """find_events(day="Tuesday"), long values cut; a call that could not be used says so."""
    if call.arguments is None:
        return f"{one_line(call.name or 'call', 40)}: not a usable call"
    values = ((key, json.dumps(value, ensure_ascii=False)) for key, value in call.arguments.items())
    shown = (
        f"{key}={value if len(value) <= _ARGUMENT_LENGTH else value[:_ARGUMENT_LENGTH] + '…'}" for key, value in values
    )
    return one_line(f"{call.name}({', '.join(shown)})")


def deeds(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> str:
    """What an answer did: its calls, and which of them got an error."""
    failed = [not result.ok for result in results] + [False] * len(calls)
    return ", ".join(call_text(call) + (" → error" if bad else "") for call, bad in zip(calls, failed, strict=False))


def request_deed(request: Request) -> str:
    """An answer in one line: its tool calls, or how its text begins."""
    if request.calls:
        return deeds(request.calls, request.results)
    begin = one_line(request.steps.piece_bytes[:400].decode("utf-8", errors="replace"), 80)
    return f"“{begin}”" if begin else ""


def is_equal(left: Request | None, right: Request | None) -> bool:
    """Whether both paths gave the same, finished answer."""
    if left is None or right is None or left.report is None or right.report is None:
        return False
    return np.array_equal(left.steps.token_ids, right.steps.token_ids)


def request_title(request: Request, other: Request | None, fork: Fork | None) -> Title:
    """Title of a request's block on the side of `request`; `other` is the same request on the other path."""
    count = len(request.steps)
    tokens = plural(count, "token")
    if fork is not None and request.index > fork.request:
        kind = "after the fork"
    elif (fork is None or request.index < fork.request) and is_equal(request, other):
        kind = plural(count, "equal token")
    else:
        kind = tokens
    if request.report:
        finish = f"finish: {request.report.finish_reason} · {tokens}"
    else:
        finish = f"{tokens} so far" if count else "no token yet"
    detail = " · ".join(part for part in (kind, request_deed(request)) if part)
    return Title(f"Request {request.index + 1}", detail, finish)


def run_title(requests: Sequence[Request]) -> Title:
    """Title of a run of equal requests."""
    names = Counter(one_line(call.name, 40) for request in requests for call in request.calls)
    calls = ", ".join(name if times == 1 else f"{name} ×{times}" for name, times in names.most_common())
    count = plural(sum(len(request.steps) for request in requests), "equal token")
    detail = " · ".join(part for part in (count, calls) if part)
    return Title(f"Requests {requests[0].index + 1}–{requests[-1].index + 1}", detail, detail)


def opening_title(trajectory: Trajectory, other: Trajectory | None) -> Title:
    """Title of the block of opening messages, with how much of the first prompt is equal on both paths."""
    ids = trajectory.requests[0].prompt.ids
    equal = other is not None and bool(other.requests) and np.array_equal(ids, other.requests[0].prompt.ids)
    count = plural(len(ids), "equal token" if equal else "token")
    messages = plural(len(split_opening(trajectory)[0]), "message")
    return Title("System and tools", f"first prompt {count}", f"{messages} · first prompt {count}")


def outcome_title(trajectory: Trajectory) -> Title | None:
    """Title of the last block; None while the trajectory runs."""
    if trajectory.status is Status.RUNNING:
        return None
    ended = "" if trajectory.status is Status.DONE else f"{trajectory.status.value} · "
    detail = one_line(trajectory.outcome.detail)
    kind = _OUTCOMES[trajectory.outcome.kind]
    return Title("Outcome", f"{ended}{kind}: {detail}" if detail else f"{ended}{kind}", f"{ended}{kind}")


def remarks_before(trajectory: Trajectory, request: Request, fork: Fork | None) -> list[Remark]:
    """What stands above an answer: the messages that are new in its prompt, and what is odd about the prompt."""
    remarks = []
    if request.prompt.mismatch is not None:
        text = f"The prompt does not continue the previous prompt and answer: rewritten from token \
{request.prompt.mismatch + 1} on."
        remarks.append(Remark("note", text, "note"))
    if fork is not None and fork.kind is ForkKind.PROMPT and fork.request == request.index:
        remarks.append(Remark("fork", prompt_fork_text(fork, trajectory.path), "fork"))
    messages = split_opening(trajectory)[1] if request.index == 0 else request.prompt.added
    for message in messages:
        if request.index and message.role == "assistant":
            continue  # the previous answer: it stands above, token by token
        remarks.append(Remark(one_line(message.role, 12), message.content or "(empty)"))
    return remarks


def prompt_fork_text(fork: Fork, path: Path) -> str:
    """The sentence in a block whose prompts differ."""
    own, other = (fork.cached, fork.recompute) if path is Path.CACHED else (fork.recompute, fork.cached)
    here, there = (_prompt_token(side) for side in (own, other))
    position = (fork.step or 0) + 1
    return f"{FORK_MARK} The prompts differ first at token {position}: {here} here, {there} on the other path."


def _prompt_token(side: ForkSide | None) -> str:
    """A prompt's token by its quote; by its id where the engine gave no bytes for it."""
    if side is None:
        return "the prompt's end"
    return quoted(side.piece) if side.piece else f"id {side.token_id}"


def remarks_after(trajectory: Trajectory, request: Request) -> list[Remark]:
    """What stands below an answer: what the engine remarked, and results that no later prompt shows."""
    remarks = []
    if request.report and request.report.problem:
        remarks.append(Remark("check", f"▲ {request.report.problem}", "fork"))
    if request.report and request.report.note:
        remarks.append(Remark("note", request.report.note, "note"))
    if request.index == len(trajectory.requests) - 1:
        remarks += [Remark("tool", result.text or "(empty)") for result in request.results]
    return remarks


def missing_request(index: int, fork: Fork | None) -> str:
    """What stands in the place of a request that only the other path has; empty where nothing need be said."""
    if fork is not None and fork.kind is ForkKind.REQUESTS and fork.request == index:
        return f"{FORK_MARK} No request {index + 1} on this path"
    return ""
