"""The margin plot as an SVG: both paths on a log axis of nats, the change of margin in a lane below.

Paths differ in dash and mark as well as in colour, so that it reads in black and white. Classes take their colours
from the page's style sheet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.trajectory.margin_series import (
    FLOOR_NATS,
    FloatArray,
    MarginSeries,
    envelope,
    labelled_requests,
    log_margin,
    peaks,
)
from app.trajectory.step import MarginArray

WIDTH, HEIGHT = 1200, 236
LEFT, RIGHT, TOP, MIDDLE, LANE_TOP, BOTTOM = 52, 12, 16, 164, 176, 214
TOP_NATS = 30.0
COLUMNS = 560
MARKED_PIXELS = 9.0
"""From this distance of two steps on, each gets its mark."""
DASH_PIXELS = 2.0
"""Below this distance of two steps dashes would be all that is seen."""
LABEL_PIXELS = 74.0
NEAR_PIXELS = 90.0
"""Room of the near tie's label."""


@dataclass(frozen=True)
class _Frame:
    """Positions `first` to `last` (exclusive) across, `bottom` to TOP_NATS upwards."""

    first: int
    last: int
    bottom: float

    @property
    def unit(self) -> float:
        """Pixels of one step."""
        return (WIDTH - LEFT - RIGHT) / max(self.last - self.first, 1)

    def x(self, at: FloatArray | float) -> FloatArray:
        return np.asarray(LEFT + (np.asarray(at, float) - self.first + 0.5) * self.unit)

    def y(self, values: MarginArray) -> FloatArray:
        low, top = log_margin(np.array([self.bottom, TOP_NATS]))
        share = (log_margin(np.minimum(values, TOP_NATS)) - low) / (top - low)
        return np.asarray(MIDDLE - np.clip(share, 0, 1) * (MIDDLE - TOP))


def margin_svg(series: MarginSeries, near_tie: float, fork_label: str, first: int = 0, last: int | None = None) -> str:
    """Positions `first` to `last` (exclusive, None: all) of a pair's margins; "" where there is none to draw.

    Holds no text but numbers and our own words. `near_tie` in nats; `fork_label` as people count, e.g. "3:17".
    """
    last = len(series) if last is None else min(last, len(series))
    shown = np.concatenate([series.recompute[first:last], series.cached[first:last]])
    if not np.isfinite(shown).any():
        return ""
    least = float(np.nanmin(shown))
    frame = _Frame(first, last, max(min(0.02, near_tie / 5, least * 0.6), FLOOR_NATS))
    kind = "plot dense" if frame.unit < DASH_PIXELS else "plot"
    title = f"Top-two margin per step in nats, both paths, {last - first:,} steps"
    return "\n".join(
        [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" class="{kind}" role="img" aria-label="{title}">',
            *_axes(frame, series, near_tie),
            *_curves(frame, series),
            *_changes(frame, series),
            *_fork(frame, series, fork_label),
            "</svg>",
        ]
    )


def _axes(frame: _Frame, series: MarginSeries, near_tie: float) -> Iterator[str]:
    high = frame.y(np.array([near_tie]))[0]
    yield f'<rect class="band" x="{LEFT}" y="{high:.1f}" width="{WIDTH - LEFT - RIGHT}" height="{MIDDLE - high:.1f}"/>'
    for decade in (10.0, 1.0, 0.1, 0.01, 0.001):
        if frame.bottom <= decade <= TOP_NATS:
            y = frame.y(np.array([decade]))[0]
            yield f'<path class="decade" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{decade:g}</text>'
    yield f'<path class="axis" d="M{LEFT} {BOTTOM - 8}H{WIDTH - RIGHT}"/>'
    for start in series.starts[1:-1]:
        if frame.first < start < frame.last and len(series.starts) * 7 < WIDTH:
            yield f'<path class="boundary" d="M{frame.x(float(start) - 0.5):.1f} {TOP}V{BOTTOM - 8}"/>'
    labels = labelled_requests(series.starts, frame.first - 0.5, frame.last - 0.5, frame.unit, LABEL_PIXELS)
    for at, request in labels:
        place = f'x="{frame.x(at):.1f}" y="{HEIGHT - 6}" text-anchor="middle"'
        yield f'<text class="tick" {place}>request {request + 1}</text>'
    at_left = series.fork is not None and frame.x(float(series.fork)) > WIDTH - RIGHT - NEAR_PIXELS
    edge, anchor = (LEFT + 5, "start") if at_left else (WIDTH - RIGHT - 5, "end")  # where the fork's line is not
    yield f'<text class="near" x="{edge}" y="{MIDDLE - 5}" text-anchor="{anchor}">near tie &lt; {near_tie:g}</text>'


def _curves(frame: _Frame, series: MarginSeries) -> Iterator[str]:
    """Greyed after the fork first, so that what counts lies above."""
    end = frame.last if series.fork is None else min(series.fork + 1, frame.last)
    for part, first, last in (("after", max(end - 1, frame.first), frame.last), ("before", frame.first, end)):
        for path, values in (("cached", series.cached), ("recompute", series.recompute)):
            if part == "after" and series.fork is None:
                continue
            at, margins = envelope(values, first, max(first, last), COLUMNS)
            x, y = frame.x(at), frame.y(margins)
            yield f'<path class="{path} {part}" d="{_line(x, y)}"/>'
            if part == "before" and frame.unit >= MARKED_PIXELS:
                yield f'<path class="{path} mark" d="{_marks(x, y, path)}"/>'


def _line(x: FloatArray, y: FloatArray) -> str:
    """A path that leaves gaps where a margin is unknown."""
    drawn, pen = [], "M"
    for left, top in zip(x.tolist(), y.tolist(), strict=True):
        if np.isfinite(top):
            drawn.append(f"{pen}{left:.1f} {top:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(drawn)


def _marks(x: FloatArray, y: FloatArray, path: str) -> str:
    """A diamond a step for the cached path, a dot for the recompute path."""
    shape = "m0-4l4 4l-4 4l-4-4z" if path == "cached" else "m-2.2 0a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0-4.4 0z"
    places = zip(x.tolist(), y.tolist(), strict=True)
    return "".join(f"M{left:.1f} {top:.1f}{shape}" for left, top in places if np.isfinite(top))


def _changes(frame: _Frame, series: MarginSeries) -> Iterator[str]:
    at, heights, width = peaks(series.change, frame.first, frame.last, COLUMNS // 3)
    yield f'<text class="tick" x="{LEFT - 6}" y="{BOTTOM - 8}" text-anchor="end">|Δ|</text>'
    if not len(heights) or not heights.max():
        return
    top, floor = float(heights.max()), BOTTOM - 8
    scaled = heights / top * (floor - LANE_TOP)
    wide = max(min(width * 0.6 * frame.unit, 10.0), 1.0)
    bars = zip(frame.x(at).tolist(), scaled.tolist(), strict=True)
    drawn = "".join(f"M{left - wide / 2:.1f} {floor}v-{tall:.1f}h{wide:.1f}v{tall:.1f}z" for left, tall in bars)
    yield f'<path class="change" d="{drawn}"/>'
    yield f'<text class="tick" x="{LEFT - 6}" y="{LANE_TOP + 6}" text-anchor="end">{top:.2g}</text>'


def _fork(frame: _Frame, series: MarginSeries, label: str) -> Iterator[str]:
    if series.fork is None or not frame.first <= series.fork < max(frame.last, frame.first + 1):
        return
    x = float(frame.x(float(series.fork)))
    yield f'<path class="fork-line" d="M{x:.1f} {TOP - 4}V{BOTTOM - 8}"/>'
    margin = series.fork_margin
    if margin is not None:
        y = frame.y(np.array([margin]))[0]
        yield f'<path class="fork-mark" d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6-6z"/>'
    anchor, shift = ("start", 6) if x < WIDTH - 160 else ("end", -6)
    yield f'<text class="fork-label" x="{x + shift:.1f}" y="{TOP + 2}" text-anchor="{anchor}">fork {label}</text>'
