"""How one token pane looks: the rows of a `PairLayout` that are in view, painted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontMetricsF, QPainter, QPen, QPolygonF

from app.trajectory.trajectory import Path, Request
from app.views import block_text
from app.views.pair_layout import Kind, PairLayout, Row
from app.views.pane_marks import PaneMarks
from app.views.pane_state import PaneState
from app.views.piece_text import visible
from app.views.style import ui_font
from app.views.theme import Theme
from app.views.token_layout import Advances, Body, Metrics, Paragraph

CLOSED_MARK, OPEN_MARK = "▸", "▾"


class PaneFonts:
    """The faces of a pane at one text scale, and the sizes that follow from them."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.text = ui_font(scale)
        self.text.setKerning(False)  # advances are sums, see token_layout
        self.bold = QFont(self.text)
        self.bold.setWeight(QFont.Weight.DemiBold)
        self.small = ui_font(scale * 0.88)
        self.token = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        self.token.setFamilies([*self.token.families(), "DejaVu Sans Mono"])
        self.token.setPointSizeF(self.text.pointSizeF())
        self.token.setKerning(False)
        self.token_bold = QFont(self.token)
        self.token_bold.setBold(True)
        self._metrics = {id(font): QFontMetricsF(font) for font in (self.text, self.bold, self.small, self.token)}

    def metrics_of(self, font: QFont) -> QFontMetricsF:
        """Metrics of one of these fonts."""
        return self._metrics[id(font)]

    @cached_property
    def advances(self) -> tuple[Advances, Advances]:
        """Advance widths of messages and of tokens."""
        text, token = self.metrics_of(self.text), self.metrics_of(self.token)
        return Advances(text.horizontalAdvance), Advances(token.horizontalAdvance)

    def pane_metrics(self, width: float) -> Metrics:
        """Sizes of a pane of this width."""
        return Metrics(width).scaled(self.metrics_of(self.text).height() / 14.0, width)


class PanePainter:
    """Paints one side of a layout. One painter serves both panes; it holds looks, no state of what is shown."""

    def __init__(self, theme: Theme, fonts: PaneFonts, layout: PairLayout, marks: PaneMarks) -> None:
        self.fonts = fonts
        self._layout = layout
        self._marks = marks
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self.theme = theme
        self._colour: Callable[[str], QColor] = {
            name: QColor(getattr(theme, name)) for name in theme.__slots__ if name != "name"
        }.__getitem__

    def path_colour(self, path: Path) -> QColor:
        """The colour of a path."""
        return self._colour(path.value)

    def paint(self, painter: QPainter, path: Path, scroll: float, height: float, state: PaneState) -> None:
        """Paint what lies between `scroll` and `scroll + height` of one side."""
        layout = self._layout
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(0.0, -scroll)
        for index in layout.rows_between(scroll, scroll + height):
            row, top = layout.rows[index], float(layout.tops[index])
            request = layout.request(path, row.first)
            if request is None:
                self._missing(painter, path, row, top)
                continue
            self._header(painter, path, row, top, self._holds_cursor(row, state))
            if row.is_open and row.kind is not Kind.RUN:
                self._paragraphs(painter, path, row, top)
                if row.kind is Kind.REQUEST:
                    self._tokens(painter, path, request, top, row, (scroll, scroll + height), state)

    def hint(self, painter: QPainter, area: QRectF, text: str) -> None:
        """Paint what to do next into an empty pane."""
        painter.setFont(self.fonts.text)
        painter.setPen(self._colour("muted"))
        flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
        painter.drawText(area.adjusted(24, 24, -24, -24), int(flags), text)

    def _holds_cursor(self, row: Row, state: PaneState) -> bool:
        if state.header is not None:
            return state.header == row.key
        hides = row.kind is Kind.RUN or (row.kind is Kind.REQUEST and not row.is_open)
        shown = row.kind is Kind.RUN and row.is_open
        return hides and not shown and row.first <= state.cursor[0] <= row.last

    def _header(self, painter: QPainter, path: Path, row: Row, top: float, has_cursor: bool) -> None:
        title = self._title(path, row)
        if title is None:
            return
        size = self._layout.metrics
        area = QRectF(size.margin, top, size.width - 2 * size.margin, size.header)
        if not row.is_open:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._colour("block"))
            painter.drawRoundedRect(area, 4, 4)
        if has_cursor:
            painter.setPen(QPen(self._colour("muted"), 1.2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(area.adjusted(0.6, 0.6, -0.6, -0.6), 4, 4)
        inner = area.adjusted(size.gap, 0, -size.gap, 0)
        colour = "faint" if row.after_fork else ("text" if row.is_open else "muted")
        mark = f"{OPEN_MARK if row.is_open else CLOSED_MARK} " if self._can_unfold(path, row) else ""
        font = self.fonts.bold if row.is_open else self.fonts.text
        name = mark + title.name
        if row.is_open:
            self._line(painter, inner, name, font, colour)
            used = self.fonts.metrics_of(font).horizontalAdvance(name) + 2 * size.gap
            right = inner.adjusted(used, 0, 0, 0)
            self._line(painter, right, title.right, self.fonts.text, "faint" if row.after_fork else "muted", right=True)
        else:
            self._line(painter, inner, f"{name} · {title.detail}" if title.detail else name, font, colour)

    def _can_unfold(self, path: Path, row: Row) -> bool:
        side = self._layout.sides[path]
        return row.kind is not Kind.OUTCOME or (side is not None and bool(side.outcome.detail))

    def _title(self, path: Path, row: Row) -> block_text.Title | None:
        layout = self._layout
        side, other = layout.sides[path], layout.sides[Path.RECOMPUTE if path is Path.CACHED else Path.CACHED]
        if side is None:
            return None
        if row.kind is Kind.OPENING:
            return block_text.opening_title(side, other)
        if row.kind is Kind.OUTCOME:
            return block_text.outcome_title(side)
        if row.kind is Kind.RUN:
            return block_text.run_title(side.requests[row.first : row.last + 1])
        beside = other.requests[row.first] if other and row.first < len(other.requests) else None
        return block_text.request_title(side.requests[row.first], beside, layout.fork)

    def _line(
        self, painter: QPainter, area: QRectF, text: str, font: QFont, colour: str, *, right: bool = False
    ) -> None:
        metrics = self.fonts.metrics_of(font)
        if metrics.horizontalAdvance(text) > area.width():
            text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, area.width())
        painter.setFont(font)
        painter.setPen(self._colour(colour))
        left = area.right() - metrics.horizontalAdvance(text) if right else area.left()
        painter.drawText(QPointF(left, self._baseline(area.top(), area.height(), metrics)), text)

    @staticmethod
    def _baseline(top: float, height: float, metrics: QFontMetricsF) -> float:
        return top + (height + metrics.ascent() - metrics.descent()) / 2

    def _missing(self, painter: QPainter, path: Path, row: Row, top: float) -> None:
        side = self._layout.sides[path]
        if row.kind is Kind.OUTCOME and side is not None:
            self._header(painter, path, row, top, False)
            return
        text = block_text.missing_request(row.first, self._layout.fork)
        if text and side is not None:
            size = self._layout.metrics
            area = QRectF(size.margin, top, size.width - 2 * size.margin, size.header)
            painter.setPen(QPen(self._colour("fork"), 1.2, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(area, 4, 4)
            self._line(painter, area.adjusted(size.gap, 0, -size.gap, 0), text, self.fonts.text, "fork")

    def _paragraphs(self, painter: QPainter, path: Path, row: Row, top: float) -> None:
        size = self._layout.metrics
        left = size.margin + size.indent
        metrics = self.fonts.metrics_of(self.fonts.text)
        for _, paragraph, offset in self._layout.paragraphs(path, row):
            y = top + offset
            gutter = QRectF(size.margin + size.gap, y, size.indent - 1.5 * size.gap, size.line)
            colour = self._paragraph_colour(row, paragraph)
            self._line(painter, gutter, paragraph.role, self.fonts.small, colour if colour == "fork" else "faint")
            painter.setFont(self.fonts.text)
            painter.setPen(self._colour(colour))
            for line in paragraph.lines:
                painter.drawText(QPointF(left, self._baseline(y, size.line, metrics)), line)
                y += size.line
            if paragraph.hidden:
                more = QRectF(left, y, size.available, size.line)
                text = f"{CLOSED_MARK} {block_text.plural(paragraph.hidden, 'more line')}"
                self._line(painter, more, text, self.fonts.small, path.value)

    @staticmethod
    def _paragraph_colour(row: Row, paragraph: Paragraph) -> str:
        if paragraph.tone == "fork":
            return "fork"
        if paragraph.tone == "note":
            return "near_tie_text"
        return "faint" if row.after_fork else "muted"

    def _tokens(
        self,
        painter: QPainter,
        path: Path,
        request: Request,
        top: float,
        row: Row,
        view: tuple[float, float],
        state: PaneState,
    ) -> None:
        size, body = self._layout.metrics, self._layout.body(path, row)
        first_line = top + self._layout.sections(row).tokens
        begin = max(0, int((view[0] - first_line) // size.token_line))
        end = min(body.line_count, int((view[1] - first_line) // size.token_line) + 1)
        if begin >= end:
            return
        fork_step = self._layout.fork_step(request.index)
        first, stop = int(body.starts[begin]), int(body.starts[end])
        ties = self._marks.near_ties(request.index)
        near = set(ties[np.searchsorted(ties, first) : np.searchsorted(ties, stop)].tolist())
        left = size.margin + size.indent
        for line in range(begin, end):
            y = first_line + line * size.token_line
            for step in range(int(body.starts[line]), int(body.starts[line + 1])):
                place = QRectF(left + float(body.lefts[step]), y, float(body.widths[step]), size.token_line)
                if state.selection and state.selection.holds(path, request.index, step):
                    self._fill(painter, place, "selection")
                text = block_text.END_OF_ANSWER if step == body.marker else visible(request.steps.piece(step))
                if step == fork_step:
                    self._fork(painter, place, text, body.marker == step)
                else:
                    self._token(painter, place, text, step in near, row, step)
                if state.header is None and (request.index, step) == state.cursor:
                    self._cursor(painter, place, step == fork_step)
        self._caret(painter, path, request, body, first_line)

    def _token(self, painter: QPainter, place: QRectF, text: str, near: bool, row: Row, step: int) -> None:
        colour = "faint" if self._layout.is_after_fork(row.first, step) else "text"
        if near:
            self._fill(painter, place, "near_tie")
            colour = "near_tie_text"
        size = self._layout.metrics
        if place.width() >= size.available:
            self._line(painter, place, text, self.fonts.token, colour)
            return
        painter.setFont(self.fonts.token)
        painter.setPen(self._colour(colour))
        metrics = self.fonts.metrics_of(self.fonts.token)
        painter.drawText(QPointF(place.left(), self._baseline(place.top(), place.height(), metrics)), text)

    def _fill(self, painter: QPainter, place: QRectF, colour: str) -> None:
        half = self._layout.metrics.token_gap / 2
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._colour(colour))
        painter.drawRoundedRect(place.adjusted(-half, 3, half, -3), 3, 3)

    def _fork(self, painter: QPainter, place: QRectF, text: str, is_marker: bool) -> None:
        """The forked token: framed, filled and with a triangle under it, so that no one needs its colour to see it."""
        size = self._layout.metrics
        unit = size.token_line / 26
        frame = place.adjusted(size.fork_room, 2.5 * unit, -size.fork_room, -2.5 * unit)
        painter.setBrush(self._colour("fork_fill"))
        style = Qt.PenStyle.DashLine if is_marker else Qt.PenStyle.SolidLine
        painter.setPen(QPen(self._colour("fork"), 1.8 * unit, style))
        painter.drawRoundedRect(frame, 4 * unit, 4 * unit)
        x, y = frame.center().x(), frame.bottom() + 2 * unit
        triangle = QPolygonF([QPointF(x, y), QPointF(x + 5 * unit, y + 5 * unit), QPointF(x - 5 * unit, y + 5 * unit)])
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._colour("fork"))
        painter.drawPolygon(triangle)
        font = self.fonts.text if is_marker else self.fonts.token_bold
        metrics = self.fonts.metrics_of(self.fonts.token)
        painter.setFont(font)
        painter.setPen(self._colour("text"))
        origin = QPointF(frame.left() + size.fork_pad, self._baseline(place.top(), place.height(), metrics))
        painter.save()
        painter.setClipRect(frame)
        painter.drawText(origin, text)
        painter.restore()

    def _cursor(self, painter: QPainter, place: QRectF, is_fork: bool) -> None:
        half = 0.0 if is_fork else self._layout.metrics.token_gap / 2 - 0.5
        inset = -0.5 if is_fork else 2.5
        painter.setPen(QPen(self._colour("muted"), 1.2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(place.adjusted(-half, inset, half, -inset), 4, 4)

    def _caret(self, painter: QPainter, path: Path, request: Request, body: Body, first_line: float) -> None:
        """A bar after the last token of an answer that is still being written."""
        side = self._layout.sides[path]
        if request.report is not None or side is None or side.status.value != "running" or not len(body.widths):
            return
        size = self._layout.metrics
        x = size.margin + size.indent + float(body.lefts[-1] + body.widths[-1]) + size.token_gap
        y = first_line + (body.line_count - 1) * size.token_line
        painter.fillRect(QRectF(x, y + 5, 2.5, size.token_line - 10), self._colour(path.value))
