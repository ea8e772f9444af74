"""What leaves the machine, file by file, before it does: names, sizes, contents, and what in them looks private."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase, QTextCursor
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QListWidget,
    QPlainTextEdit,
    QSplitter,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.session import Prepared
from app.trajectory.piece_text import inert
from app.views.environment_line import size_text
from app.views.text_label import text_label

LONGEST_SHOWN = 300_000
"""Characters of one file that are laid out; more would hold up the window."""

NAME, SIZE, WHAT = range(3)
MOST_WARNINGS_SEEN = 4


class ExportPreview(QWidget):
    """Shows a `Prepared`. A warning leads to its place."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._made: Prepared | None = None
        self.heading = text_label("title", wrap=True)
        self.files = QTableWidget(0, 3)
        self.files.setAccessibleName("Files of the bundle")
        self.files.setHorizontalHeaderLabels(["File", "Size", "What it is"])
        self.files.verticalHeader().hide()
        self.files.setShowGrid(False)
        self.files.setTabKeyNavigation(False)
        self.files.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.files.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.files.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.files.setWordWrap(False)
        header = self.files.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(WHAT, QHeaderView.ResizeMode.Stretch)
        self.files.currentCellChanged.connect(lambda row, *_: self._show_file(row))
        self.content = QPlainTextEdit(readOnly=True, lineWrapMode=QPlainTextEdit.LineWrapMode.NoWrap)
        self.content.setAccessibleName("Content of the file")
        mono = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        mono.setPointSizeF(self.font().pointSizeF())
        self.content.setFont(mono)
        self.content.setPlaceholderText("Choose a file to see what is in it.")
        self.warnings_heading = text_label("doubt", wrap=True)
        self.warnings = QListWidget()
        self.warnings.setAccessibleName("What looks private")
        self.warnings.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.warnings.currentRowChanged.connect(self._show_warning)
        halves = QSplitter(Qt.Orientation.Vertical)
        halves.setChildrenCollapsible(False)
        halves.addWidget(self.files)
        halves.addWidget(self.content)
        halves.setSizes([230, 260])
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        for widget in (self.heading, halves, self.warnings_heading, self.warnings):
            column.addWidget(widget)
        column.setStretchFactor(halves, 1)
        self.show_nothing("")

    def show_nothing(self, sentence: str) -> None:
        """No preview, and why."""
        self._made = None
        self.heading.setText(sentence)
        self.files.setRowCount(0)
        self.content.clear()
        self._show_warnings()

    def show_made(self, made: Prepared) -> None:
        """List the files; the one that was looked at stays open."""
        before = self.files.currentRow()
        self._made, self._lines = made, made.lines
        total = sum(line.size for line in self._lines)
        self.heading.setText(f"{len(self._lines)} files leave this machine, {size_text(total)} before they are packed.")
        self.files.setRowCount(len(self._lines))
        for row, line in enumerate(self._lines):
            for column, text in ((NAME, line.name), (SIZE, size_text(line.size)), (WHAT, line.what)):
                item = QTableWidgetItem(inert(text))
                item.setToolTip(item.text())
                if column == SIZE:
                    item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                self.files.setItem(row, column, item)
        for column in (NAME, SIZE):
            self.files.resizeColumnToContents(column)
        self.files.setColumnWidth(NAME, min(self.files.columnWidth(NAME), 300))
        self.files.verticalHeader().setDefaultSectionSize(round(self.fontMetrics().height() * 1.6))
        at = before if 0 <= before < len(self._lines) else self._row_of("report.md")
        self.files.setCurrentCell(at, NAME)
        self._show_file(at)
        self._show_warnings()

    def _row_of(self, name: str) -> int:
        return next((row for row, line in enumerate(self._lines) if line.name == name), 0)

    def _show_file(self, row: int) -> None:
        if self._made is None or row < 0:
            return
        text = self._lines[row].text
        left = len(text) - LONGEST_SHOWN
        end = f"\n… and {left:,} characters more" if left > 0 else ""
        self.content.setPlainText(inert(text[:LONGEST_SHOWN]) + end)

    def _show_warnings(self) -> None:
        suspects = self._made.suspects if self._made is not None else ()
        count = len(suspects)
        self.warnings_heading.setText(
            f"▲  {count} place{'s look' if count > 1 else ' looks'} private. Choose one to see it, then decide."
        )
        self.warnings.clear()
        self.warnings.addItems([inert(suspect.sentence) for suspect in suspects])
        line = round(self.fontMetrics().height() * 1.4)
        self.warnings.setFixedHeight(line * min(max(count, 1), MOST_WARNINGS_SEEN) + 6)
        for widget in (self.warnings_heading, self.warnings):
            widget.setVisible(bool(suspects))

    def _show_warning(self, row: int) -> None:
        if self._made is None or not 0 <= row < len(self._made.suspects):
            return
        suspect = self._made.suspects[row]
        self.files.setCurrentCell(self._row_of(suspect.part), NAME)
        block = self.content.document().findBlockByNumber(suspect.line - 1)
        cursor = QTextCursor(block)
        found = self.content.document().find(suspect.excerpt, cursor)
        self.content.setTextCursor(cursor if found.isNull() else found)
        self.content.centerCursor()
