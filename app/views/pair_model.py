"""The rows of the pair table as Qt takes them: texts prepared ahead, no I/O while drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSortFilterProxyModel, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget

from app.trajectory.pair import PairRow
from app.views.marks import RUNNING, Mark, mark_of_row
from app.views.pair_filter import PairFilter
from app.views.theme import Theme

AnyIndex = QModelIndex | QPersistentModelIndex
NONE = "—"
REPEATS = "↻"
"""Beside an episode that has its verdict and is being run once more."""
STAR = "★"
"""Beside an episode whose pair a person marked."""
Key = tuple[float, str]


@dataclass(frozen=True)
class Column:
    """A column: its title and meaning, the text of a row, and what it is sorted by (None: always at the end).

    `sample` is as wide as the cells get.
    """

    title: str
    meaning: str
    text: Callable[[PairRow], str]
    key: Callable[[PairRow], Any]
    sample: str
    narrow: bool = False
    number: bool = False


def _fork(row: PairRow) -> str:
    if not row.diverged or row.request is None:
        return NONE
    return f"{row.request + 1}" if row.step is None else f"{row.request + 1}:{row.step + 1}"


def _fork_key(row: PairRow) -> tuple[int, int] | None:
    return (row.request, -1 if row.step is None else row.step) if row.diverged and row.request is not None else None


def _margin(row: PairRow) -> str:
    if not row.diverged:
        return ""
    if row.margin is None:
        return NONE
    return f"{row.margin:.2f}" if row.margin == 0 or row.margin >= 0.01 else f"{row.margin:.1g}"


def changed(row: PairRow) -> str:
    """What the fork changed, the gravest first: "outcome", "tool" or "text"; "" without a fork."""
    if not row.diverged:
        return ""
    return "outcome" if row.outcome_changed else "tool" if row.tool_calls_changed else "text"


def _yes(value: bool | None, row: PairRow) -> str:
    return "" if row.diverged is None else "yes" if value else "no"


def _valid(row: PairRow) -> str:
    return {True: "yes", False: "no", None: "unproven" if row.code == "unproven" else ""}[row.valid]


COLUMNS = (
    Column("", "Mark", lambda row: mark_of_row(row).glyph, lambda row: mark_of_row(row).meaning, "◆◆ ", narrow=True),
    Column("Episode", "Episode", lambda row: row.episode_id, lambda row: row.episode_id, "messages-88", narrow=True),
    Column("Fork", "First fork, request:token", _fork, _fork_key, "888:88", narrow=True),
    Column("Margin", "Recompute margin at the fork, nats", _margin, lambda row: row.margin, "0.0005", True, True),
    Column("Δ", "What the fork changed: outcome, tool calls or only text", changed, changed, "outcome", narrow=True),
    Column("Near ties", "Near ties up to the fork", lambda row: str(row.near_ties), lambda row: row.near_ties, "888",
           number=True),
    Column("Tool calls", "Tool calls changed", lambda row: _yes(row.tool_calls_changed, row),
           lambda row: row.tool_calls_changed, "yes"),
    Column("Outcome", "Outcome changed", lambda row: _yes(row.outcome_changed, row),
           lambda row: row.outcome_changed, "yes"),
    Column("Valid", "Whether the pair counts", _valid, _valid, "unproven"),
    Column("Verdict", "Verdict", lambda row: row.headline, lambda row: row.headline, "M" * 24),
)  # fmt: skip
MARK, EPISODE, FORK, MARGIN, CHANGED, NEAR_TIES, TOOL_CALLS, OUTCOME, VALID, VERDICT = range(len(COLUMNS))


class PairModel(QAbstractTableModel):
    """All pairs of an experiment, in the order they were run."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self.rows: list[PairRow] = []
        self.running: str | None = None
        self.marks: Mapping[str, str] = {}

    def set_marks(self, marks: Mapping[str, str]) -> None:
        """The notes of the marked episodes; they have a star beside their name."""
        self.marks = dict(marks)
        if self.rows:
            self.dataChanged.emit(self.index(0, MARK), self.index(len(self.rows) - 1, EPISODE))

    def set_rows(self, rows: Sequence[PairRow]) -> None:
        """Replace all rows."""
        self.beginResetModel()
        self.rows = list(rows)
        self.endResetModel()

    def update_row(self, row: PairRow) -> None:
        """Replace the row of the same episode and repeat, or add it at the end."""
        for at, known in enumerate(self.rows):
            if (known.episode_id, known.repeat) == (row.episode_id, row.repeat):
                self.rows[at] = row
                self.dataChanged.emit(self.index(at, 0), self.index(at, len(COLUMNS) - 1))
                return
        self.beginInsertRows(QModelIndex(), len(self.rows), len(self.rows))
        self.rows.append(row)
        self.endInsertRows()

    def show_running(self, episode_id: str | None) -> None:
        """Mark the episode that is being run; one that has its verdict keeps the verdict's mark."""
        touched = {self.running, episode_id}
        self.running = episode_id
        for at, row in enumerate(self.rows):
            if row.episode_id in touched:
                self.dataChanged.emit(self.index(at, MARK), self.index(at, EPISODE))

    def mark(self, row: PairRow) -> Mark:
        """The mark of a row."""
        return RUNNING if self._runs(row) and row.diverged is None else mark_of_row(row)

    def _runs(self, row: PairRow) -> bool:
        return self.running is not None and row.episode_id == self.running

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        """One row a pair."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        """COLUMNS."""
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Titles; their meaning as a tool tip."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section].title
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return COLUMNS[section].meaning
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(COLUMNS[section])
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Texts, colours and tool tips of one cell."""
        row, column = self.rows[index.row()], COLUMNS[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            if index.column() == MARK:
                return self.mark(row).glyph
            if index.column() == EPISODE:
                star = (STAR,) if row.episode_id in self.marks else ()
                repeats = (REPEATS,) if self._runs(row) and row.diverged is not None else ()
                return " ".join((row.episode_id, *star, *repeats))
            return column.text(row)
        if role == Qt.ItemDataRole.ToolTipRole:
            running = (f"{RUNNING.meaning.capitalize()}.",) if self._runs(row) else ()
            marked = (f"{STAR} Marked. {self.marks[row.episode_id]}".strip(),) if row.episode_id in self.marks else ()
            return "\n".join(text for text in (*running, *marked, row.headline, *row.problems) if text)
        if role == Qt.ItemDataRole.ForegroundRole:
            return QColor(self._colour(index.column(), row))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        if role == Qt.ItemDataRole.AccessibleTextRole and index.column() == MARK:
            return self.mark(row).meaning
        if role == Qt.ItemDataRole.AccessibleTextRole and index.column() == EPISODE and row.episode_id in self.marks:
            return f"{row.episode_id}, marked. {self.marks[row.episode_id]}".strip()
        return None

    def _colour(self, column: int, row: PairRow) -> str:
        if column == MARK:
            return self.mark(row).colour_in(self.theme)
        if row.valid is False or column not in (EPISODE, FORK, MARGIN, VERDICT):
            return self.theme.muted
        return self.theme.faint if column == FORK and not row.diverged else self.theme.text


def _alignment(column: Column) -> Qt.AlignmentFlag:
    if not column.title:
        return Qt.AlignmentFlag.AlignCenter
    side = Qt.AlignmentFlag.AlignRight if column.number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


class ShownPairs(QSortFilterProxyModel):
    """The rows that the filter lets through, in the order a person chose."""

    def __init__(self, pairs: PairModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pairs = pairs
        self._filter = PairFilter()
        self.setSourceModel(pairs)

    def set_filter(self, pair_filter: PairFilter) -> None:
        """Show what `pair_filter` accepts."""
        self._filter = pair_filter
        self.invalidate()

    def row_at(self, shown: int) -> PairRow:
        """The pair in line `shown` (from 0)."""
        return self._pairs.rows[self.mapToSource(self.index(shown, 0)).row()]

    def shown_rows(self) -> list[PairRow]:
        """All shown pairs in order."""
        return [self.row_at(shown) for shown in range(self.rowCount())]

    def filterAcceptsRow(self, source_row: int, source_parent: AnyIndex) -> bool:  # noqa: ARG002
        """Ask the filter."""
        return self._filter.accepts(self._pairs.rows[source_row])

    def lessThan(self, left: AnyIndex, right: AnyIndex) -> bool:
        """By the column's key; what has none stays at the end in both directions."""
        key = COLUMNS[left.column()].key
        first, second = key(self._pairs.rows[left.row()]), key(self._pairs.rows[right.row()])
        if _missing(first) or _missing(second):
            descending = self.sortOrder() is Qt.SortOrder.DescendingOrder
            return _missing(first) < _missing(second) if not descending else _missing(first) > _missing(second)
        return bool(first < second)


def _missing(key: Any) -> bool:
    return key is None or key == "" or (isinstance(key, float) and math.isnan(key))
