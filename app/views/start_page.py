"""What a window without a file shows: what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

WHAT = "Same request, different answer: where, why, and can I show it?"
HOW = (
    "Forkpoint runs tool-use episodes through a language model twice: once with the key-value cache that the engine "
    "kept of the prompt, once with everything recomputed. It keeps every token with its rivals and opens on the first "
    "token where the two fork."
)
SHOWN_RECENT = 6


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
        column.addWidget(_label("Forkpoint", scale=2.2, role="title"))
        column.addWidget(_label(WHAT, scale=1.25))
        column.addSpacing(4)
        column.addWidget(_label(HOW, role="muted"))
        column.addSpacing(18)
        offers = (
            ("Run the demo", self.demo_requested, True,
             "A small model on this machine; stops on the first fork, within three minutes."),
            ("Run…", self.run_requested, False, "Choose a model, episodes and settings (Ctrl+R)."),
            ("Open…", self.open_requested, False, "A .forkpoint file (Ctrl+O), or drop it on this window."),
            ("Open the sample", self.sample_requested, False,
             "Recorded earlier, and marked RECORDED; replayable at reading speed."),
        )  # fmt: skip
        for text, signal, primary, why in offers:
            row = QHBoxLayout()
            button = QPushButton(text)
            button.setProperty("primary", primary)
            button.setMinimumWidth(170)
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
        holder = QWidget()
        holder.setLayout(column)
        holder.setMaximumWidth(720)
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(holder, 8)
        across.addStretch(1)
        whole = QVBoxLayout(self)
        whole.addStretch(2)
        whole.addLayout(across)
        whole.addStretch(3)

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


def _label(text: str, scale: float = 1.0, role: str = "") -> QLabel:
    label = QLabel(text, textFormat=Qt.TextFormat.PlainText, wordWrap=True)
    label.setProperty("role", role)
    if scale != 1.0:
        font = QFont(label.font())
        font.setPointSizeF(font.pointSizeF() * scale)
        label.setFont(font)
    return label
