"""One pair on the screen: verdict, token panes, margin plot and inspector, all on one step cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from app.trajectory.events import Again
from app.trajectory.pair import PATH_NAMES, Fork, Names, Pair
from app.trajectory.trajectory import Path, Trajectory
from app.views.find_bar import FindBar, GoToBar
from app.views.inspector import Inspector
from app.views.live import LivePair
from app.views.margin_plot import MarginPlot
from app.views.marks import FORKED, OPEN
from app.views.pane_pair import NOTHING, PanePair
from app.views.step_cursor import Place, edge_of_request, near_ties, neighbour, place_of_fork, sizes
from app.views.theme import Theme
from app.views.verdict_bar import VerdictBar

FOLLOW_MS = 100
"""While a pair grows, plot and inspector follow the panes by a tenth of a second: soon enough for them."""


class PairView(QWidget):
    """Shows a loaded `Pair` or a `LivePair`; `pair` is the loaded one, None while live or empty."""

    run_again_requested = Signal()
    try_requested = Signal()
    cursor_moved = Signal(int, int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.pair: Pair | None = None
        self.place: Place = (0, 0)
        self.cursor_is_users = False
        self._sides: tuple[Trajectory | None, Trajectory | None] = (None, None)
        self._fork: Fork | None = None
        self._pieces: Mapping[int, bytes] = {}
        self._follow = QTimer(self, singleShot=True, interval=FOLLOW_MS)
        self._follow.timeout.connect(self.follow_all)
        self._names = PATH_NAMES
        self._again: dict[Path, tuple[str, bool | None]] = {}
        self.verdict = VerdictBar(theme)
        self.find_bar = FindBar()
        self.go_to_bar = GoToBar()
        self.panes = PanePair(theme)
        self.plot = MarginPlot(theme)
        self.inspector = Inspector(theme)
        self._lay_out()
        self.panes.cursor_moved.connect(self._moved_by_user)
        self.plot.cursor_moved.connect(self._moved_in_plot)
        self.inspector.run_again_requested.connect(self.run_again_requested)
        self.inspector.try_requested.connect(self.try_requested)
        self.find_bar.search_requested.connect(self._find)
        self.go_to_bar.lengths = self.sizes
        self.go_to_bar.place_chosen.connect(self.go_to)

    def _lay_out(self) -> None:
        upper = QWidget()
        column = QVBoxLayout(upper)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget in (self.verdict, self.find_bar, self.go_to_bar):
            column.addWidget(widget)
        column.addWidget(self.panes, 1)
        self.rows = QSplitter(Qt.Orientation.Vertical)
        self.rows.addWidget(upper)
        self.rows.addWidget(self.plot)
        self.rows.setStretchFactor(0, 7)
        self.rows.setStretchFactor(1, 3)
        self.columns = QSplitter(Qt.Orientation.Horizontal)
        self.columns.addWidget(self.rows)
        self.columns.addWidget(self.inspector)
        self.columns.setStretchFactor(0, 1)
        self.columns.setStretchFactor(1, 0)
        for splitter in (self.rows, self.columns):
            splitter.setHandleWidth(1)
            splitter.setChildrenCollapsible(False)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.columns)

    # What is shown.

    def show_pair(self, pair: Pair, can_run_again: bool, why_not: str) -> None:
        """Show a loaded pair, opened on its fork."""
        self.pair = pair
        self._again = {}
        self._set_names(pair.names)
        reference = pair.recompute
        if pair.comparison.is_run_to_run:  # both are of one path, while a side here is named by its path
            reference = replace(reference, path=Path.RECOMPUTE)
        self._show(pair.cached, reference, pair.comparison.fork, pair.pieces)
        self.follow_all()
        self.verdict.show_verdict(pair.verdict, pair.comparison)
        self.inspector.set_again_lines([])
        self.inspector.set_can_run_again(can_run_again, why_not)
        self.cursor_is_users = False
        if not self.to_fork():
            self.go_to(0, 0, by_user=False)

    def show_live(
        self,
        live: LivePair,
        pieces: Mapping[int, bytes],
        headline: str,
        detail: str,
        new: bool,
        why_not: str,
        names: Names = PATH_NAMES,
    ) -> None:
        """Show a pair that grows; `new` where another one was shown before, `why_not` why it cannot be run again."""
        self.pair = None
        self._set_names(names)
        if new:
            self.cursor_is_users = False
            self.inspector.set_again_lines([])
            self.inspector.set_can_run_again(False, why_not)
        self._show(live.side(Path.CACHED), live.side(Path.RECOMPUTE), live.fork, pieces)
        self.verdict.show_message(headline, detail, OPEN if live.fork is None else FORKED)
        for path in Path:
            growing = live.sides.get(path)
            prefill = growing.prefill if growing else None
            text = f"prefill {prefill.done} of {prefill.total}" if prefill else ""
            self.panes.set_progress(path, text, prefill.done / prefill.total if prefill and prefill.total else None)
        if new:
            self.follow_all()
        elif not self._follow.isActive():
            self._follow.start()

    def show_nothing(self, headline: str, detail: str, hint: str = NOTHING) -> None:
        """Show no pair, and say why; `hint` stands in the empty panes."""
        self.pair = None
        self.panes.nothing = hint
        self._show(None, None, None, {})
        for path in Path:
            self.panes.set_progress(path, "", None)
        self.follow_all()
        self.verdict.show_message(headline, detail)
        self.inspector.set_again_lines([])
        self.inspector.set_can_run_again(False, "There is no pair to run again.")

    def _set_names(self, names: Names) -> None:
        if names != self._names:
            self._names = names
            self.panes.set_names(names)
            self.plot.set_names(names)
            self.inspector.set_names(names)
            self.find_bar.set_names(names)

    def show_again(self, again: Again) -> None:
        """Show what running one path again says, as it happens."""
        self._again[again.path] = (again.sentence, again.identical)
        self.inspector.set_again_lines(list(self._again.values()))

    def _show(
        self, cached: Trajectory | None, recompute: Trajectory | None, fork: Fork | None, pieces: Mapping[int, bytes]
    ) -> None:
        if fork is not None and self._fork is None:
            self.cursor_is_users = False  # the panes go to a fork that has just been found, and so does all else
        self._sides, self._fork, self._pieces = (cached, recompute), fork, pieces
        self.panes.show_pair(cached, recompute, fork, pieces)

    def follow_all(self) -> None:
        """Let plot and inspector show what the panes show."""
        self._follow.stop()
        cached, recompute = self._sides
        self.plot.show_pair(cached, recompute, self._fork)
        self.inspector.show_pair(cached, recompute, self._fork, self._pieces)
        if self.pair is None and not self.cursor_is_users:
            newest = self._newest()
            if newest is not None:
                self.place = newest
                self.plot.set_cursor(*newest)
                self.inspector.set_cursor(*newest)

    def _newest(self) -> Place | None:
        """Where a run is to be watched: the fork once it is there, else the last step of the side that grows."""
        if self._fork is not None:
            return place_of_fork(self._fork)
        growing = [side for side in self._sides if side is not None and side.requests]
        if not growing:
            return None
        requests = growing[-1].requests
        return len(requests) - 1, max(0, len(requests[-1].steps) - 1)

    # The step cursor.

    def go_to(self, request: int, step: int, by_user: bool = True) -> None:
        """Put the cursor on a step (both from 0) and bring it into view."""
        self._set_cursor(request, step, by_user)
        self.panes.set_cursor(request, step)
        self.panes.centre_on(request, step)

    def step_by(self, count: int) -> None:
        """Move the cursor by steps, across requests; it stops at the ends."""
        moved = neighbour(self._sides, self.place, count)
        self._set_cursor(*moved, by_user=True)
        self.panes.set_cursor(*moved)

    def to_edge(self, end: bool) -> None:
        """The first or last step of the request at the cursor."""
        self.go_to(*edge_of_request(self._sides, self.place, end))

    def to_fork(self) -> bool:
        """Back to the fork; False where there is none."""
        if self._fork is None:
            return False
        self.go_to(*place_of_fork(self._fork), by_user=False)
        return True

    def to_near_tie(self, direction: int, nats: float) -> bool:
        """The next (1) or previous (-1) near tie; False where there is none on that side."""
        places = near_ties(self._sides, nats)
        beyond = [place for place in places if (place > self.place if direction > 0 else place < self.place)]
        if not beyond:
            return False
        self.go_to(*(beyond[0] if direction > 0 else beyond[-1]))
        return True

    def sizes(self) -> list[int]:
        """Steps in each request, on the longer side."""
        return sizes(self._sides)

    def _set_cursor(self, request: int, step: int, by_user: bool) -> None:
        self.place = (request, step)
        self.cursor_is_users = self.cursor_is_users or by_user
        self.plot.set_cursor(request, step)
        self.inspector.set_cursor(request, step)
        self.cursor_moved.emit(request, step)

    def _moved_by_user(self, request: int, step: int) -> None:
        self._set_cursor(request, step, by_user=True)

    def _moved_in_plot(self, request: int, step: int) -> None:
        self.go_to(request, step)

    def _find(self, text: str, side: str, backwards: bool) -> None:
        self.find_bar.show_found(not text or self.panes.find(text, side, backwards=backwards))

    # Looks.

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        for widget in (self.verdict, self.panes, self.plot, self.inspector):
            widget.set_theme(theme)

    def set_text_scale(self, scale: float) -> None:
        """Presentation text size, 1.0 is the system's."""
        self.panes.set_text_scale(scale)

    def set_near_tie(self, nats: float) -> None:
        """The recompute margin below which a step is a near tie."""
        self.panes.set_near_tie(nats)
        self.plot.set_near_tie(nats)
