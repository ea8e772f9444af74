"""The margin plot: how close every step of both paths was, where they fork, and what changed between them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.trajectory.margin_series import MarginSeries
from app.trajectory.pair import NEAR_TIE_NATS, PATH_NAMES, Fork, Names
from app.trajectory.trajectory import Trajectory
from app.views.margin_lanes import MarginLanes
from app.views.theme import CACHED_MARK, RECOMPUTE_MARK, Theme

TITLE = "Top-two margin per step, nats (log)"
SHORT_TITLE = "Margin per step, nats (log)"
AFTER_FORK = "steps after the fork compare different contexts"
SHORT_AFTER_FORK = "after the fork: other contexts"
HEADERS = (
    (TITLE, AFTER_FORK),
    (SHORT_TITLE, AFTER_FORK),
    (TITLE, SHORT_AFTER_FORK),
    (SHORT_TITLE, SHORT_AFTER_FORK),
    (TITLE, ""),
    (SHORT_TITLE, ""),
    ("Margin, nats", ""),
    ("", ""),
)
"""Title and note, from the longest; without a fork there is nothing to note."""
HELP = (
    "Margin: difference of the two largest logprobs at a step. Below: |Δ|, how far the margin moved from one path to "
    "the other.\nClick: step cursor. Wheel: zoom. Drag: move. Double click: the whole episode."
)


class MarginPlot(QWidget):
    """Header line with the margins at the step cursor, and the two lanes.

    Emits `cursor_moved(request, step)`, both from 0, where a person moved the step cursor.
    """

    cursor_moved = Signal(int, int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._near_tie = NEAR_TIE_NATS
        self._series = MarginSeries.of(None, None, None)
        self._shown: object = None
        self._cursor = (0, 0)
        self._fork_label = ""
        self._names = PATH_NAMES
        self._title, self._cached, self._recompute, self._note = (QLabel() for _ in range(4))
        self._lanes = MarginLanes(theme)
        self._lanes.position_chosen.connect(self._choose)
        header = QHBoxLayout()
        header.setContentsMargins(14, 8, 12, 0)
        header.setSpacing(14)
        for label in (self._title, self._cached, self._recompute):
            label.setTextFormat(Qt.TextFormat.PlainText)
            header.addWidget(label)
        header.addStretch(1)
        header.addWidget(self._note)
        for label in (self._title, self._note):
            label.setMinimumWidth(1)  # they get shorter words instead of keeping the window wide
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(2)
        layout.addLayout(header)
        layout.addWidget(self._lanes, 1)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Margin plot")
        self.setToolTip(HELP)
        self.set_theme(theme)
        self._describe()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        self._lanes.set_theme(theme)
        self._title.setStyleSheet(f"font-weight: bold; color: {theme.text}")
        self._cached.setStyleSheet(f"color: {theme.cached}")
        self._recompute.setStyleSheet(f"color: {theme.recompute}")
        self._note.setStyleSheet(f"color: {theme.faint}")

    def set_near_tie(self, nats: float) -> None:
        """Draw the near-tie band up to a recompute margin of `nats`."""
        self._near_tie = nats
        self._lanes.set_near_tie(nats)
        self._describe()

    def set_names(self, names: Names) -> None:
        """What the two sides are called."""
        self._names = names
        self._show_cursor()
        self._fit_header()

    def show_pair(self, cached: Trajectory | None, recompute: Trajectory | None, fork: Fork | None) -> None:
        """Show a pair, finished or growing. A zoom stays while it is the same pair."""
        self._series = MarginSeries.of(cached, recompute, fork)
        side = cached or recompute
        shown = (side.episode_id, side.pass_id) if side else None
        fresh, self._shown = shown != self._shown, shown
        self._fork_label = "" if fork is None else fork.label
        self._lanes.show_series(self._series, self._fork_label, fresh=fresh)
        self._show_cursor()
        self._describe()

    def set_cursor(self, request: int, step: int) -> None:
        """Move the step cursor to (request, step), both from 0; emits nothing."""
        self._cursor = (request, step)
        self._show_cursor()

    def sizeHint(self) -> QSize:
        """As high as the sketch has it."""
        return QSize(760, 230)

    def minimumSizeHint(self) -> QSize:
        """Room for both lanes at the present text size."""
        return QSize(super().minimumSizeHint().width(), self.fontMetrics().height() * 11)

    # -- the header --------------------------------------------------------------------------------
    def _show_cursor(self) -> None:
        position = self._series.position(*self._cursor)
        self._lanes.set_cursor_position(position if len(self._series) else None)
        for label, mark, name, values in (
            (self._cached, CACHED_MARK, self._names[0], self._series.cached),
            (self._recompute, RECOMPUTE_MARK, self._names[1], self._series.recompute),
        ):
            value = values[position] if position < len(values) else float("nan")
            label.setText(f"{mark} {name}" + (f" {value:.2f}" if value == value else ""))

    def _describe(self) -> None:
        """What the plot says, in words."""
        steps, requests = len(self._series), len(self._series.starts) - 1
        ties = self._series.near_ties(self._near_tie)
        parts = [f"Margins of {steps} steps in {requests} requests."] if steps else ["No steps yet."]
        if steps:
            parts.append(f"{ties} near ties below {self._near_tie:g} nats.")
        if self._series.fork is not None:
            margin = self._series.fork_margin
            parts.append(f"Fork at {self._fork_label}" + ("." if margin is None else f", margin {margin:.2f} nats."))
        self.setAccessibleDescription(" ".join(parts))
        self._fit_header()

    def _fit_header(self) -> None:
        """Title and note, in the longest words that fit beside the legend."""
        fork, wide = self._series.fork, self.fontMetrics().horizontalAdvance
        room = self.width() - self._cached.sizeHint().width() - self._recompute.sizeHint().width() - 90
        notes = fork is not None and fork + 1 < len(self._series)
        fitting = (h for h in HEADERS if (notes or not h[1]) and wide(h[0]) * 1.1 + wide(h[1]) < room)
        title, note = next(fitting, HEADERS[-1])
        self._title.setText(title)
        self._note.setText(note)
        self._note.setToolTip(AFTER_FORK if note else "")

    # -- events ------------------------------------------------------------------------------------
    def _choose(self, position: int) -> None:
        self._cursor = self._series.locate(position)
        self._show_cursor()
        self.cursor_moved.emit(*self._cursor)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Plus, minus and 0 zoom around the step cursor."""
        key = event.key()
        if key in (Qt.Key.Key_Plus, Qt.Key.Key_Minus):
            self._lanes.zoom(0.5 if key == Qt.Key.Key_Plus else 2.0)
        elif key == Qt.Key.Key_0:
            self._lanes.show_all()
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the text size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_header()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width may have room for the whole note."""
        super().resizeEvent(event)
        self._fit_header()
