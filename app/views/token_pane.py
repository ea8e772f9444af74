"""One token pane: a custom-painted scroll area over one side of a `PairLayout`."""

from __future__ import annotations

import html
from collections.abc import Callable

from PySide6.QtCore import QEvent, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolTip, QWidget

from app.trajectory.trajectory import Path
from app.views.pair_layout import PairLayout
from app.views.pane_hits import Hit, hit
from app.views.pane_painter import PanePainter
from app.views.pane_state import PaneState

MOTIONS = {
    Qt.Key.Key_Left: "left",
    Qt.Key.Key_Right: "right",
    Qt.Key.Key_Up: "up",
    Qt.Key.Key_Down: "down",
    Qt.Key.Key_Home: "home",
    Qt.Key.Key_End: "end",
    Qt.Key.Key_Space: "fold",
    Qt.Key.Key_Return: "fold",
    Qt.Key.Key_Enter: "fold",
}


class TokenPane(QAbstractScrollArea):
    """Shows one path; knows nothing of the other. What the user does is told by signals, the owner changes `state`."""

    token_pressed = Signal(int, int, bool)  # request, step, extend the selection
    token_dragged = Signal(int, int)
    title_pressed = Signal(int)  # row
    more_pressed = Signal(object)  # ParagraphKey
    motion_requested = Signal(str, bool)  # one of MOTIONS' values, extend the selection
    copy_requested = Signal()
    menu_requested = Signal(object, object)  # global QPoint, Hit
    resized = Signal()
    focus_changed = Signal(bool)

    def __init__(
        self,
        path: Path,
        layout: PairLayout,
        painter: PanePainter,
        describe: Callable[[Path, int, int], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.path = path
        self.state = PaneState()
        self.hint = ""
        self._layout = layout
        self._painter = painter
        self._describe = describe
        self._dragging = False
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)  # the ruler is the scroll bar
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName(f"{path.value.capitalize()} path, tokens")

    @property
    def offset(self) -> int:
        """Height of the content above the view, in pixels."""
        return self.verticalScrollBar().value()

    def update_range(self) -> None:
        """Take over the layout's height."""
        bar = self.verticalScrollBar()
        bar.setRange(0, max(0, round(self._layout.height) - self.viewport().height()))
        bar.setPageStep(max(1, self.viewport().height() - round(2 * self._layout.metrics.token_line)))
        bar.setSingleStep(round(self._layout.metrics.token_line))
        self.viewport().update()

    def ensure_visible(self, top: float, bottom: float) -> None:
        """Scroll as little as brings a stretch of the content into view, with a line around it."""
        room = self._layout.metrics.token_line
        height = self.viewport().height()
        if top - room < self.offset:
            self.verticalScrollBar().setValue(int(top - room))
        elif bottom + room > self.offset + height:
            self.verticalScrollBar().setValue(int(bottom + room - height))

    def scrollContentsBy(self, _dx: int, dy: int) -> None:
        """Move the picture and paint only what has come into view."""
        self.viewport().scroll(0, dy)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the part that is asked for; frames and marks reach a little out of their lines."""
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), QColor(self._painter.theme.panel))
        if self.hint:
            self._painter.hint(painter, QRectF(self.viewport().rect()), self.hint)
        room = self._layout.metrics.gap
        top, bottom = event.rect().top() + self.offset - room, event.rect().bottom() + 1 + self.offset + room
        self._painter.paint(painter, self.path, self.offset, (top, bottom), self.state)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Tell the owner, which lays out both sides alike."""
        super().resizeEvent(event)
        self.resized.emit()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Tell that this pane has the keyboard."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell that it has not."""
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def _hit(self, point: QPoint) -> Hit:
        return hit(self._layout, self.path, point.x(), point.y() + self.offset)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Fold, unfold a message, or put the cursor on a token."""
        if event.button() is not Qt.MouseButton.LeftButton:
            return
        found = self._hit(event.position().toPoint())
        if found.kind == "title":
            self.title_pressed.emit(found.row)
        elif found.kind == "more":
            self.more_pressed.emit(found.key)
        elif found.position is not None:
            self._dragging = True
            self.token_pressed.emit(*found.position, bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Extend the selection while the button is down; else show what can be clicked."""
        found = self._hit(event.position().toPoint())
        if not self._dragging:
            clickable = found.kind in ("title", "more")
            self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if clickable else Qt.CursorShape.ArrowCursor)
            return
        beyond = min(0, event.position().toPoint().y()) + max(0, event.position().toPoint().y() - self.height())
        if beyond:
            self.verticalScrollBar().setValue(self.offset + beyond)
        if found.position is not None:
            self.token_dragged.emit(*found.position)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End of a selection."""
        del event
        self._dragging = False

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of what is under the mouse."""
        self.menu_requested.emit(event.globalPos(), self._hit(event.pos()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Step cursor, folds, copy; paging is the scroll bar's."""
        bar = self.verticalScrollBar()
        motion = MOTIONS.get(Qt.Key(event.key()))
        modifiers = event.modifiers() & ~(Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.KeypadModifier)
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_requested.emit()
        elif motion and not modifiers:
            self.motion_requested.emit(motion, bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        elif event.key() == Qt.Key.Key_PageDown:
            bar.setValue(bar.value() + bar.pageStep())
        elif event.key() == Qt.Key.Key_PageUp:
            bar.setValue(bar.value() - bar.pageStep())
        else:
            event.ignore()

    def viewportEvent(self, event: QEvent) -> bool:
        """Tell about the token under the mouse; its text is escaped, a tooltip would read it as markup."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            found = self._hit(event.pos())
            text = self._describe(self.path, *found.position) if found.position and found.exact else ""
            markup = f"<p style='white-space:pre'>{html.escape(text)}</p>" if text else ""
            QToolTip.showText(event.globalPos(), markup, self.viewport())
            return True
        return super().viewportEvent(event)
