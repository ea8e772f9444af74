"""Pictures of a window, and of a dialog over it."""

from __future__ import annotations

from PySide6.QtCore import QEventLoop
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QDialog

from app.views.window import MainWindow


def wait() -> None:
    """Let the window go on until something happens."""
    QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)


def grab(window: MainWindow) -> QPixmap:
    """The window as it is painted now."""
    for _ in range(4):  # layouts, then what they made visible
        QApplication.processEvents()
    return window.grab()


def grab_over(window: MainWindow, dialog: QDialog) -> QPixmap:
    """The dialog over its window, as a window manager would place it; no larger than the window."""
    dialog.resize(dialog.size().boundedTo(window.size() * 0.95))
    behind, front = grab(window), dialog.grab()
    with QPainter(behind) as painter:
        painter.fillRect(behind.rect(), QColor(0, 0, 0, 90))
        place = behind.rect().center() - front.rect().center()
        painter.drawPixmap(place, front)
        painter.setPen(QColor(window.theme.line))
        painter.drawRect(front.rect().translated(place))
    return behind
