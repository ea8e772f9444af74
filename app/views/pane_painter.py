"""How one token pane looks: the rows of a `PairLayout` that are in view, painted."""

from __future__ import annotations

import sys
from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from app.trajectory.trajectory import Path, Request, Status
from app.views import block_text
from app.views.pair_layout import Kind, PairLayout, Row
from app.views.pane_fonts import PaneFonts
from app.views.pane_marks import PaneMarks
from app.views.pane_state import PaneState
from app.views.theme import Theme
from app.views.token_layout import Paragraph
from app.views.token_painter import Answer, TokenPainter

CLOSED_MARK, OPEN_MARK = "▸", "▾"


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

    def paint(self, painter: QPainter, path: Path, scroll: float, view: tuple[float, float], state: PaneState) -> None:
        """Paint what lies between the two heights of `view`, in a pane that is scrolled by `scroll`."""
        layout = self._layout
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(0.0, -scroll)
        tokens = TokenPainter(painter, self.fonts, self._colour, layout.metrics)
        for index in layout.rows_between(*view):
            row, top = layout.rows[index], float(layout.tops[index])
            request = layout.request(path, row.first)
            if request is None:
                self._missing(painter, path, row, top)
                continue
            self._header(painter, path, row, top, self._holds_cursor(row, state))
            if row.is_open and row.kind is not Kind.RUN:
                self._paragraphs(painter, path, row, top)
                if row.kind is Kind.REQUEST:
                    tokens.paint(self._answer(path, request, top, row), self._marks, view, state)

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
        forked_here = self._layout.grey_from(row.first) < sys.maxsize
        for (_, above, _), paragraph, offset in self._layout.paragraphs(path, row):
            y = top + offset
            gutter = QRectF(size.margin + size.gap, y, size.indent - size.gap, size.line)
            colour = self._paragraph_colour(paragraph, row.after_fork or (forked_here and not above))
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
    def _paragraph_colour(paragraph: Paragraph, after_fork: bool) -> str:
        if paragraph.tone == "fork":
            return "fork"
        if paragraph.tone == "note":
            return "near_tie_text"
        return "faint" if after_fork else "muted"

    def _answer(self, path: Path, request: Request, top: float, row: Row) -> Answer:
        layout, side = self._layout, self._layout.sides[path]
        grows = request.report is None and side is not None and side.status is Status.RUNNING
        first_line = top + layout.sections(row).tokens
        return Answer(
            path,
            request,
            layout.body(path, row),
            first_line,
            layout.fork_step(row.first),
            layout.grey_from(row.first),
            grows,
        )
