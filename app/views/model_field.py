"""Choosing a model: the default one or a GGUF file, and what the file really holds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QComboBox, QFileDialog, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.errors import AppError
from app.views.environment_line import size_text
from app.views.verbs import Verbs

POLL_MS = 30
Facts = Mapping[str, Any]


def model_words(facts: Facts) -> str:
    """Architecture, size, tensor types really held (they need not be what the name says), chat template."""
    types = facts.get("tensor_types") or {}
    held = ", ".join(f"{count} × {name}" for name, count in sorted(types.items(), key=lambda item: -item[1]))
    context = facts.get("n_ctx_train")
    parts = (
        str(facts.get("architecture") or ""),
        size_text(int(facts.get("size_bytes") or 0)),
        f"holds {held}" if held else "",
        f"{context} tokens of context" if context else "",
        "chat template: yes" if facts.get("chat_template") else "chat template: no, ChatML is used",
    )
    return " · ".join(part for part in parts if part)


class ModelField(QWidget):
    """`model` is the chosen file, None for the default model; `facts` is empty where it cannot be used (yet), and then
    `path` is None; else it is where the file lies, the default model's too.

    A file is read and hashed in a thread: gigabytes take seconds. An answer that comes after another choice is dropped.
    """

    model_chosen = Signal()

    def __init__(self, verbs: Verbs, last: Path | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._verbs = verbs
        self.facts: Facts = {}
        self.path: Path | None = None
        self._answers: deque[tuple[Path | None, Path | None, Facts | AppError]] = deque()
        self._poll = QTimer(self, interval=POLL_MS)
        self._poll.timeout.connect(self._take_answer)
        self.choice = QComboBox()
        self.choice.setAccessibleName("Model")
        self.choice.addItem("Default model", None)
        if last is not None and last.exists():
            self.choice.addItem(last.name, last)
            self.choice.setCurrentIndex(1)
        browse = QPushButton("Choose GGUF…")
        browse.clicked.connect(self._browse)
        self.said = QLabel(textFormat=Qt.TextFormat.PlainText, wordWrap=True)
        self.said.setMinimumHeight(2 * self.fontMetrics().lineSpacing())
        row = QHBoxLayout()
        row.addWidget(self.choice, 1)
        row.addWidget(browse)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row)
        column.addWidget(self.said)
        self.choice.currentIndexChanged.connect(self._look)
        self._look()

    @property
    def model(self) -> Path | None:
        """The chosen file; None is the default model."""
        chosen = self.choice.currentData()
        return None if chosen is None else Path(chosen)

    @property
    def is_reading(self) -> bool:
        """Whether the answer about the chosen file is still to come."""
        return self._poll.isActive()

    def choose(self, file: Path) -> None:
        """Take a file into the list and look at it."""
        self.choice.addItem(file.name, file)
        self.choice.setCurrentIndex(self.choice.count() - 1)

    def _browse(self) -> None:
        start = str(self.model.parent) if self.model else ""
        name, _ = QFileDialog.getOpenFileName(self, "Choose a model", start, "GGUF models (*.gguf);;All files (*)")
        if name:
            self.choose(Path(name))

    def _look(self) -> None:
        self.facts, self.path = {}, None
        self._say("Reading the file…", "muted")
        threading.Thread(target=self._read, args=(self.model,), name="model file", daemon=True).start()
        self._poll.start()
        self.model_chosen.emit()

    def _read(self, model: Path | None) -> None:
        """In the thread."""
        try:
            path = model or self._verbs.default_model()
            self._answers.append((model, path, self._verbs.check_model(path)))
        except AppError as error:
            self._answers.append((model, None, error))

    def _take_answer(self) -> None:
        while self._answers:
            model, path, answer = self._answers.popleft()
            if model != self.model:
                continue
            self._poll.stop()
            if isinstance(answer, AppError):
                self._say(str(answer), "problem")
            else:
                self.facts, self.path = answer, path
                if model is None:
                    self.choice.setItemText(self.choice.currentIndex(), f"{answer.get('name')} (default)")
                self._say(model_words(answer), "muted")
            self.model_chosen.emit()

    def _say(self, text: str, role: str) -> None:
        self.said.setProperty("role", role)
        self.said.style().polish(self.said)
        self.said.setText(text)
