"""The answers of a replay beside those that were reported, token by token."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor, QFontDatabase, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from app.trajectory.pair import Pair
from app.trajectory.piece_text import hex_bytes, visible
from app.trajectory.reproducer import ReplayResult
from app.trajectory.step import StepBlock
from app.trajectory.trajectory import Request
from app.views.theme import CACHED_MARK, FORK_MARK, RECOMPUTE_MARK, Theme

COLUMNS = (
    ("Token", "text"),
    (f"{CACHED_MARK} Reported cached", "cached"),
    (f"{RECOMPUTE_MARK} Reported recompute", "recompute"),
    (f"{CACHED_MARK} Cached here", "cached"),
    (f"{RECOMPUTE_MARK} Recompute here", "recompute"),
)
REPORTED, HERE = (1, 2), (3, 4)


class ReplayTable(QTableWidget):
    """Four answers of the forked request. Each two part at a framed row, and are grey after it."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(0, len(COLUMNS), parent)
        self._theme = theme
        self._fork_row: int | None = None
        self.setAccessibleName("Answers reported and replayed, token by token")
        self.verticalHeader().hide()
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        for column, (title, colour) in enumerate(COLUMNS):
            item = QTableWidgetItem(title)
            item.setForeground(QColor(getattr(theme, colour)))
            item.setTextAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
            self.setHorizontalHeaderItem(column, item)

    def show_answers(self, pair: Pair, result: ReplayResult | None) -> None:
        """The reported answers, and those of the replay once it has some; opened on the reported fork."""
        fork = pair.comparison.fork
        if fork is None:
            self.setRowCount(0)
            self._fork_row = None
            return
        reported = [_steps_of(side.requests[fork.request : fork.request + 1]) for side in (pair.cached, pair.recompute)]
        here = [result.cached, result.recompute] if result is not None else [StepBlock.empty()] * 2
        forks = {REPORTED: fork.step, HERE: result.fork.step if result is not None and result.fork else None}
        blocks = [*reported, *here]
        self.setRowCount(max(map(len, blocks)))
        self.verticalHeader().setDefaultSectionSize(round(self.fontMetrics().height() * 1.6))
        mono = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        mono.setPointSizeF(self.font().pointSizeF())
        for row in range(self.rowCount()):
            marked = row in forks.values()
            number = QTableWidgetItem(f"{row + 1} {FORK_MARK if marked else ''}".strip())
            number.setForeground(QColor(self._theme.fork if marked else self._theme.muted))
            self.setItem(row, 0, number)
            for columns, at in forks.items():
                for column in columns:
                    item = _cell(blocks[column - 1], row)
                    item.setFont(mono)
                    item.setForeground(self._ink(row, at))
                    if row == at:
                        item.setBackground(QBrush(QColor(self._theme.fork_fill)))
                    self.setItem(row, column, item)
        self._fork_row = fork.step
        self._to_fork()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The fork stays in the middle."""
        super().resizeEvent(event)
        self._to_fork()

    def _to_fork(self) -> None:
        if self._fork_row is not None:
            self.scrollTo(self.model().index(self._fork_row, 0), QAbstractItemView.ScrollHint.PositionAtCenter)

    def _ink(self, row: int, fork: int | None) -> QColor:
        after = fork is not None and row > fork
        return QColor(self._theme.faint if after else self._theme.text)


def _steps_of(requests: Sequence[Request]) -> StepBlock:
    return requests[0].steps if requests else StepBlock.empty()


def _cell(steps: StepBlock, index: int) -> QTableWidgetItem:
    if index >= len(steps):
        return QTableWidgetItem("")
    piece, token_id = steps.piece(index), int(steps.token_ids[index])
    item = QTableWidgetItem(f"{visible(piece)}  {token_id}")
    item.setToolTip(f"id {token_id}, bytes {hex_bytes(piece)}, logprob {float(steps.logprobs[index]):.4f}")
    return item
