"""What lies under a point of a token pane, and where Up and Down lead from the step cursor. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.trajectory.trajectory import Path
from app.views.pair_layout import Kind, PairLayout, ParagraphKey, Position, Row
from app.views.pane_state import PaneState
from app.views.step_cursor import edge_of_request, neighbour
from app.views.token_layout import Paragraph


@dataclass(frozen=True, slots=True)
class Hit:
    """What is at a point: a row's title, a token (or the nearest one of its line), a message, its unfolding line."""

    kind: Literal["title", "token", "message", "more", "nothing"]
    row: int = -1
    position: Position | None = None
    exact: bool = False
    paragraph: Paragraph | None = None
    key: ParagraphKey | None = None


def hit(layout: PairLayout, path: Path, x: float, y: float) -> Hit:
    """What is at (x, y) of one side's content. `exact` is False where the point is beside the token."""
    index = next(iter(layout.rows_between(y, y + 1e-6)), -1)
    if index < 0:
        return Hit("nothing")
    row, inside = layout.rows[index], y - float(layout.tops[index])
    size = layout.metrics
    if inside < size.header:
        return Hit("title", index)
    if not row.is_open or row.kind is Kind.RUN:
        return Hit("nothing", index)
    for key, paragraph, top in layout.paragraphs(path, row):
        if top <= inside < top + paragraph.line_count * size.line:
            on_last = inside >= top + (paragraph.line_count - 1) * size.line
            kind: Literal["more", "message"] = "more" if on_last and paragraph.hidden else "message"
            return Hit(kind, index, paragraph=paragraph, key=key)
    body = layout.body(path, row)
    line = int((inside - layout.sections(row).tokens) // size.token_line)
    if row.kind is not Kind.REQUEST or not 0 <= line < body.line_count:
        return Hit("nothing", index)
    along = x - size.margin - size.indent
    step = body.nearest(line, along)
    gap = size.token_gap / 2
    exact = bool(body.lefts[step] - gap <= along <= body.lefts[step] + body.widths[step] + gap)
    return Hit("token", index, position=(row.first, step), exact=exact)


Motion = Literal["left", "right", "up", "down", "home", "end", "fold"]


def move(layout: PairLayout, path: Path, state: PaneState, motion: Motion) -> PaneState:
    """Where a key leads: a step on or back, a line up or down, the first or last step of the request."""
    if motion == "up":
        return line_up(layout, path, state)
    if motion == "down":
        return line_down(layout, path, state)
    sides = tuple(layout.sides.values())
    if motion in ("home", "end"):
        return PaneState(edge_of_request(sides, state.cursor, motion == "end"), None, state.selection)
    return PaneState(neighbour(sides, state.cursor, 1 if motion == "right" else -1), None, state.selection)


def line_up(layout: PairLayout, path: Path, state: PaneState) -> PaneState:
    """The cursor one line higher: a line of tokens, or the title of a row."""
    index, line, x = _place(layout, path, state)
    if line is None:
        return _enter_from_below(layout, path, state, index - 1, x) if index else state
    if line > 0:
        return _at_line(layout, path, state, index, line - 1, x)
    return _title(layout, state, index)


def line_down(layout: PairLayout, path: Path, state: PaneState) -> PaneState:
    """The cursor one line lower."""
    index, line, x = _place(layout, path, state)
    count = _lines(layout, path, layout.rows[index]) if layout.rows else 0
    below = 0 if line is None else line + 1
    if below < count:
        return _at_line(layout, path, state, index, below, x)
    return _title(layout, state, index + 1) if index + 1 < len(layout.rows) else state


def _lines(layout: PairLayout, path: Path, row: Row) -> int:
    return layout.body(path, row).line_count if row.is_open and row.kind is Kind.REQUEST else 0


def _place(layout: PairLayout, path: Path, state: PaneState) -> tuple[int, int | None, float]:
    """Row and token line of the cursor (None: it is on the row's title), and its distance from the indent."""
    if state.header is not None:
        index = layout.row_with(state.header)
        if index is not None:
            return index, None, 0.0
    index = layout.row_of(state.cursor[0]) if state.cursor[0] < layout.request_count else 0
    place = layout.token_place(path, *state.cursor)
    if place is None:
        return index, None, 0.0
    line = layout.body(path, layout.rows[index]).line_of(state.cursor[1])
    return index, line, place[0] + place[2] / 2 - layout.metrics.margin - layout.metrics.indent


def _at_line(layout: PairLayout, path: Path, state: PaneState, index: int, line: int, x: float) -> PaneState:
    row = layout.rows[index]
    return PaneState((row.first, layout.body(path, row).nearest(line, x)), None, state.selection)


def _title(layout: PairLayout, state: PaneState, index: int) -> PaneState:
    row = layout.rows[index]
    inside = row.kind not in (Kind.REQUEST, Kind.RUN) or row.first <= state.cursor[0] <= row.last
    return PaneState(state.cursor if inside else (row.first, 0), row.key, state.selection)


def _enter_from_below(layout: PairLayout, path: Path, state: PaneState, index: int, x: float) -> PaneState:
    count = _lines(layout, path, layout.rows[index])
    return _at_line(layout, path, state, index, count - 1, x) if count else _title(layout, state, index)
