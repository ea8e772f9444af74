"""What a window without a file shows: what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

WHAT = "Same request, different answer: where, why, and can I show it?"
HOW = (
    "Forkpoint runs tool-use episodes through a language model twice: once with the key-value cache that the engine "
    "kept of the prompt, once with everything recomputed. It keeps every token with its rivals and opens on the first "
    "token where the two fork."
)
SHOWN_RECENT = 6
LINES_WIDE, BUTTON_WIDE = 48, 11
"""Widths of the page and of its buttons in heights of a line, at any text size."""


class StartPage(QWidget):
    """Run the demo, Open, Open the sample, recent files."""

    demo_requested = Signal()
    run_requested = Signal()
    open_requested = Signal()
    sample_requested = Signal()
    recent_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._recent = QVBoxLayout()
        self._recent.setSpacing(0)
        column = QVBoxLayout()
        column.setSpacing(8)
        self._scaled = [(_label("Forkpoint", role="title"), 2.2), (_label(WHAT), 1.25)]
        for label, _ in self._scaled:
            column.addWidget(label)
        column.addSpacing(4)
        column.addWidget(_label(HOW, role="muted"))
        column.addSpacing(18)
        offers = (
            ("Run the demo", self.demo_requested, True,
             "A small model on this machine; stops on the first fork, within three minutes."),
            ("Run…", self.run_requested, False, "Choose a model, episodes and settings (Ctrl+R)."),
            ("Open…", self.open_requested, False, "A .forkpoint file or a bundle (Ctrl+O), or drop it on this window."),
            ("Open the sample", self.sample_requested, False,
             "Recorded earlier, and marked RECORDED; replayable at reading speed."),
        )  # fmt: skip
        self._buttons: list[QPushButton] = []
        for text, signal, primary, why in offers:
            row = QHBoxLayout()
            button = QPushButton(text)
            button.setProperty("primary", primary)
            self._buttons.append(button)
            button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
            button.setAccessibleDescription(why)
            button.clicked.connect(signal)
            row.addWidget(button)
            row.addSpacing(10)
            row.addWidget(_label(why, role="muted"), 1)
            column.addLayout(row)
            if primary:
                self.setFocusProxy(button)
        column.addSpacing(18)
        column.addLayout(self._recent)
        holder = self._holder = QWidget()
        holder.setLayout(column)
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(holder, 8)
        across.addStretch(1)
        whole = QVBoxLayout(self)
        whole.addStretch(2)
        whole.addLayout(across)
        whole.addStretch(3)
        self._scale()

    def _scale(self) -> None:
        """Headings and width for the present text size."""
        for label, scale in self._scaled:
            font = self.font()
            font.setPointSizeF(font.pointSizeF() * scale)
            label.setFont(font)
        for button in self._buttons:
            button.setMinimumWidth(BUTTON_WIDE * self.fontMetrics().height())
        self._holder.setMaximumWidth(LINES_WIDE * self.fontMetrics().height())

    def changeEvent(self, event: QEvent) -> None:
        """Follow the text size, after the style sheet has taken the headings' fonts back to what they were."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_holder"):
            QTimer.singleShot(0, self, self._scale)

    def set_recent(self, files: Sequence[Path]) -> None:
        """Show the newest recent files; none, no heading."""
        while (item := self._recent.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        if files:
            self._recent.addWidget(_label("Recent", role="title"))
        for file in files[:SHOWN_RECENT]:
            link = QPushButton(f"{file.name}   {file.parent}".replace("&", "&&"))
            link.setProperty("role", "link")
            link.setCursor(Qt.CursorShape.PointingHandCursor)
            link.clicked.connect(lambda _checked=False, file=file: self.recent_chosen.emit(file))
            self._recent.addWidget(link)


def _label(text: str, role: str = "") -> QLabel:
    label = QLabel(text, textFormat=Qt.TextFormat.PlainText, wordWrap=True)
    label.setProperty("role", role)
    return label
