"""How the tokens of an answer look: in lines, with near ties, the fork, the selection and the cursor marked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen, QPolygonF

from app.trajectory.piece_text import visible
from app.trajectory.trajectory import Path, Request
from app.views.block_text import END_OF_ANSWER
from app.views.pane_fonts import PaneFonts
from app.views.pane_marks import PaneMarks
from app.views.pane_state import PaneState
from app.views.token_layout import Body, Metrics


@dataclass(frozen=True, slots=True)
class Answer:
    """What is painted: one side's answer, where its first line begins, the step of the fork (None: not here), the
    first step after the fork, and whether it is still being written."""

    path: Path
    request: Request
    body: Body
    top: float
    fork_step: int | None
    grey_from: int
    grows: bool


class TokenPainter:
    """Paints the lines of an answer that are in view. Plain tokens, nearly all, cost one drawText each."""

    def __init__(self, painter: QPainter, fonts: PaneFonts, colour: Callable[[str], QColor], size: Metrics) -> None:
        self._painter = painter
        self._fonts = fonts
        self._colour = colour
        self._size = size
        metrics = fonts.metrics_of(fonts.token)
        self._base = (size.token_line + metrics.ascent() - metrics.descent()) / 2
        self._left = size.margin + size.indent

    def paint(self, answer: Answer, marks: PaneMarks, view: tuple[float, float], state: PaneState) -> None:
        """Paint what lies between the two heights of `view`."""
        body, height = answer.body, self._size.token_line
        begin = max(0, int((view[0] - answer.top) // height))
        end = min(body.line_count, int((view[1] - answer.top) // height) + 1)
        if begin >= end:
            return
        first, stop = int(body.starts[begin]), int(body.starts[end])
        special = self._special(answer, marks, first, stop, state)
        for line in range(begin, end):
            self._line(answer, line, special, state)
        if answer.grows and end == body.line_count:
            self._caret(answer)

    def _special(self, answer: Answer, marks: PaneMarks, first: int, stop: int, state: PaneState) -> dict[int, bool]:
        """The steps in view that are more than text, and whether they are near ties."""
        ties = marks.near_ties(answer.request.index)
        found = dict.fromkeys(ties[np.searchsorted(ties, first) : np.searchsorted(ties, stop)].tolist(), True)
        wide = first + np.flatnonzero(answer.body.widths[first:stop] >= self._size.available)
        selection, index = state.selection, answer.request.index
        others = [*wide.tolist(), *(() if answer.fork_step is None else (answer.fork_step,))]
        if state.header is None and state.cursor[0] == index:
            others.append(state.cursor[1])
        if selection and selection.path is answer.path:
            others += [step for step in range(first, stop) if selection.holds(answer.path, index, step)]
        return dict.fromkeys(others, False) | found

    def _line(self, answer: Answer, line: int, special: dict[int, bool], state: PaneState) -> None:
        painter, body, request = self._painter, answer.body, answer.request
        first, stop = int(body.starts[line]), int(body.starts[line + 1])
        y = answer.top + line * self._size.token_line
        painter.setFont(self._fonts.token)
        colour = ""
        for step, left in zip(range(first, stop), body.lefts[first:stop].tolist(), strict=True):
            if step in special:
                place = QRectF(self._left + left, y, float(body.widths[step]), self._size.token_line)
                self._marked(answer, step, place, special[step], state)
                painter.setFont(self._fonts.token)
                colour = ""
                continue
            wanted = "faint" if step >= answer.grey_from else "text"
            if wanted != colour:
                colour = wanted
                painter.setPen(self._colour(colour))
            painter.drawText(QPointF(self._left + left, y + self._base), visible(request.steps.piece(step)))

    def _marked(self, answer: Answer, step: int, place: QRectF, near: bool, state: PaneState) -> None:
        index, is_fork = answer.request.index, step == answer.fork_step
        text = END_OF_ANSWER if step == answer.body.marker else visible(answer.request.steps.piece(step))
        if near and not is_fork:
            self._fill(place, "near_tie")
        if state.selection and state.selection.holds(answer.path, index, step):
            self._fill(place, "selection")
        if is_fork:
            self._fork(place, text, step == answer.body.marker)
        else:
            colour = "near_tie_text" if near else "faint" if step >= answer.grey_from else "text"
            self._text(place, text, self._fonts.token, colour)
        if state.header is None and state.cursor == (index, step):
            self._cursor(place, is_fork)

    def _text(self, place: QRectF, text: str, font: QFont, colour: str) -> None:
        metrics = self._fonts.metrics_of(self._fonts.token)
        if metrics.horizontalAdvance(text) > place.width() + 1:
            text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, place.width())
        self._painter.setFont(font)
        self._painter.setPen(self._colour(colour))
        self._painter.drawText(QPointF(place.left(), place.top() + self._base), text)

    def _fill(self, place: QRectF, colour: str) -> None:
        half = self._size.token_gap / 2
        self._painter.setPen(Qt.PenStyle.NoPen)
        self._painter.setBrush(self._colour(colour))
        self._painter.drawRoundedRect(place.adjusted(-half, 3, half, -3), 3, 3)

    def _fork(self, place: QRectF, text: str, is_marker: bool) -> None:
        """The forked token: framed, filled and with a triangle under it, so that no one needs its colour to see it."""
        painter, size = self._painter, self._size
        unit = size.token_line / 26
        frame = place.adjusted(size.fork_room, 2.5 * unit, -size.fork_room, -2.5 * unit)
        painter.setBrush(self._colour("fork_fill"))
        style = Qt.PenStyle.DashLine if is_marker else Qt.PenStyle.SolidLine
        painter.setPen(QPen(self._colour("fork"), 1.8 * unit, style))
        painter.drawRoundedRect(frame, 4 * unit, 4 * unit)
        x, y = frame.center().x(), frame.bottom() + 2 * unit
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._colour("fork"))
        painter.drawPolygon(
            QPolygonF([QPointF(x, y), QPointF(x + 5 * unit, y + 5 * unit), QPointF(x - 5 * unit, y + 5 * unit)])
        )
        inner = QRectF(place).adjusted(size.fork_room + size.fork_pad, 0, -size.fork_room - size.fork_pad, 0)
        self._text(inner, text, self._fonts.text if is_marker else self._fonts.token_bold, "text")

    def _cursor(self, place: QRectF, is_fork: bool) -> None:
        half = 0.0 if is_fork else self._size.token_gap / 2 - 0.5
        inset = -0.5 if is_fork else 2.5
        self._painter.setPen(QPen(self._colour("muted"), 1.2))
        self._painter.setBrush(Qt.BrushStyle.NoBrush)
        self._painter.drawRoundedRect(place.adjusted(-half, inset, half, -inset), 4, 4)

    def _caret(self, answer: Answer) -> None:
        """A bar after the last token of an answer that is still being written."""
        body, size = answer.body, self._size
        x = self._left + float(body.lefts[-1] + body.widths[-1]) + size.token_gap
        y = answer.top + (body.line_count - 1) * size.token_line
        self._painter.fillRect(QRectF(x, y + 5, 2.5, size.token_line - 10), self._colour(answer.path.value))
