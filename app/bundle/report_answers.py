"""The whole answers of a pair: what each request was asked anew, and what either side answered, as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.bundle.report_words import SIDES, side_names, token_text
from app.trajectory.pair import ForkKind, Pair
from app.trajectory.piece_text import inert
from app.trajectory.step import StepBlock
from app.trajectory.trajectory import Request

LONGEST_MESSAGE = 3000
"""Characters of a message that are shown; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in three parts: before the fork, the token there, after it. `side` is one of SIDES, or "both"."""

    side: str
    name: str
    before: str
    fork: str = ""
    after: str = ""


@dataclass(frozen=True)
class Exchange:
    """Request `number` (from 1): (role, text) of what is new in it, and one answer where both sides agree, else one a
    side. `mark` is "fork", "after" (the fork) or ""."""

    number: int
    asked: tuple[tuple[str, str], ...]
    answers: tuple[Answer, ...]
    mark: str


def exchanges(pair: Pair, *, redacted: bool) -> Iterator[Exchange]:
    """Every request of a pair."""
    fork = pair.comparison.fork
    for index in range(max(len(pair.cached.requests), len(pair.recompute.requests))):
        sides = _sides(pair, index)
        at = None
        if fork is not None and index == fork.request and fork.kind is not ForkKind.PROMPT:
            at = fork.step
        mark = "" if fork is None or index < fork.request else "fork" if index == fork.request else "after"
        if not mark and len(sides) == 2:
            sides = [("both", "both", sides[0][2])]
        added = () if redacted else sides[0][2].prompt.added
        yield Exchange(
            index + 1,
            tuple((message.role, _message(message.content)) for message in added),
            tuple(_answer(side, name, request.steps, at, redacted=redacted) for side, name, request in sides),
            mark,
        )


def _sides(pair: Pair, index: int) -> list[tuple[str, str, Request]]:
    """(side, what it is called, its request) of the sides that have this request; at least one."""
    runs = zip(SIDES, side_names(pair), (pair.cached, pair.recompute), strict=True)
    return [(side, name, run.requests[index]) for side, name, run in runs if index < len(run.requests)]


def _message(text: str) -> str:
    shown = inert(text)
    return shown if len(shown) <= LONGEST_MESSAGE else f"{shown[:LONGEST_MESSAGE]}… (+{len(shown) - LONGEST_MESSAGE:,})"


def _answer(side: str, name: str, steps: StepBlock, at: int | None, *, redacted: bool) -> Answer:
    if redacted:
        return Answer(side, name, f"{len(steps):,} tokens; their text was taken out")
    if at is None:
        return Answer(side, name, _text(steps, 0, len(steps)))
    if at >= len(steps):
        return Answer(side, name, _text(steps, 0, len(steps)), "ends here")
    piece = token_text(steps.piece(at), int(steps.token_ids[at]), redacted=False)
    return Answer(side, name, _text(steps, 0, at), piece, _text(steps, at + 1, len(steps)))


def _text(steps: StepBlock, first: int, last: int) -> str:
    """The text of some steps; whoever reads it sees lines and spaces as they are, all else that acts written out."""
    start, end = (int(steps.piece_ends[n - 1]) if n else 0 for n in (first, last))
    return inert(steps.piece_bytes[start:end].decode("utf-8", errors="surrogateescape"))
