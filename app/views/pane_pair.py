"""The token panes of both paths side by side, their provenance strips, and the overview ruler."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPalette, QShowEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QHBoxLayout, QVBoxLayout, QWidget

from app.trajectory.pair import Fork, Names
from app.trajectory.trajectory import Path, Status, Trajectory
from app.views.pair_layout import PairLayout, ParagraphKey, Position
from app.views.pane_fonts import PaneFonts
from app.views.pane_header import PaneHeader
from app.views.pane_hits import Hit, Motion, move
from app.views.pane_marks import PaneMarks
from app.views.pane_menu import pane_menu
from app.views.pane_painter import PanePainter
from app.views.pane_scroll import PaneScroll
from app.views.pane_state import PaneState
from app.views.ruler import Ruler, RulerMarks
from app.views.step_cursor import place_of_fork
from app.views.theme import Theme
from app.views.token_pane import TokenPane
from app.views.token_selection import CopyKind, Selection, copied, describe, find_next

NOTHING = "No pair is open.\n\nPress Ctrl+R to run episodes on both paths,\nor open a .forkpoint file with Ctrl+O."


class PanePair(QWidget):
    """Shows a pair, loaded or growing. `cursor_moved`(request, step), from 0: the user moved the step cursor.

    `nothing` is what stands in the panes while there is no pair; `why_no_ids` why token ids cannot be copied.
    """

    cursor_moved = Signal(int, int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        fonts = PaneFonts(1.0)
        self._layout = PairLayout(fonts.pane_metrics(400.0), *fonts.advances)
        self._marks = PaneMarks(self._layout)
        self._painter = PanePainter(theme, fonts, self._layout, self._marks)
        self._pieces: Mapping[int, bytes] = {}
        self._state = PaneState()
        self._found: tuple[Position, int] | None = None
        self._cursor_is_users = False
        self.nothing = NOTHING
        self.why_no_ids = ""
        self.panes = {path: TokenPane(path, self._layout, self._painter, self._describe) for path in Path}
        self.headers = {path: PaneHeader(path, theme) for path in Path}
        self.ruler = Ruler(theme)
        self._scroll = PaneScroll(self.panes, self._layout, self)
        self._columns = {path: self._column(path) for path in Path}
        self._order = list(Path)
        self._arrange()
        self._scroll.view_changed.connect(self._show_view)
        self.ruler.scroll_requested.connect(self._scroll.by_user_to_middle)
        self.set_theme(theme)
        self._updated()

    def _column(self, path: Path) -> QWidget:
        pane = self.panes[path]
        pane.token_pressed.connect(lambda request, step, extend: self._pressed(path, (request, step), extend))
        pane.token_dragged.connect(lambda request, step: self._pressed(path, (request, step), True))
        pane.title_pressed.connect(self._toggle)
        pane.more_pressed.connect(self._unfold_message)
        pane.motion_requested.connect(lambda motion, extend: self._move(path, motion, extend))
        pane.copy_requested.connect(lambda: self.copy_selection("text"))
        pane.menu_requested.connect(lambda point, hit: self._menu(path, point, hit))
        pane.resized.connect(self._resized)
        pane.focus_changed.connect(self.headers[path].set_focused)
        widget = QWidget()
        column = QVBoxLayout(widget)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.headers[path])
        column.addWidget(pane, 1)
        return widget

    def _arrange(self) -> None:
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(1)
        for path in self._order:
            row.addWidget(self._columns[path], 1)
        row.addWidget(self.ruler)

    # What is shown.

    def show_pair(
        self,
        cached: Trajectory | None,
        recompute: Trajectory | None,
        fork: Fork | None,
        pieces: Mapping[int, bytes],
    ) -> None:
        """Show a loaded pair, opened on its fork; or what has become of a pair that grows."""
        self._pieces = pieces
        if not self._is_same(cached, recompute):
            self._layout.open_pair(cached, recompute, fork)
            self._found, self._cursor_is_users = None, False
            self._set_state(PaneState())
            self._updated()
            self._scroll.reset()
            self._open_on(fork)
            return
        was_known = self._layout.fork is not None
        self._layout.show(cached, recompute, fork)
        self._updated()
        if fork is not None and not was_known:
            self._open_on(fork)
        else:
            self._follow()

    def set_names(self, names: Names) -> None:
        """What the two sides are called."""
        for header, name in zip(self.headers.values(), names, strict=True):
            header.set_name(name)

    def _follow(self) -> None:
        """Go along with an answer that grows, unless the user has scrolled away or taken the cursor; stop at a fork."""
        growing = self._scroll.growing()
        if growing is None or self._layout.fork is not None:
            return
        request = self._layout.request(*growing)
        if request is not None and not self._cursor_is_users:
            self._set_state(PaneState((request.index, max(0, len(request.steps) - 1)), None, self._state.selection))
            self._show_cursor()
        if self._scroll.follows:
            self._scroll.to_tail()

    def _is_same(self, cached: Trajectory | None, recompute: Trajectory | None) -> bool:
        """Whether these are the trajectories on screen, grown, or one of them new beside the other."""
        both = zip(self._layout.sides.values(), (cached, recompute), strict=True)
        shown = [(old, new) for old, new in both if old is not None]
        return bool(shown) and all(
            new is not None and old.id == new.id and len(old.requests) <= len(new.requests) for old, new in shown
        )

    def _open_on(self, fork: Fork | None) -> None:
        if fork is not None:
            self._set_state(PaneState(place_of_fork(fork)))
            self.centre_on(*place_of_fork(fork))
        else:
            self._follow()

    def _updated(self) -> None:
        """After every change of the layout: ranges, hints, ruler, headers."""
        for path, pane in self.panes.items():
            pane.hint = self._hint(path)
        self._scroll.update_ranges()
        self._show_marks()
        self._show_headers()

    def _hint(self, path: Path) -> str:
        side = self._layout.sides[path]
        if side is None:
            other = any(self._layout.sides.values())
            return f"The {path.value} path of this episode has not begun." if other else self.nothing
        if side.requests:
            return ""
        return "The first request is on its way." if side.status is Status.RUNNING else "No request was recorded."

    def _show_marks(self) -> None:
        layout, marks = self._layout, self._marks
        mismatches = sorted({height for path in Path for height in marks.mismatch_heights(path)})
        shown = RulerMarks(marks.near_tie_heights(), marks.fork_height(), tuple(mismatches))
        self.ruler.set_marks(shown, layout.height if layout.rows else 0.0)
        self._show_cursor()
        self._show_view()

    def _show_cursor(self) -> None:
        self.ruler.set_cursor(self._layout.y_of(*self._at) + self._layout.metrics.header / 2)

    def _show_view(self) -> None:
        self.ruler.set_view(self._scroll.pane.offset, self._scroll.pane.viewport().height())

    def _show_headers(self) -> None:
        for path, header in self.headers.items():
            header.show_request(self._layout.request(path, self._at[0]))

    def set_progress(self, path: Path, text: str, fraction: float | None) -> None:
        """Show in a pane's header how far a prefill has come, `fraction` from 0 to 1; None ends it."""
        self.headers[path].set_progress(text, fraction)

    # Looks.

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._painter.set_theme(theme)
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Window, QColor(theme.line))  # seen between the columns
        self.setPalette(palette)
        self.setAutoFillBackground(True)
        for header in self.headers.values():
            header.set_theme(theme)
        self.ruler.set_theme(theme)
        for pane in self.panes.values():
            pane.viewport().update()

    def set_text_scale(self, scale: float) -> None:
        """Presentation text size; 1.0 is the system's."""
        self._painter.fonts = PaneFonts(scale)
        for header in self.headers.values():
            header.set_text_scale(scale)
        self._scroll.keep(self._at, lambda: self._measure(self._layout.metrics.width))
        self._updated()
        self._scroll.settle()

    def set_near_tie(self, nats: float) -> None:
        """The recompute margin in nats below which a step is marked as a near tie."""
        self._marks.set_near_tie(nats)
        self._updated()

    def swap_sides(self) -> None:
        """Recompute left and cached right, or back."""
        left, right = (self._columns[path] for path in self._order)
        self._row.removeWidget(left)
        self._row.removeWidget(right)
        self._row.insertWidget(0, right, 1)
        self._row.insertWidget(1, left, 1)
        self._order.reverse()

    def showEvent(self, event: QShowEvent) -> None:
        """The first size is known now."""
        super().showEvent(event)
        self._resized()

    def _resized(self) -> None:
        """Both sides are laid out for the narrower pane; what stood at the cursor stays there."""
        width = float(min(pane.viewport().width() for pane in self.panes.values()))
        if width != self._layout.metrics.width:
            self._scroll.keep(self._at, lambda: self._measure(width))
        self._updated()
        self._scroll.settle()

    def _measure(self, width: float) -> None:
        fonts = self._painter.fonts
        self._layout.set_metrics(fonts.pane_metrics(width), *fonts.advances)

    # The step cursor.

    @property
    def _at(self) -> Position:
        return self._state.cursor

    def set_cursor(self, request: int, step: int) -> None:
        """Put the step cursor on a step (both from 0), unfold what hides it, scroll as little as shows it."""
        self._cursor_is_users = True
        self._set_state(PaneState((request, step), None, self._state.selection))
        self._reveal()

    def centre_on(self, request: int, step: int) -> None:
        """Bring a step a little above the middle of the view."""
        if 0 <= request < self._layout.request_count:
            if self._layout.reveal(request):
                self._updated()
            self._scroll.centre_on(request, step)

    def _set_state(self, state: PaneState) -> None:
        self._state = state
        for path, pane in self.panes.items():
            pane.state = state
            pane.setAccessibleDescription(self._describe(path, *state.cursor))
            pane.viewport().update()
        self._show_headers()

    def _reveal(self) -> None:
        """Bring the cursor into view, wherever it is."""
        layout = self._layout
        if not 0 <= self._at[0] < layout.request_count:
            return
        title = layout.row_with(self._state.header) if self._state.header else None
        if title is None and layout.reveal(self._at[0]):
            self._updated()
        top = layout.y_of(*self._at) if title is None else float(layout.tops[title])
        self._show_cursor()
        self._scroll.centred = None
        self._scroll.show(top, top + layout.metrics.token_line)

    def _go(self, state: PaneState) -> None:
        """The user moved the cursor."""
        moved = state.cursor != self._at
        self._scroll.follows, self._cursor_is_users = False, True
        self._set_state(state)
        self._reveal()
        if moved:
            self.cursor_moved.emit(*state.cursor)

    def _anchor(self, path: Path) -> Position:
        """Where a selection that is extended begins."""
        old = self._state.selection
        return old.anchor if old and old.path is path else self._at

    def _pressed(self, path: Path, position: Position, extend: bool) -> None:
        self._scroll.active = path
        selection = Selection(path, self._anchor(path) if extend else position, position)
        self._go(PaneState(position, None, selection))

    def _move(self, path: Path, motion: Motion, extend: bool) -> None:
        self._scroll.active = path
        layout = self._layout
        if not layout.request_count:
            return
        if motion == "fold":
            row = layout.row_with(self._state.header) if self._state.header else layout.row_of(self._at[0])
            self._toggle(row or 0)
            return
        state = move(layout, path, self._state, motion)
        selection = Selection(path, self._anchor(path), state.cursor) if extend else None
        self._go(PaneState(state.cursor, state.header, selection))

    # Folds.

    def _refold(self, change: Callable[[], None]) -> None:
        self._scroll.keep(self._at, change)
        self._updated()

    def _toggle(self, row: int) -> None:
        self._refold(lambda: self._layout.toggle(row))

    def _unfold_message(self, key: ParagraphKey) -> None:
        self._refold(lambda: self._layout.unfold_message(key))

    def fold_all(self) -> None:
        """Fold every block."""
        self._refold(self._layout.fold_all)

    def unfold_all(self) -> None:
        """Unfold every block."""
        self._refold(self._layout.unfold_all)

    def set_scroll_locked(self, locked: bool) -> None:
        """Scroll both panes together, or each alone."""
        self._scroll.set_locked(locked)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The wheel over headers and ruler scrolls too."""
        QApplication.sendEvent(self._scroll.pane.verticalScrollBar(), event)

    # Finding and copying.

    def find(  # type: ignore[override]  # QWidget.find looks a window up by its id
        self, text: str, side: str, backwards: bool = False
    ) -> bool:
        """Go to the next answer text (`side`: "both", "cached", "recompute") from the cursor on; False: none."""
        sides = [one for path, one in self._layout.sides.items() if one is not None and side in ("both", path.value)]
        number = self._found[1] if self._found and self._found[0] == self._at else -1
        found = find_next(sides, text, (*self._at, number), backwards)
        if found is None:
            return False
        selection, number = found
        self._found = selection.anchor, number
        self._scroll.active = selection.path
        self._go(PaneState(selection.anchor, None, selection))
        return True

    def copy_selection(self, kind: CopyKind) -> str:
        """Put the selected tokens, or the one at the cursor, on the clipboard and return what was put there."""
        selection = self._state.selection or Selection(self._scroll.active, self._at, self._at)
        side = self._layout.sides[selection.path]
        text = copied(selection, side, kind, self._pieces) if side else ""
        QGuiApplication.clipboard().setText(text)
        return text

    def _menu(self, path: Path, point: QPoint, hit: Hit) -> None:
        selection = self._state.selection
        if hit.position and not (selection and selection.holds(path, *hit.position)):
            self._pressed(path, hit.position, False)
        menu = pane_menu(self, self._layout, hit, self.copy_selection, self._toggle, self.why_no_ids)
        menu.exec(point)
        menu.deleteLater()

    def _describe(self, path: Path, request: int, step: int) -> str:
        return describe(self._layout.sides[path], request, step)
