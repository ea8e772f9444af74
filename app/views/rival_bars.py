"""The rivals of one step: what else the model might have said, and how probable it was."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QEvent, QModelIndex, QPersistentModelIndex, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPainter
from PySide6.QtWidgets import QHeaderView, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.trajectory.piece_text import hex_bytes, visible
from app.trajectory.step import Rival, Step
from app.views.copy_table import CopyTable
from app.views.theme import Theme

PIECE, TOKEN_ID, BAR, LOGPROB = range(4)
AnyIndex = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class Row:
    """One rival as it is shown. `chosen` where the path took it."""

    rival: Rival
    chosen: bool

    @property
    def probability(self) -> float:
        """exp(logprob), at most 1."""
        return min(math.exp(self.rival.logprob), 1.0) if math.isfinite(self.rival.logprob) else 0.0

    @property
    def explained(self) -> str:
        """All that is known of it, for a tool tip."""
        bytes_ = hex_bytes(self.rival.piece) or "none known"
        chosen = "\nchosen on this path" if self.chosen else ""
        return (
            f"{visible(self.rival.piece)}\nid {self.rival.token_id}\nbytes {bytes_}\n"
            f"logprob {self.rival.logprob:.6f} nats\nprobability {self.probability:.2%}{chosen}"
        )


def rows_of(step: Step) -> tuple[Row, ...]:
    """The step's rivals; the chosen token is added below where it is not among them."""
    rows = [Row(rival, rival.token_id == step.token_id) for rival in step.rivals]
    if not any(row.chosen for row in rows):
        logprob = math.nan if step.logprob is None else step.logprob
        rows.append(Row(Rival(step.token_id, logprob, step.piece), True))
    return tuple(rows)


class RivalModel(QAbstractTableModel):
    """Rows of one step: piece, id, bar, logprob."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self.rows: tuple[Row, ...] = ()
        self.mono = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)

    def show_rows(self, rows: tuple[Row, ...]) -> None:
        """Replace the rows."""
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        """One row per rival."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        """Piece, id, bar, logprob."""
        return 0 if parent.isValid() else 4

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Texts, colours, fonts and tool tips."""
        row, column = self.rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            logprob = "" if math.isnan(row.rival.logprob) else f"{row.rival.logprob:.2f}"
            return (visible(row.rival.piece), str(row.rival.token_id), None, logprob)[column]
        if role == Qt.ItemDataRole.ToolTipRole:
            return row.explained
        if role == Qt.ItemDataRole.TextAlignmentRole and column in (TOKEN_ID, LOGPROB):
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.ForegroundRole:
            return QColor((self.theme.text, self.theme.faint, self.theme.text, self.theme.muted)[column])
        if role == Qt.ItemDataRole.FontRole and column == PIECE:
            font = QFont(self.mono)
            font.setBold(row.chosen)
            return font
        return None


class BarDelegate(QStyledItemDelegate):
    """Draws a probability as a bar, the step's largest as a full one: a tie is two bars of one length."""

    def __init__(self, model: RivalModel, colour: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model
        self.colour = colour

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        """A faint track, and the bar; the chosen token's is full, the others' paler."""
        super().paint(painter, option, index)
        row, rect = self._model.rows[index.row()], QRectF(option.rect)
        height = rect.height() * 0.6
        track = QRectF(rect.x() + 4, rect.center().y() - height / 2, rect.width() - 8, height)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._model.theme.block))
        painter.drawRoundedRect(track, 2, 2)
        colour = QColor(self.colour)
        colour.setAlphaF(0.9 if row.chosen else 0.55)
        painter.setBrush(colour)
        largest = max(other.probability for other in self._model.rows) or 1.0
        width = max(track.width() * row.probability / largest, 1.5)
        painter.drawRoundedRect(QRectF(track.x(), track.y(), width, height), 2, 2)
        painter.restore()


class RivalBars(CopyTable):
    """The rivals of one step of one path; `colour_of(theme)` is the path's."""

    def __init__(self, name: str, theme: Theme, path_colour: str, parent: QWidget | None = None) -> None:
        super().__init__(name, parent)
        self._model = RivalModel(theme, self)
        self._bars = BarDelegate(self._model, path_colour, self)
        self.setModel(self._model)
        self.setItemDelegateForColumn(BAR, self._bars)
        self._fit()

    def set_theme(self, theme: Theme, path_colour: str) -> None:
        """Take the colours of `theme`; `path_colour` is the path's in it."""
        self._model.theme = theme
        self._bars.colour = path_colour
        self.viewport().update()

    def show_step(self, step: Step | None) -> None:
        """Show a step's rivals; None: no rows."""
        self._model.show_rows(() if step is None else rows_of(step))
        self.setAccessibleDescription("; ".join(row.explained.replace("\n", ", ") for row in self._model.rows))
        self.updateGeometry()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the text size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_bars"):
            self._fit()

    def _fit(self) -> None:
        self._model.mono.setPointSizeF(self.font().pointSizeF())
        wide = self.fontMetrics().horizontalAdvance
        header = self.horizontalHeader()
        header.setMinimumSectionSize(20)
        for column, width in ((PIECE, wide("M" * 7)), (TOKEN_ID, wide("000000") + 8), (LOGPROB, wide("-00.00") + 10)):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
            self.setColumnWidth(column, width)
        header.setSectionResizeMode(BAR, QHeaderView.ResizeMode.Stretch)
        self.fit_rows()
