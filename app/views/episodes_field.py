"""Choosing what is asked: built-in episodes by selection text or family, or a conversation recorded elsewhere."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from app.errors import AppError
from app.session import RunRequest
from app.trajectory.episode import Episode
from app.views.verbs import Verbs

FAMILY_COLUMNS = 4


class EpisodesField(QWidget):
    """`episodes` are those chosen now, empty where the choice cannot be used; `said` then says why."""

    selection_changed = Signal()

    def __init__(self, verbs: Verbs, folder: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._verbs = verbs
        self._kept = folder / f"pasted-{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
        self.episodes: Sequence[Episode] = ()
        self._all = verbs.choose(RunRequest(episodes="0-79"))
        self.source = QTabBar(drawBase=False, expanding=False)
        self.source.setAccessibleName("Where the episodes come from")
        self.source.addTab("Built-in episodes")
        self.source.addTab("Imported conversation")
        self.selection = QLineEdit("0-7")
        self.selection.setAccessibleName("Episodes, as numbers, ranges and names")
        self.selection.setToolTip("Numbers, ranges and names: 0-7,12,calendar-02")
        self.families = {name: QCheckBox(name) for name in dict.fromkeys(e.family for e in self._all)}
        self.file = QLineEdit(placeholderText="OpenAI chat messages as JSON or JSONL, a request body, or a list of ids")
        self.file.setAccessibleName("File of the conversation")
        self.pasted = QPlainTextEdit(placeholderText="… or paste it here", tabChangesFocus=True)
        self.pasted.setAccessibleName("Pasted conversation")
        self.pasted.setFixedHeight(70)
        self.said = QLabel(textFormat=Qt.TextFormat.PlainText, wordWrap=True)
        self._lay_out()
        self.selection.textChanged.connect(self._look)
        self.file.textChanged.connect(self._look)
        self.pasted.textChanged.connect(self._look)
        self.source.currentChanged.connect(self._look)
        for box in self.families.values():
            box.clicked.connect(self._select_families)
        self._look()

    def _lay_out(self) -> None:
        built_in, imported = QWidget(), QWidget()
        grid = QGridLayout(built_in)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.addWidget(self.selection, 0, 0, 1, FAMILY_COLUMNS)
        for place, box in enumerate(self.families.values()):
            grid.addWidget(box, 1 + place // FAMILY_COLUMNS, place % FAMILY_COLUMNS)
        browse = QPushButton("Choose…")
        browse.clicked.connect(self._browse)
        row = QHBoxLayout()
        row.addWidget(self.file, 1)
        row.addWidget(browse)
        column = QVBoxLayout(imported)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row)
        column.addWidget(self.pasted)
        self._pages = QStackedWidget()
        for page in (built_in, imported):
            self._pages.addWidget(page)
        self.source.currentChanged.connect(self._pages.setCurrentIndex)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        for widget in (self.source, self._pages, self.said):
            whole.addWidget(widget)

    @property
    def is_import(self) -> bool:
        """Whether a conversation takes the place of the built-in episodes."""
        return self.source.currentIndex() == 1

    def import_file(self) -> Path | None:
        """The file to import, None for built-in episodes. A pasted text lies in the data folder."""
        if not self.is_import:
            return None
        text = self.pasted.toPlainText()
        if not text.strip():
            return Path(self.file.text())
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        self._kept.write_text(text, encoding="utf-8")
        return self._kept

    def discard(self) -> None:
        """Nothing will be run: a pasted text need not stay."""
        self._kept.unlink(missing_ok=True)

    def _browse(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, "Choose a conversation", "", "JSON (*.json *.jsonl);;All files (*)")
        if name:
            self.file.setText(name)

    def _select_families(self) -> None:
        chosen = {name for name, box in self.families.items() if box.isChecked()}
        whole = len(chosen) in (0, len(self.families))
        self.selection.setText("0-79" if whole else ",".join(e.id for e in self._all if e.family in chosen))

    def _look(self) -> None:
        problem = ""
        try:
            self.episodes = self._choose()
        except AppError as error:
            self.episodes, problem = (), str(error)
        for name, box in self.families.items():
            box.setChecked(any(episode.family == name for episode in self.episodes))
        count = len(self.episodes)
        turns = sum(len(episode.turns) for episode in self.episodes)
        words = f"{count} episode{'s' if count != 1 else ''}, {turns} user turns" if count else "Nothing chosen yet."
        self.said.setProperty("role", "problem" if problem else "muted")
        self.said.style().polish(self.said)
        self.said.setText(problem or words)
        self.selection_changed.emit()

    def _choose(self) -> Sequence[Episode]:
        if not self.is_import:
            return self._verbs.choose(RunRequest(episodes=self.selection.text()))
        if not (self.pasted.toPlainText().strip() or self.file.text().strip()):
            return ()
        return self._verbs.choose(RunRequest(imported=self.import_file()))
