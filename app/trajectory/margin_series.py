"""The margins of both paths on one axis of steps, and what of them fits on a screen. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.trajectory.pair import Fork, ForkKind
from app.trajectory.step import IdArray, MarginArray
from app.trajectory.trajectory import Trajectory

FLOOR_NATS = 1e-3
"""The log axis ends here; an exact tie (margin 0) is drawn on it."""
STRIDES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MarginSeries:
    """Both paths aligned by (request, step): position p is the same step on both, as far as they agree.

    `starts` int32 [requests + 1]: at which position a request starts, room for the longer of its two answers; the last
    entry is the number of positions. `cached` and `recompute` float64 [positions]: top-two margin in nats, NaN where
    the path has no step there or its margin is unknown. `change` float64 [positions]: |margin_cached -
    margin_recompute| up to and including the fork, NaN elsewhere. `fork` is the position of the fork.
    """

    starts: IdArray
    cached: MarginArray
    recompute: MarginArray
    change: MarginArray
    fork: int | None

    @classmethod
    def of(cls, cached: Trajectory | None, recompute: Trajectory | None, fork: Fork | None) -> MarginSeries:
        """Align two trajectories; either may be missing or still growing."""
        starts = _common_starts(cached, recompute)
        left, right = _spread(cached, starts), _spread(recompute, starts)
        at = None
        if fork is not None:
            at = int(starts[min(fork.request, len(starts) - 1)]) + _step_of(fork)
        change = np.abs(left - right)
        if fork is not None and at is not None:
            change[at + (fork.kind is not ForkKind.PROMPT) :] = np.nan
        return cls(starts, left, right, change, at)

    def __len__(self) -> int:
        return len(self.cached)

    def position(self, request: int, step: int) -> int:
        """Where (request, step), both from 0, lies on the axis; clipped to what there is."""
        if not len(self):
            return 0
        request = min(max(request, 0), len(self.starts) - 2)
        return min(int(self.starts[request]) + max(step, 0), max(int(self.starts[request + 1]) - 1, 0))

    def locate(self, position: int) -> tuple[int, int]:
        """(request, step) from 0 at a position."""
        position = min(max(position, 0), max(len(self) - 1, 0))
        request = max(int(np.searchsorted(self.starts[:-1], position, side="right")) - 1, 0)
        return request, position - int(self.starts[request])

    @property
    def fork_margin(self) -> float | None:
        """Margin at the fork in nats, of the recompute path where it has a step there; None where neither does."""
        sides = (self.recompute, self.cached) if self.fork is not None and self.fork < len(self) else ()
        return next((float(side[self.fork]) for side in sides if np.isfinite(side[self.fork])), None)

    @property
    def exact_ties(self) -> IdArray:
        """Positions where a path had two equal largest logprobs."""
        return np.flatnonzero((self.cached <= 0) | (self.recompute <= 0)).astype(np.int32)

    def near_ties(self, threshold_nats: float) -> int:
        """Steps up to and including the fork with a recompute margin below the threshold."""
        end = None if self.fork is None else self.fork + 1
        return int(np.count_nonzero(self.recompute[:end] < threshold_nats))


def _step_of(fork: Fork) -> int:
    """A fork of the prompts or of the number of requests lies where the request starts."""
    return fork.step if fork.step is not None and fork.kind in (ForkKind.TOKEN, ForkKind.LENGTH) else 0


def _lengths(trajectory: Trajectory | None) -> IdArray:
    return np.diff(trajectory.step_starts).astype(np.int32) if trajectory is not None else np.empty(0, np.int32)


def _common_starts(cached: Trajectory | None, recompute: Trajectory | None) -> IdArray:
    left, right = _lengths(cached), _lengths(recompute)
    longest = np.zeros(max(len(left), len(right)), np.int32)
    longest[: len(left)] = left
    longest[: len(right)] = np.maximum(longest[: len(right)], right)
    return np.concatenate(([0], np.cumsum(longest))).astype(np.int32)


def _spread(trajectory: Trajectory | None, starts: IdArray) -> MarginArray:
    """A trajectory's margins on the common axis."""
    spread = np.full(int(starts[-1]), np.nan)
    if trajectory is not None and trajectory.step_count:
        lengths = _lengths(trajectory)
        shift = np.repeat(starts[: len(lengths)] - trajectory.step_starts[:-1], lengths)
        spread[np.arange(trajectory.step_count) + shift] = trajectory.margins
    return spread


def envelope(values: MarginArray, first: int, last: int, columns: int) -> tuple[FloatArray, FloatArray]:
    """Positions and values of values[first:last], at most about 2 a column: the least and the largest of each bucket.

    A dip or a peak is never lost, however many steps share a column of pixels. NaN only where a bucket holds nothing
    else.
    """
    first, last = max(first, 0), min(last, len(values))
    size = max(-(-(last - first) // max(columns, 1)), 1)
    first -= first % size  # the same buckets wherever the view begins, so that nothing flickers while it moves
    shown = values[first:last]
    if size == 1:
        return np.arange(first, first + len(shown), dtype=np.float64), np.asarray(shown)
    edges = np.arange(0, len(shown), size)
    least, largest = np.fmin.reduceat(shown, edges), np.fmax.reduceat(shown, edges)
    at = np.repeat(edges + first + (size - 1) / 2, 2)
    return at, np.column_stack((largest, least)).ravel()


def peaks(values: MarginArray, first: int, last: int, columns: int) -> tuple[FloatArray, FloatArray, float]:
    """Centres, heights and width of bars of values[first:last]: the largest of each bucket; no bar where all is NaN."""
    at, heights = envelope(values, first, last, columns)
    width = 1.0
    if len(at) >= 2 and at[0] == at[1]:
        at, heights = at[::2], heights[::2]
        width = float(at[1] - at[0]) if len(at) > 1 else 1.0
    known = np.isfinite(heights)
    return at[known], heights[known], width


def log_margin(values: MarginArray) -> FloatArray:
    """log10 of margins in nats, cut at FLOOR_NATS; NaN stays NaN."""
    return np.asarray(np.log10(np.maximum(values, FLOOR_NATS)))


def labelled_requests(
    starts: IdArray, first: float, last: float, pixels_per_step: float, label_pixels: float
) -> list[tuple[float, int]]:
    """(position, request from 0) of the requests whose labels fit between two positions, thinned out evenly."""
    low = max(int(np.searchsorted(starts, first, side="right")) - 1, 0)
    high = min(int(np.searchsorted(starts, last, side="left")), len(starts) - 1)
    if high <= low:
        return []
    mean_pixels = max((last - first) * pixels_per_step / (high - low), 1e-9)
    stride = next((s for s in STRIDES if s * mean_pixels >= label_pixels), STRIDES[-1])
    labels: list[tuple[float, int]] = []
    free_from = -np.inf
    for request in range(low, high):
        if (request + 1) % stride and not (request == 0 and stride > 1):
            continue
        start, end = max(float(starts[request]), first), min(float(starts[request + 1]), last)
        middle = (start + end - 1) / 2 if stride == 1 else float(starts[request])
        if (middle - free_from) * pixels_per_step >= label_pixels:
            labels.append((middle, request))
            free_from = middle
    return labels
