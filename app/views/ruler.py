"""The overview ruler beside the panes: the whole document, what is in view, and where the marks are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.views.theme import Theme
from app.views.token_layout import Lengths

WIDTH = 18
_END = 8.0


@dataclass(frozen=True)
class RulerMarks:
    """Heights in the document: near ties (float64 [n]), the fork, rewritten prompts."""

    near_ties: Lengths = field(default_factory=lambda: np.empty(0))
    fork: float | None = None
    mismatches: tuple[float, ...] = ()


class Ruler(QWidget):
    """Scrolls by click and drag. Near tie: a thin line. Fork: a thick one with a diamond. Rewritten prompt: a notch."""

    scroll_requested = Signal(float)  # the height that should come to the middle of the view

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._marks = RulerMarks()
        self._height = 0.0
        self._cursor = 0.0
        self._ties: tuple[float, list[QRectF]] | None = None
        self._view = (0.0, 1.0)
        self.setFixedWidth(WIDTH)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Overview")
        self.setToolTip("Overview: fork, near ties and rewritten prompts. Click or drag to scroll.")

    def sizeHint(self) -> QSize:
        """A narrow column."""
        return QSize(WIDTH, 100)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.update()

    def set_marks(self, marks: RulerMarks, height: float) -> None:
        """Show marks of a document of this height; 0: there is none."""
        self._marks, self._height, self._ties = marks, height, None
        self.update()

    def set_cursor(self, height: float) -> None:
        """Show where the step cursor is."""
        if height != self._cursor:
            self._cursor = height
            self.update()

    def set_view(self, top: float, height: float) -> None:
        """Show which part is in view."""
        if (top, height) != self._view:
            self._view = (top, height)
            self.update()

    def _track(self) -> float:
        return max(1.0, self.height() - 2 * _END)

    def _scale(self) -> float:
        """Pixels of ruler for a pixel of document; a short document is not stretched."""
        return self._track() / max(1.0, self._height, self._view[1])

    def to_ruler(self, y: float) -> float:
        """Where a height of the document is on the ruler."""
        return _END + y * self._scale()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint track, marks and view."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), QColor(self._theme.panel))
        middle = self.width() / 2
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.line))
        painter.drawRoundedRect(QRectF(middle - 4, _END, 8, self._track()), 3, 3)
        if not self._height:
            painter.end()
            return
        self._near_ties(painter, middle)
        for height in self._marks.mismatches:
            y = self.to_ruler(height)
            painter.fillRect(QRectF(middle - 7, y - 2, 4, 4), QColor(self._theme.text))
        painter.fillRect(QRectF(middle + 3, self.to_ruler(self._cursor) - 1, 4, 2), QColor(self._theme.muted))
        self._fork(painter, middle)
        self._viewport(painter, middle)
        painter.end()

    def _near_ties(self, painter: QPainter, middle: float) -> None:
        if self._ties is None or self._ties[0] != self._scale():
            heights = np.unique(np.round(_END + self._marks.near_ties * self._scale()))
            self._ties = self._scale(), [QRectF(middle - 4, y, 8, 1.5) for y in heights.tolist()]
        painter.setBrush(QColor(self._theme.near_tie_text))
        painter.drawRects(self._ties[1])

    def _fork(self, painter: QPainter, middle: float) -> None:
        if self._marks.fork is None:
            return
        y = self.to_ruler(self._marks.fork)
        painter.fillRect(QRectF(middle - 7, y - 1.5, 14, 3), QColor(self._theme.fork))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.fork))
        corners = (QPointF(middle, y - 5), QPointF(middle + 5, y), QPointF(middle, y + 5), QPointF(middle - 5, y))
        painter.drawPolygon(QPolygonF(corners))

    def _viewport(self, painter: QPainter, middle: float) -> None:
        top, height = self._view
        scale = self._scale()
        area = QRectF(middle - 7.5, _END + top * scale, 15, max(10.0, min(height * scale, self._track())))
        fill = QColor(self._theme.muted)
        fill.setAlpha(40)
        painter.setBrush(fill)
        painter.setPen(QPen(QColor(self._theme.muted), 1.2))
        painter.drawRoundedRect(area, 3, 3)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Bring what is under the mouse to the middle of the view."""
        self.scroll_requested.emit((event.position().y() - _END) / self._scale())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag."""
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.mousePressEvent(event)
