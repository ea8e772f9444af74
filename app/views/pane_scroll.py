"""Scrolling two token panes: together or apart, following an answer as it is written, kept in place by folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from PySide6.QtCore import QObject, Signal

from app.trajectory.trajectory import Path, Status
from app.views.pair_layout import PairLayout, Position
from app.views.token_pane import TokenPane

CENTRE_AT = 0.38
"""Where in the view a step is brought that the view is centred on: a little above the middle."""


class PaneScroll(QObject):
    """Moves the panes' scroll bars. `follows`: the view goes along with the answer until the user scrolls away."""

    view_changed = Signal()

    def __init__(self, panes: Mapping[Path, TokenPane], layout: PairLayout, parent: QObject) -> None:
        super().__init__(parent)
        self._panes = panes
        self._layout = layout
        self._own = False
        self.locked = True
        self.follows = True
        self.active = Path.CACHED
        self.centred: Position | None = None
        for path, pane in panes.items():
            pane.verticalScrollBar().valueChanged.connect(lambda value, path=path: self._scrolled(path, value))

    @property
    def pane(self) -> TokenPane:
        """The pane that the user was in last."""
        return self._panes[self.active]

    def _scrolled(self, path: Path, value: int) -> None:
        if self.locked:
            for other, pane in self._panes.items():
                if other is not path:
                    pane.verticalScrollBar().setValue(value)
        if not self._own:
            self.centred = None
            self.follows = self.tail() <= value + self._panes[path].viewport().height()
        self.view_changed.emit()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Scrolling within is the window's, not the user's."""
        before, self._own = self._own, True
        try:
            yield
        finally:
            self._own = before

    def reset(self) -> None:
        """Another pair: follow it, forget the old places."""
        self.follows, self.centred = True, None
        self.to(0)

    def to(self, value: float) -> None:
        """Scroll both panes to a height."""
        with self.moving():
            for pane in self._panes.values():
                pane.verticalScrollBar().setValue(round(value))

    def by_user_to_middle(self, height: float) -> None:
        """The user wants this height in the middle; a pane that is not locked to the other stays."""
        bar = self.pane.verticalScrollBar()
        bar.setValue(round(height - self.pane.viewport().height() / 2))

    def set_locked(self, locked: bool) -> None:
        """Scroll both together or each alone."""
        self.locked = locked
        if locked:
            self.to(self.pane.offset)

    def update_ranges(self) -> None:
        """Take over the layout's height."""
        with self.moving():
            for pane in self._panes.values():
                pane.update_range()

    def centre_on(self, request: int, step: int) -> None:
        """Bring a step a little above the middle; it stays there while the window changes its size."""
        self.centred, self.follows = (request, step), False
        self.to(self._layout.y_of(request, step) - CENTRE_AT * self.pane.viewport().height())

    def show(self, top: float, bottom: float) -> None:
        """Scroll as little as brings a stretch into view."""
        with self.moving():
            for pane in self._panes.values():
                pane.ensure_visible(top, bottom)

    def tail(self) -> float:
        """Height of the end of the answer that is being written; of everything where none is."""
        layout, growing = self._layout, self.growing()
        if growing is None:
            return layout.height
        path, index = growing
        request = layout.request(path, index)
        place = layout.token_place(path, index, len(request.steps) - 1) if request else None
        top = place[1] if place else layout.tops[layout.row_of(index) + 1] - layout.metrics.token_line
        return float(top) + layout.metrics.token_line

    def growing(self) -> tuple[Path, int] | None:
        """The path and the request (from 0) that are being answered."""
        for path in (Path.RECOMPUTE, Path.CACHED):
            side = self._layout.sides[path]
            if side is not None and side.status is Status.RUNNING and side.requests:
                return path, len(side.requests) - 1
        return None

    def to_tail(self) -> None:
        """Bring the end of the growing answer into view."""
        tail = self.tail()
        self.show(tail - self._layout.metrics.token_line, tail)

    def keep(self, position: Position, change: Callable[[], None]) -> None:
        """Change the layout so that a step stays where it is on screen."""
        before = self._layout.y_of(*position)
        offset = before - self.pane.offset
        in_view = 0 <= offset <= self.pane.viewport().height()
        change()
        self.update_ranges()
        if in_view:
            self.to(self._layout.y_of(*position) - offset)

    def settle(self) -> None:
        """After a change of size: back to what the view was centred on, or to the growing answer."""
        if self.centred is not None:
            self.centre_on(*self.centred)
        elif self._layout.is_running and self.follows:
            self.to_tail()
