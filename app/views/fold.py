"""A line that unfolds what few people need."""

from __future__ import annotations

from PySide6.QtWidgets import QToolButton, QWidget


def fold_button(text: str, content: QWidget) -> QToolButton:
    """A button that shows and hides `content`, which is hidden at first."""
    button = QToolButton()
    button.setCheckable(True)
    button.setProperty("role", "link")

    def show(shown: bool) -> None:
        content.setVisible(shown)
        button.setText(f"{'▾' if shown else '▸'} {text}")
        button.setAccessibleName(text)

    button.toggled.connect(show)
    show(False)
    return button
