"""Labels of plain text: what a model or a file name says never becomes markup."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel


def text_label(role: str = "", *, wrap: bool = False) -> QLabel:
    """A label of plain text that can be selected. `role` is the style sheet's."""
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    label.setWordWrap(wrap)
    if role:
        label.setProperty("role", role)
    return label


def set_role(label: QLabel, role: str) -> None:
    """Give a label another role of the style sheet."""
    label.setProperty("role", role)
    label.style().polish(label)
