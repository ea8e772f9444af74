"""The per-position table: both paths token by token around the fork. Numbers count from 1 here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.bundle.report_tables import Table, request_at
from app.bundle.report_words import SAME, id_text, known, nats, side_names, signed_nats, token_text
from app.trajectory.margin_series import MarginSeries
from app.trajectory.pair import Fork, ForkKind, Pair
from app.trajectory.step import IdArray
from app.trajectory.trajectory import Trajectory

AROUND_STEPS = 16
"""Rows before and after the fork."""


def centre(series: MarginSeries) -> int:
    """The position that both reports show from near: the fork, or without one the largest change of margin."""
    if series.fork is not None:
        return min(series.fork, max(len(series) - 1, 0))
    known = np.flatnonzero(np.isfinite(series.change))
    return int(known[np.argmax(series.change[known])]) if len(known) else max(len(series) - 1, 0)


def position_table(pair: Pair, near_tie: float, *, redacted: bool, around: int = AROUND_STEPS) -> Table:
    """Both paths position by position around the fork; of a fork in the prompts, the prompts' ids."""
    fork = pair.comparison.fork
    if fork is not None and fork.kind is ForkKind.PROMPT and fork.step is not None:
        return _prompt_table(pair, fork, around, redacted=redacted)
    series = MarginSeries.of(pair.cached, pair.recompute, fork)
    middle = centre(series)
    rows: list[tuple[str, ...]] = []
    marks: dict[int, str] = {}
    for position in range(max(middle - around, 0), min(middle + around + 1, len(series))):
        if fork is not None and series.fork is not None and position >= series.fork:
            marks[len(rows)] = "fork" if position == series.fork else "after"
        elif series.recompute[position] < near_tie:
            marks[len(rows)] = "near"
        after = marks.get(len(rows)) == "after"
        rows.append(_position(pair, *series.locate(position), after=after, redacted=redacted))
    left, right = side_names(pair)
    head = (
        "position", f"{right} token", "id", f"{left} token", "id", f"{right} logprob", f"{left} logprob", "difference",
        f"{right} margin", f"{left} margin",
    )  # fmt: skip
    return Table(head, tuple(rows), marks)


def _position(pair: Pair, request: int, step: int, *, after: bool, redacted: bool) -> tuple[str, ...]:
    left, right = (_step(side, request, step, redacted=redacted) for side in (pair.cached, pair.recompute))
    same = left.token_id == right.token_id and left.token_id is not None
    comparable = same and not after and left.logprob is not None and right.logprob is not None
    return (
        f"{request + 1}:{step + 1}",
        right.text, right.id_text, SAME if same else left.text, SAME if same else left.id_text,
        right.logprob_text, left.logprob_text,
        signed_nats((left.logprob or 0.0) - (right.logprob or 0.0)) if comparable else "",
        right.margin_text, left.margin_text,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Cell:
    token_id: int | None = None
    text: str = ""
    id_text: str = ""
    logprob: float | None = None
    logprob_text: str = ""
    margin_text: str = ""


def _step(side: Trajectory, request: int, step: int, *, redacted: bool) -> _Cell:
    found = request_at(side, request)
    if found is None or step >= len(found.steps):
        return _Cell()
    steps, token_id = found.steps, int(found.steps.token_ids[step])
    logprob, margin = known(steps.logprobs[step]), known(steps.margins[step])
    text = token_text(steps.piece(step), token_id, redacted=redacted)
    return _Cell(token_id, text, id_text(token_id), logprob, nats(logprob), nats(margin))


def _prompt_table(pair: Pair, fork: Fork, around: int, *, redacted: bool) -> Table:
    assert fork.step is not None
    left, right = (side.requests[fork.request].prompt.ids for side in (pair.cached, pair.recompute))
    first, last = max(fork.step - around, 0), min(fork.step + around + 1, max(len(left), len(right)))
    rows = [
        (
            f"{fork.request + 1}:{at + 1}",
            *_prompt_cell(right, at, pair, redacted),
            *_prompt_cell(left, at, pair, redacted),
        )
        for at in range(first, last)
    ]
    marks = {at - first: "fork" if at == fork.step else "after" for at in range(fork.step, last)}
    names = side_names(pair)
    return Table(("prompt token", f"{names[1]} token", "id", f"{names[0]} token", "id"), tuple(rows), marks)


def _prompt_cell(ids: IdArray, at: int, pair: Pair, redacted: bool) -> tuple[str, str]:
    if at >= len(ids):
        return "", ""
    token_id = int(ids[at])
    piece = pair.pieces.get(token_id)
    return token_text(piece, token_id, redacted=redacted), id_text(token_id)
