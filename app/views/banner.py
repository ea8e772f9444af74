"""A line above the panes for errors and notices: a sentence, a hint, perhaps a button. Never a storm of dialogs."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from app.errors import AppError


def close_button(name: str) -> QToolButton:
    """A small ✕ with an accessible name."""
    button = QToolButton()
    button.setText("✕")
    button.setToolTip(f"{name} (Esc)")
    button.setAccessibleName(name)
    return button


SIGNS = {"error": "✕  ", "notice": "▲  ", "whole": "✓  "}


class Banner(QFrame):
    """Shows one message at a time; a newer one takes the place of an older one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self.sentence = QLabel(textFormat=Qt.TextFormat.PlainText, wordWrap=True)
        self.sentence.setProperty("role", "title")
        self.hint = QLabel(textFormat=Qt.TextFormat.PlainText, wordWrap=True)
        for label in (self.sentence, self.hint):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self.sentence)
        words.addWidget(self.hint)
        self.offer = QPushButton()
        self.offer.clicked.connect(self._take_offer)
        shut = close_button("Dismiss the message")
        shut.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 10, 8)
        row.addLayout(words, 1)
        row.addWidget(self.offer)
        row.addWidget(shut)
        self._offered: Callable[[], None] | None = None
        self.hide()

    def show_error(self, error: AppError) -> None:
        """A known error: what happened, and what to do about it."""
        self.say("error", error.message, error.hint)

    def say(
        self, kind: str, sentence: str, hint: str = "", offer: str = "", offered: Callable[[], None] | None = None
    ) -> None:
        """`kind` is "error", "notice" or "whole" (all is well); `offer` labels a button that calls `offered` and
        takes the message away."""
        self.setProperty("kind", kind)
        self.style().polish(self)
        self.sentence.setText(SIGNS[kind] + sentence)
        self.hint.setText(hint)
        self.hint.setVisible(bool(hint))
        self.offer.setText(offer)
        self.offer.setVisible(bool(offer))
        self._offered = offered
        self.setAccessibleName(f"{kind}: {sentence} {hint}")
        self.show()

    def _take_offer(self) -> None:
        self.hide()
        if self._offered is not None:
            self._offered()
