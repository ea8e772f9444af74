"""Where the step cursor can go: arithmetic over two trajectories. Knows no Qt.

A place is (request, step), both from 0; a request has as many steps as its longer side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.trajectory.pair import Fork, ForkKind
from app.trajectory.trajectory import Path, Trajectory

Place = tuple[int, int]
Sides = Sequence[Trajectory | None]


def size_of(sides: Sides, request: int) -> int:
    """Steps of a request on its longer side; 0 where no side has it."""
    return max((len(s.requests[request].steps) for s in sides if s and request < len(s.requests)), default=0)


def sizes(sides: Sides) -> list[int]:
    """Steps of every request."""
    count = max((len(side.requests) for side in sides if side), default=0)
    return [size_of(sides, request) for request in range(count)]


def neighbour(sides: Sides, place: Place, count: int) -> Place:
    """The place `count` steps on (negative: back), across requests; stops at the first and last step."""
    lengths = np.asarray(sizes(sides), dtype=np.int64)
    if not lengths.sum():
        return place
    starts = np.concatenate(([0], np.cumsum(lengths)))
    request = min(place[0], len(lengths) - 1)
    at = int(np.clip(starts[request] + min(place[1], max(0, lengths[request] - 1)) + count, 0, starts[-1] - 1))
    request = int(np.searchsorted(starts, at, side="right")) - 1
    return request, at - int(starts[request])


def edge_of_request(sides: Sides, place: Place, end: bool) -> Place:
    """The first or the last step of the request at `place`."""
    return place[0], max(0, size_of(sides, place[0]) - 1) if end else 0


def place_of_fork(fork: Fork) -> Place:
    """Where the cursor stands on a fork: a fork of prompts lies before the request's first step."""
    return fork.request, 0 if fork.kind is ForkKind.PROMPT or fork.step is None else fork.step


def near_ties(sides: Sides, nats: float) -> list[Place]:
    """Places whose recompute margin lies below `nats`, in order; empty while there is no recompute side."""
    recompute = next((side for side in sides if side and side.path is Path.RECOMPUTE), None)
    if recompute is None:
        return []
    at = np.flatnonzero(recompute.margins < nats)
    requests = np.searchsorted(recompute.step_starts, at, side="right") - 1
    return [(int(r), int(s - recompute.step_starts[r])) for r, s in zip(requests, at, strict=True)]


def read_place(text: str, lengths: Sequence[int]) -> Place | str:
    """A place from "3:17" or "3" as a person counts, or the sentence that says what is wrong with it."""
    head, _, tail = text.strip().partition(":")
    if not head.isdecimal() or (tail and not tail.isdecimal()):
        return "Write request:token, such as 3:17."
    request, step = int(head), int(tail or 1)
    if not 1 <= request <= len(lengths):
        return f"There is no request {request}; the last one is {len(lengths)}."
    if not 1 <= step <= max(1, lengths[request - 1]):
        return f"Request {request} has {lengths[request - 1]} tokens."
    return request - 1, step - 1
