"""Selected tokens of one side and what copying them gives; finding a text in the answers. No Qt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.trajectory.piece_text import LONGEST, hex_bytes, visible
from app.trajectory.step import Step
from app.trajectory.trajectory import Path, Request, Trajectory
from app.views.pair_layout import Position

CopyKind = Literal["text", "tokens", "ids", "rows"]
ROW_HEADER = ("path", "request", "step", "token_id", "bytes", "text", "logprob", "margin")


@dataclass(frozen=True, slots=True)
class Selection:
    """Steps of one path from `anchor` to `head`, both included, in any order."""

    path: Path
    anchor: Position
    head: Position

    def holds(self, path: Path, request: int, step: int) -> bool:
        """Whether a step is selected."""
        low, high = sorted((self.anchor, self.head))
        return path is self.path and low <= (request, step) <= high

    def parts(self, trajectory: Trajectory) -> Iterator[tuple[Request, range]]:
        """Selected steps, request by request."""
        (first, start), (last, end) = sorted((self.anchor, self.head))
        for request in trajectory.requests[first : last + 1]:
            begin = start if request.index == first else 0
            stop = end + 1 if request.index == last else len(request.steps)
            yield request, range(begin, min(stop, len(request.steps)))


def copied(selection: Selection, trajectory: Trajectory, kind: CopyKind, pieces: Mapping[int, bytes]) -> str:
    """The selection as text, as visible tokens, as a JSON list of ids, or as tab-separated rows with a header.

    Rows count requests and steps from 1; logprob and margin are in nats and empty where not reported.
    """
    parts = list(selection.parts(trajectory))
    if kind == "ids":
        return json.dumps([int(token) for request, steps in parts for token in request.steps.token_ids[list(steps)]])
    if kind == "text":
        data = b"".join(request.steps.piece(step) for request, steps in parts for step in steps)
        return data.decode("utf-8", errors="replace")
    if kind == "tokens":
        return " ".join(visible(request.steps.piece(step)) for request, steps in parts for step in steps)
    lines = ["\t".join(ROW_HEADER)]
    lines += [
        _row(selection.path, request.index, index, request.steps.step(index, pieces))
        for request, steps in parts
        for index in steps
    ]
    return "\n".join(lines) + "\n"


def _row(path: Path, request: int, index: int, step: Step) -> str:
    numbers = ["" if value is None else f"{value:.6f}" for value in (step.logprob, step.margin)]
    shown = (hex_bytes(step.piece), visible(step.piece))
    return "\t".join((path.value, str(request + 1), str(index + 1), str(step.token_id), *shown, *numbers))


def hits(request: Request, needle: bytes) -> list[Position]:
    """Where a text (lower case) stands in an answer: first and last step of every place."""
    data = request.steps.piece_bytes.lower()
    found, at = [], data.find(needle)
    while at >= 0:
        ends = np.searchsorted(request.steps.piece_ends, (at, at + len(needle) - 1), side="right")
        found.append((int(ends[0]), int(ends[1])))
        at = data.find(needle, at + len(needle))
    return found


def find_next(
    sides: Sequence[Trajectory], text: str, origin: tuple[int, int, int], backwards: bool
) -> tuple[Selection, int] | None:
    """The next place of a text after `origin` = (request, step, side number), or before it; upper and lower case of
    ASCII letters are the same. Gives the place as a selection and the number of its side; None where there is none."""
    needle = text.encode("utf-8", errors="replace").lower()
    count = max((len(side.requests) for side in sides), default=0)
    if not needle:
        return None
    for index in range(origin[0], -1, -1) if backwards else range(origin[0], count):
        places = [
            (index, first, number, last)
            for number, side in enumerate(sides)
            if index < len(side.requests)
            for first, last in hits(side.requests[index], needle)
        ]
        beyond = [place for place in places if (place[:3] < origin if backwards else place[:3] > origin)]
        if beyond:
            _, first, number, last = max(beyond) if backwards else min(beyond)
            return Selection(sides[number].path, (index, first), (index, last)), number
    return None


def describe(side: Trajectory | None, request: int, step: int) -> str:
    """What a tooltip says of a token, line by line; empty where the path has no such step."""
    if side is None or not 0 <= request < len(side.requests) or not 0 <= step < len(side.requests[request].steps):
        return ""
    one = side.requests[request].steps.step(step, {})
    logprob, margin = ("not reported" if value is None else f"{value:.4f}" for value in (one.logprob, one.margin))
    return "\n".join(
        (
            f"{visible(one.piece)}   request {request + 1}, token {step + 1}",
            f"id {one.token_id} · bytes {hex_bytes(one.piece[:LONGEST]) or 'none'}",
            f"logprob {logprob} · margin {margin}" + ("" if one.margin is None else " nats"),
        )
    )
