"""How long a search for a smaller pair may take."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QVBoxLayout, QWidget

from app.views.engine_fields import number
from app.views.text_label import text_label

MINUTES, MOST_MINUTES = 5, 24 * 60
LINES_WIDE = 27
"""Width in heights of a line, at any text size."""

WHAT = (
    "Forkpoint drops requests, messages and tokens, one after the other, tries each on both paths, and keeps what "
    "still forks at the same token, twice from scratch."
)
THEN = (
    "Stop keeps the best so far, and searching again goes on from it. The result is an experiment of its own in this "
    "file."
)


class ShrinkDialog(QDialog):
    """After `accept`, `seconds` is the budget."""

    def __init__(self, episode: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"Shrink {episode}")
        self.minutes = number(MINUTES, 1, MOST_MINUTES, "Minutes at most")
        what, then = text_label(wrap=True), text_label("muted", wrap=True)
        wide = LINES_WIDE * self.fontMetrics().height()
        for label, text in ((what, WHAT), (then, THEN)):
            label.setText(text)
            label.setFixedSize(wide, label.heightForWidth(wide))
        form = QFormLayout()
        form.addRow("&Minutes at most", self.minutes)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        go = buttons.button(QDialogButtonBox.StandardButton.Ok)
        go.setText("Search")
        go.setProperty("primary", True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setSpacing(12)
        column.addWidget(what)
        column.addLayout(form)
        column.addWidget(then)
        column.addWidget(buttons)
        column.setSizeConstraint(QVBoxLayout.SizeConstraint.SetFixedSize)

    @property
    def seconds(self) -> float:
        """The budget."""
        return 60.0 * self.minutes.value()
