"""What the engine reported of one request, both paths side by side."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QColor, QResizeEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QHeaderView, QWidget

from app.trajectory.pair import PATH_NAMES, Names
from app.trajectory.telemetry import ROWS, telemetry
from app.trajectory.trajectory import Request
from app.views.copy_table import CopyTable
from app.views.theme import Theme


class TelemetryTable(CopyTable):
    """ROWS of one request on both paths."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__("Telemetry of the request", parent)
        self._items = [[QStandardItem(text), QStandardItem(), QStandardItem()] for text in ("", *ROWS)]
        self._values: tuple[tuple[str, str], ...] = ()
        self._table = QStandardItemModel(self)
        for row in self._items:
            for item in row[1:]:
                item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            for item in row:
                item.setEditable(False)
            self._table.appendRow(row)
        self.setModel(self._table)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        self.set_names(PATH_NAMES)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        for row in self._items:
            for item, colour in zip(row, (theme.muted, theme.text, theme.text), strict=True):
                item.setForeground(QColor(colour))
        title, cached, recompute = self._items[0]
        font = self.font()
        font.setBold(True)
        title.setFont(font)
        title.setForeground(QColor(theme.text))
        cached.setForeground(QColor(theme.cached))
        recompute.setForeground(QColor(theme.recompute))

    def set_names(self, names: Names) -> None:
        """What the two sides are called."""
        for item, name in zip(self._items[0][1:], names, strict=True):
            item.setText(name)

    def show_requests(self, number: int, cached: Request | None, recompute: Request | None) -> None:
        """Show what was reported of request `number` (from 1)."""
        self._items[0][0].setText(f"Request {number}")
        values = tuple(zip(telemetry(cached), telemetry(recompute), strict=True))
        if values == self._values:
            return
        self._values = values
        for row, sides in zip(self._items[1:], values, strict=True):
            for item, value in zip(row[1:], sides, strict=True):
                item.setText(value)
        self._fit()

    def _fit(self) -> None:
        """Rows high enough for what wraps: "not reported" must never be cut."""
        metrics, line = self.fontMetrics(), round(self.fontMetrics().height() * 1.4)
        for at, row in enumerate(self._items):
            heights = []
            for column, item in enumerate(row[1:], start=1):
                box = QRect(0, 0, max(self.columnWidth(column) - 8, 20), 1000)
                heights.append(metrics.boundingRect(box, Qt.TextFlag.TextWordWrap, item.text()).height())
            self.setRowHeight(at, max(line, *heights) if max(heights) <= metrics.height() else max(heights) + 4)
        self.updateGeometry()

    def minimumSizeHint(self) -> QSize:
        """Wide enough for the names of both paths."""
        column = self.fontMetrics().horizontalAdvance("recompute") + 10
        return QSize(self.columnWidth(0) + 2 * column, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width wraps at other places."""
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the text size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_items"):
            font = self.font()
            font.setBold(True)
            self._items[0][0].setFont(font)
            self._fit()
