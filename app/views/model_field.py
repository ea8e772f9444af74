"""Choosing a model: the default one or a GGUF file, and what the file really holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QFileDialog, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.errors import AppError
from app.views.environment_line import size_text
from app.views.verbs import Verbs


def model_words(facts: Mapping[str, Any]) -> str:
    """Name, size, tensor types really held (they need not be what the name says), chat template."""
    types = facts.get("tensor_types") or {}
    held = ", ".join(f"{count} × {name}" for name, count in sorted(types.items(), key=lambda item: -item[1]))
    parts = [str(facts.get("architecture") or ""), size_text(int(facts.get("size_bytes") or 0))]
    parts += [f"holds {held}" if held else "", f"{facts['n_ctx_train']} tokens of context" if "n_ctx_train" in facts else ""]
    parts.append("chat template: yes" if facts.get("chat_template") else "chat template: no (ChatML is used)")
    return " · ".join(part for part in parts if part)


class ModelField(QWidget):
    """`model` is the chosen file, None for the default model; `facts` is empty where it cannot be used."""

    model_chosen = Signal()

    def __init__(self, verbs: Verbs, last: Path | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._verbs = verbs
        self.facts: Mapping[str, Any] = {}
        self.choice = QComboBox()
        self.choice.setAccessibleName("Model")
        self.choice.addItem("Default model", None)
        if last is not None and last.exists():
            self.choice.addItem(last.name, last)
        browse = QPushButton("Choose GGUF…")
        browse.clicked.connect(self._browse)
        self.said = QLabel(textFormat=Qt.TextFormat.PlainText, wordWrap=True)
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
        try:
            model = self.model
            self.facts = self._verbs.default_model() if model is None else self._verbs.check_model(model)
        except AppError as error:
            self.facts = {}
            self._say(str(error), "problem")
        else:
            name = self.facts.get("name")
            if self.model is None and name:
                self.choice.setItemText(self.choice.currentIndex(), f"{name} (default)")
            self._say(model_words(self.facts), "muted")
        self.model_chosen.emit()

    def _say(self, text: str, role: str) -> None:
        self.said.setProperty("role", role)
        self.said.style().polish(self.said)
        self.said.setText(text)
