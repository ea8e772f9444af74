"""The pair table's rows: how they are drawn, and how wide their columns are."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.views.pair_model import CHANGED, COLUMNS, EPISODE, FORK, MARK, VERDICT

LEAST = (MARK, EPISODE, FORK)
"""Columns that stay however narrow the table, however large the text."""


class _RowDelegate(QStyledItemDelegate):
    """The current row in bold, with an accent bar at its left edge."""

    def __init__(self, view: PairRows) -> None:
        super().__init__(view)
        self._view = view

    def initStyleOption(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> None:
        super().initStyleOption(option, index)
        palette = option.palette
        palette.setBrush(palette.ColorRole.HighlightedText, palette.brush(palette.ColorRole.Text))
        if index.row() == self._view.currentIndex().row() and index.column() == EPISODE:
            option.font.setBold(True)
        if index.column() == EPISODE:
            option.textElideMode = Qt.TextElideMode.ElideMiddle  # a star at the end stays
        if index.column() == CHANGED:
            option.font.setPointSizeF(option.font.pointSizeF() * 0.9)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().paint(painter, option, index)
        if index.column() == MARK and index.row() == self._view.currentIndex().row():
            rect = option.rect
            painter.fillRect(rect.x(), rect.y(), 3, rect.height(), QColor(self._view.accent))


class PairRows(QTableView):
    """The table itself: whole rows, one current; an empty one says what to do next."""

    def __init__(self, accent: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.accent = accent
        self.empty_text = ""
        self.setAccessibleName("Pairs")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setShowGrid(False)
        self.setSortingEnabled(True)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setItemDelegate(_RowDelegate(self))
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        header.setHighlightSections(False)
        header.setMinimumSectionSize(18)
        header.setStyleSheet("QHeaderView::section { padding: 4px 3px }")
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)

    def paintEvent(self, event: QPaintEvent) -> None:
        """The rows, or the sentence where there are none."""
        super().paintEvent(event)
        if self.model() is not None and not self.model().rowCount():
            painter = QPainter(self.viewport())
            painter.setPen(self.palette().placeholderText().color())
            box = self.viewport().rect().adjusted(12, 18, -12, -12)
            painter.drawText(box, Qt.AlignmentFlag.AlignHCenter | Qt.TextFlag.TextWordWrap, self.empty_text)

    def fit_columns(self) -> None:
        """Widths for the present text size; the last shown column takes the rest."""
        self.verticalHeader().setDefaultSectionSize(round(self.fontMetrics().height() * 1.65))
        header = self.horizontalHeader()
        for column in range(len(COLUMNS)):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Interactive)
            self.setColumnWidth(column, self._needed(column))
        header.setSectionResizeMode(
            EPISODE if self.isColumnHidden(VERDICT) else VERDICT, QHeaderView.ResizeMode.Stretch
        )

    def _needed(self, column: int) -> int:
        """Pixels for a column's title and its widest usual text."""
        wide = self.fontMetrics().horizontalAdvance
        return max(wide(COLUMNS[column].sample), wide(COLUMNS[column].title)) + 9

    def width_for(self, columns: Iterable[int]) -> int:
        """Pixels that these columns and a scroll bar need at the present text size."""
        needed = sum(self._needed(column) for column in columns)
        return needed + self.style().pixelMetric(QStyle.PixelMetric.PM_ScrollBarExtent)

    def minimumSizeHint(self) -> QSize:
        """Wide enough for the columns that every table shows."""
        return QSize(self.width_for(LEAST), 120)
