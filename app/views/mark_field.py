"""The note on a marked pair, below the pairs."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QWidget

from app.views.pair_model import STAR


class MarkField(QWidget):
    """Shown while the current pair is marked. Emits `note_written(episode, note)` when a changed note is finished:
    by Enter, by going elsewhere, or where another pair becomes the current one."""

    note_written = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.why_not = ""
        self._episode: str | None = None
        self._saved = ""
        star = QLabel(STAR)
        star.setToolTip("This pair is marked (M)")
        self.line = QLineEdit(placeholderText="Note, for whoever gets the bundle")
        self.line.setMaxLength(500)
        self.line.editingFinished.connect(self.finish)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 2, 12, 2)
        row.setSpacing(6)
        row.addWidget(star)
        row.addWidget(self.line, 1)
        self.hide()

    def show_mark(self, episode: str | None, note: str | None) -> None:
        """The mark of an episode; `note` None where it has none. What was being written of another one is kept."""
        self.finish()
        is_same = episode == self._episode and note == self._saved
        self._episode, self._saved = (episode, note) if note is not None else (None, "")
        self.setVisible(self._episode is not None and not (self.why_not and not note))
        self.line.setReadOnly(bool(self.why_not))
        self.line.setToolTip(self.why_not or "What whoever gets the bundle should know of this pair")
        self.line.setAccessibleName(f"Note on {episode}" if self._episode else "Note")
        if not is_same:
            self.line.setText(self._saved)
            self.line.setCursorPosition(0)

    def finish(self) -> None:
        """Tell of a note that was changed."""
        episode, note = self._episode, self.line.text().strip()
        if episode is not None and self.line.isModified() and note != self._saved:
            self.line.setModified(False)
            self._saved = note
            self.note_written.emit(episode, note)
