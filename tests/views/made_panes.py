"""Where things are in a pane under test, and a press on them."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.trajectory.pair import Fork, ForkKind, ForkSide
from app.trajectory.trajectory import Path
from app.views.pane_pair import PanePair

SIDE = ForkSide(1, b" 14", -0.7, 0.04)
FORK = Fork(ForkKind.TOKEN, 2, 16, SIDE, SIDE)


def holds_colour(image: QImage, colour: str) -> bool:
    wanted = QColor(colour)
    return any(image.pixelColor(x, y) == wanted for x in range(image.width()) for y in range(image.height()))


def place_in_view(panes: PanePair, path: Path, position: tuple[int, int]) -> QPoint:
    pane = panes.panes[path]
    place = panes._layout.token_place(path, *position)
    assert place is not None
    return QPoint(int(place[0] + place[2] / 2), int(place[1] - pane.offset + panes._layout.metrics.token_line / 2))


def press(widget: QWidget, point: QPoint) -> None:
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, point)
