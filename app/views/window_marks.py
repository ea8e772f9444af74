"""Marks as the window has them: set by a key, noted below the pairs, taken away and brought back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.errors import AppError
from app.views.banner import Banner
from app.views.verbs import Verbs

if TYPE_CHECKING:
    from app.views.workbench import Workbench


class WindowMarks(QObject):
    """The marks of the shown experiment: `notes` by episode. `said` is for the status bar; `changed` follows them."""

    said = Signal(str)
    changed = Signal()

    def __init__(self, verbs: Verbs, banner: Banner, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.notes: Mapping[str, str] = {}
        self._verbs = verbs
        self._banner = banner
        self._bench: Workbench | None = None
        self._unmarked: list[tuple[str, int, str, str]] = []  # file, experiment, episode, note; the newest last

    def attach(self, bench: Workbench) -> None:
        """Follow the workbench that was just made."""
        self._bench = bench
        bench.experiment_changed.connect(self._load)
        bench.table.note.note_written.connect(self._write_note)

    @property
    def shown_is_marked(self) -> bool:
        """Whether the shown pair has a mark."""
        return self._bench is not None and self._bench.shown is not None and self._bench.shown[0] in self.notes

    @property
    def can_undo(self) -> bool:
        """Whether a mark of the shown experiment was taken away here."""
        return any(kept[:2] == self._place() for kept in self._unmarked)

    def toggle(self) -> None:
        """Mark the shown pair, or take its mark away; marked again it has its note back."""
        bench = self._bench
        if bench is None or bench.shown is None or bench.experiment is None:
            return
        episode = bench.shown[0]
        if episode in self.notes:
            note = self.notes[episode]
            if self._set(episode, None):
                self._unmarked.append((*self._place(), episode, note))
                self.said.emit(f"{episode} is not marked any more; Ctrl+Z brings the mark back.")
        else:
            self._mark_again(episode)
        self.changed.emit()

    def undo(self) -> None:
        """Bring back the mark that was taken away last."""
        for kept in reversed(self._unmarked):
            if kept[:2] == self._place():
                self._mark_again(kept[2])
                self.changed.emit()
                return

    def edit_note(self) -> None:
        """Write the shown pair's note; marks it first."""
        if self._bench is not None and self._bench.shown is not None:
            if not self.shown_is_marked:
                self.toggle()
            self._bench.table.note.line.setFocus()

    def _mark_again(self, episode: str) -> None:
        kept = [each for each in self._unmarked if each[:3] == (*self._place(), episode)]
        note = kept[-1][3] if kept else ""
        if self._set(episode, note):
            self._unmarked = [each for each in self._unmarked if each not in kept]
            self.said.emit(f"{episode} is marked; its note stands below the pairs.")

    def _write_note(self, episode: str, note: str) -> None:
        if episode in self.notes:
            self._set(episode, note)

    def _set(self, episode: str, note: str | None) -> bool:
        bench = self._bench
        if bench is None or bench.session is None or bench.experiment is None:
            return False
        try:
            self._verbs.mark(bench.session, bench.experiment.id, episode, note)
        except AppError as error:
            self._banner.show_error(error)
            return False
        finally:
            self._load()
        return True

    def _place(self) -> tuple[str, int]:
        bench = self._bench
        if bench is None or bench.session is None or bench.experiment is None:
            return "", 0
        return str(bench.session.path), bench.experiment.id

    def _load(self) -> None:
        bench, self.notes, why_not = self._bench, {}, ""
        assert bench is not None
        if bench.session is not None and bench.experiment is not None:
            why_not = self._verbs.why_no_marks(bench.session)
            try:
                self.notes = self._verbs.marks_of(bench.session, bench.experiment.id)
            except AppError as error:
                why_not = error.message
        bench.table.set_marks(self.notes, why_not)
        self.changed.emit()
