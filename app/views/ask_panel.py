"""What can be asked of a fork: buttons that work, and below them the answers as they come."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from app.views.text_label import text_label
from app.views.theme import Theme

AGAIN_MARKS = {True: "✓", False: "✗", None: "…"}


class AskPanel(QWidget):
    """What can be asked of this fork, and the answers as they come. Later questions get their buttons here."""

    run_again_requested = Signal()
    try_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._lines: list[tuple[str, bool | None]] = []
        self._title = text_label("title")
        self.set_fork(True)
        self.run_again = QPushButton("Run both again here")
        self.run_again.setEnabled(False)
        self.run_again.clicked.connect(self.run_again_requested)
        self.try_server = QPushButton("Try on a llama-server")
        self.try_server.setEnabled(False)
        self.try_server.clicked.connect(self.try_requested)
        self._why = text_label("muted", wrap=True)
        self._answers = QVBoxLayout()
        self._answers.setSpacing(4)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        for widget in (self._title, self.run_again, self.try_server, self._why):
            layout.addWidget(widget)
        layout.addLayout(self._answers)
        self._why.hide()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        self.set_lines(self._lines)

    def set_fork(self, forked: bool) -> None:
        """Whether there is a fork to ask about; without one the last request is asked again."""
        self._title.setText("Ask of this fork" if forked else "Ask of this pair")

    def set_can_run(self, can: bool, why: str) -> None:
        """Offer the run, or say why it cannot be offered."""
        self.run_again.setEnabled(can)
        self.run_again.setToolTip(why)
        self._why.setText("" if can else why)
        self._why.setVisible(bool(why) and not can)

    def set_can_try(self, can: bool, why: str) -> None:
        """Offer to try the fork on a llama-server, or say in the tooltip why it cannot be."""
        self.try_server.setEnabled(can)
        self.try_server.setToolTip(why)

    def set_lines(self, lines: Sequence[tuple[str, bool | None]]) -> None:
        """One line per answer: sentence, and whether it was identical (None: still running)."""
        self._lines = list(lines)
        while self._answers.count() > len(lines):
            taken = self._answers.takeAt(self._answers.count() - 1)
            if taken is not None and (widget := taken.widget()) is not None:
                widget.deleteLater()
        while self._answers.count() < len(lines):
            self._answers.addWidget(text_label(wrap=True))
        colours = {True: self._theme.equal, False: self._theme.fork, None: self._theme.muted}
        for row, (sentence, identical) in enumerate(lines):
            item = self._answers.itemAt(row)
            label = item.widget() if item is not None else None
            if isinstance(label, QLabel):
                label.setText(f"{AGAIN_MARKS[identical]} {sentence}")
                label.setStyleSheet(f"color: {colours[identical]}")
