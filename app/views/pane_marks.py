"""What is worth a mark in the token panes and on the overview ruler: near ties, the fork, rewritten prompts. No Qt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.trajectory.pair import NEAR_TIE_NATS, ForkKind
from app.trajectory.trajectory import Path, Request
from app.views.pair_layout import Kind, PairLayout
from app.views.token_layout import Lengths

Indices = NDArray[np.intp]


class PaneMarks:
    """Marks over a `PairLayout`. A near tie is a step up to the fork with recompute margin below `near_tie` nats."""

    def __init__(self, layout: PairLayout) -> None:
        self._layout = layout
        self._near_tie = NEAR_TIE_NATS
        self._known: dict[int, tuple[Request, Indices]] = {}

    def set_near_tie(self, nats: float) -> None:
        """Change the threshold."""
        self._near_tie = nats
        self._known.clear()

    def near_ties(self, request: int) -> Indices:
        """Steps of a request that are near ties, int [n], rising; none while there is no recompute side."""
        own = self._layout.request(Path.RECOMPUTE, request)
        if own is None:
            return np.empty(0, dtype=np.intp)
        known = self._known.get(request)
        if known is None or known[0] is not own:
            known = self._known[request] = own, np.flatnonzero(own.steps.margins < self._near_tie)
        return known[1][: np.searchsorted(known[1], self._layout.grey_from(request))]

    def near_tie_heights(self) -> Lengths:
        """Heights of all near ties in the layout, float64 [n]."""
        last = self._layout.fork.request + 1 if self._layout.fork else self._layout.request_count
        found = [
            self._heights(request, steps)
            for request in range(min(last, self._layout.request_count))
            if len(steps := self.near_ties(request))
        ]
        return np.concatenate(found) if found else np.empty(0)

    def fork_height(self) -> float | None:
        """Height of the fork; None without one."""
        fork = self._layout.fork
        if fork is None or fork.request >= self._layout.request_count:
            return None
        half = self._layout.metrics.header / 2
        step = -1 if fork.kind is ForkKind.PROMPT or fork.step is None else fork.step
        return self._layout.y_of(fork.request, step) + half

    def mismatch_heights(self, path: Path) -> list[float]:
        """Heights of the requests whose prompt does not continue the one before."""
        side = self._layout.sides[path]
        half = self._layout.metrics.header / 2
        return [
            self._layout.y_of(request.index, -1) + half
            for request in (side.requests if side else ())
            if request.prompt.mismatch is not None
        ]

    def _heights(self, request: int, steps: Indices) -> Lengths:
        layout = self._layout
        index = layout.row_of(request)
        row, top = layout.rows[index], float(layout.tops[index])
        if row.kind is not Kind.REQUEST or not row.is_open:
            return np.full(1, top + layout.metrics.header / 2)
        lines = np.searchsorted(layout.body(Path.RECOMPUTE, row).starts, steps, side="right") - 1
        return np.asarray(top + layout.sections(row).tokens + (lines + 0.5) * layout.metrics.token_line)
