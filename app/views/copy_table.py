"""A small table without frame whose rows can be selected and copied."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFocusEvent, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QFrame, QSizePolicy, QTableView, QWidget


class CopyTable(QTableView):
    """As high as its rows; Ctrl+C copies the selected rows, tab between columns, as their tool tips or texts say."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTabKeyNavigation(False)
        self.horizontalHeader().hide()
        self.verticalHeader().hide()
        self.verticalHeader().setMinimumSectionSize(1)

    def fit_rows(self) -> None:
        """Take the height of the rows at the present text size."""
        self.verticalHeader().setDefaultSectionSize(round(self.fontMetrics().height() * 1.4))
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """All rows, no scrolling."""
        return QSize(200, self.verticalHeader().length())

    def minimumSizeHint(self) -> QSize:
        """Any width; all rows."""
        return QSize(80, self.sizeHint().height())

    def selected_text(self) -> str:
        """The selected rows, a tab between columns; empty cells left out."""
        model, selection = self.model(), self.selectionModel()
        lines = []
        for row in sorted({index.row() for index in selection.selectedRows()}) if selection else ():
            cells = [str(model.index(row, column).data() or "") for column in range(model.columnCount())]
            cells = [cell.replace("\u202f", "") for cell in cells]  # thin spaces are for eyes, not for reports
            lines.append("\t".join(cell for cell in cells if cell))
        return "\n".join(lines)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+C copies what is selected."""
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.selected_text())
        else:
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """A selection elsewhere takes over, except while a menu is open over this one."""
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.clearSelection()
