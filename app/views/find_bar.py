"""Bars that open above the panes: find a text in the answers, go to a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QFrame, QHBoxLayout, QLabel, QLineEdit, QWidget

from app.trajectory.pair import PATH_NAMES, Names
from app.views.banner import close_button
from app.views.step_cursor import read_place

SIDES = ("both", "cached", "recompute")
"""Which answers are searched."""


class _Bar(QFrame):
    """A line edit with a label on the right; hidden until it is opened."""

    closed = Signal()

    def __init__(self, name: str, placeholder: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("bar")
        self.field = QLineEdit(placeholderText=placeholder, clearButtonEnabled=True)
        self.field.setAccessibleName(name)
        self.said = QLabel(textFormat=Qt.TextFormat.PlainText)
        self.said.setProperty("role", "muted")
        self.row = QHBoxLayout(self)
        self.row.setContentsMargins(12, 5, 12, 5)
        label = QLabel(name)
        label.setBuddy(self.field)
        self.row.addWidget(label)
        self.row.addWidget(self.field, 1)
        self.row.addWidget(self.said)
        shut = close_button(f"Close: {name}")
        shut.clicked.connect(self.shut)
        self.row.addWidget(shut)
        self.hide()

    def open(self) -> None:
        """Show the bar and put the keyboard into it."""
        self.show()
        self.field.selectAll()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def shut(self) -> None:
        """Hide the bar."""
        self.hide()
        self.closed.emit()


class FindBar(_Bar):
    """Find in A, B or both. `search_requested`(text, side, backwards); the answer comes back by `show_found`."""

    search_requested = Signal(str, str, bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Find", "text in the answers", parent)
        self.side = QComboBox()
        self.side.setAccessibleName("Where to find")
        for side in SIDES:
            self.side.addItem("in both", side)
        self.set_names(PATH_NAMES)
        self.row.insertWidget(2, self.side)
        self.field.returnPressed.connect(lambda: self.search(backwards=False))
        self.field.textEdited.connect(lambda _text: self.said.clear())

    def set_names(self, names: Names) -> None:
        """What the two sides are called."""
        for place, name in enumerate(names, start=1):
            self.side.setItemText(place, f"in {name.capitalize()}")

    def search(self, backwards: bool) -> None:
        """Find the next or previous place; opens the bar where there is nothing to look for yet."""
        if not self.field.text():
            self.open()
            return
        self.search_requested.emit(self.field.text(), self.side.currentData(), backwards)

    def show_found(self, found: bool) -> None:
        """Say whether there was one."""
        self.said.setText("" if found else "not found")


class GoToBar(_Bar):
    """Go to request:token. `place_chosen`(request, step) counts from 0."""

    place_chosen = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Go to", "request:token, such as 3:17", parent)
        self.lengths: Callable[[], Sequence[int]] = list
        self.field.returnPressed.connect(self._go)
        self.field.textEdited.connect(lambda _text: self.said.clear())

    def _go(self) -> None:
        place = read_place(self.field.text(), self.lengths())
        if isinstance(place, str):
            self.said.setText(place)
            return
        self.shut()
        self.place_chosen.emit(*place)
