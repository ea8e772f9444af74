"""The new-run dialog: everything of a `RunRequest`, checked while it is filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import paths
from app.errors import AppError
from app.session import RunRequest
from app.settings import Settings
from app.views import run_estimate
from app.views.engine_fields import EngineFields, SamplingFields, number
from app.views.episodes_field import EpisodesField
from app.views.model_field import ModelField
from app.views.verbs import Verbs

HISTORIES = (("tokens", "Token ids as they were sampled"), ("chat", "As a chat client: rendered and tokenised anew"))


class RunDialog(QDialog):
    """After `accept`, `request` is what to run; it stays None where the dialog was closed."""

    def __init__(self, verbs: Verbs, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.request: RunRequest | None = None
        self._settings = settings
        start = RunRequest()
        last = Path(settings.last_model) if settings.last_model else None
        self.setWindowTitle("Run episodes on both paths")
        self.model = ModelField(verbs, last)
        self.episodes = EpisodesField(verbs, paths.data_dir())
        self.repeat = number(start.repeat, 1, 100, "Runs of each path")
        self.repeat_first = number(0, 0, 10000, "Episodes that are repeated", zero="all episodes")
        self.until_fork = QCheckBox("Stop on the first fork (three minutes at most)")
        self.sampling = SamplingFields(start.sampling)
        self.history = QComboBox()
        self.history.setAccessibleName("How the next prompt continues")
        for key, text in HISTORIES:
            self.history.addItem(text, key)
        self.rivals = number(start.rivals, 2, 50, "Rivals kept at each step")
        self.engine = EngineFields(replace(start.settings, threads=settings.threads))
        self.out = QLineEdit(placeholderText="an unnamed file in the data folder")
        self.out.setAccessibleName("File to write")
        self.said = QLabel(textFormat=Qt.TextFormat.PlainText, wordWrap=True)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.go = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.go.setText("Run")
        self.go.setProperty("primary", True)
        self._lay_out()
        self._watch()
        self._check()

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setVerticalSpacing(10)
        form.setHorizontalSpacing(16)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        form.addRow("Model", self.model)
        form.addRow("Episodes", self.episodes)
        form.addRow("Runs of each path", _side_by_side(self.repeat, QLabel("repeating"), self.repeat_first))
        form.addRow("", self.until_fork)
        form.addRow("Sampling", self.sampling)
        form.addRow("History", self.history)
        form.addRow("Rivals at each step", _side_by_side(self.rivals))
        browse = QPushButton("Choose…")
        browse.clicked.connect(self._browse)
        form.addRow("File", _side_by_side(self.out, browse, stretch=False))
        self.advanced = QToolButton()
        self.advanced.setText("▸ Engine settings")
        self.advanced.setCheckable(True)
        self.advanced.setProperty("role", "link")
        self.advanced.toggled.connect(self._unfold)
        self.engine.hide()
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.addLayout(form)
        column.addWidget(self.advanced)
        column.addWidget(self.engine)
        column.addStretch(1)
        scroll = self._scroll = QScrollArea(widgetResizable=True)
        scroll.setWidget(inner)
        foot = QHBoxLayout()
        foot.addWidget(self.said, 1)
        foot.addWidget(self.buttons)
        whole = QVBoxLayout(self)
        whole.addWidget(scroll, 1)
        whole.addLayout(foot)
        self.resize(700, 580)

    def _watch(self) -> None:
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.model.model_chosen.connect(self._check)
        self.episodes.selection_changed.connect(self._check)
        self.until_fork.toggled.connect(self._check)
        self.out.textChanged.connect(self._check)
        fields = self.engine
        for box in (self.repeat, self.repeat_first, fields.n_ctx, fields.n_batch, fields.n_ubatch):
            box.valueChanged.connect(self._check)
        fields.type_v.currentIndexChanged.connect(self._check)
        fields.flash_attention.toggled.connect(self._check)

    def _unfold(self, shown: bool) -> None:
        self.engine.setVisible(shown)
        self.advanced.setText(("▾" if shown else "▸") + " Engine settings")
        if shown:  # room for them, as far as the screen has it; the rest scrolls
            wanted = self.height() + self.engine.sizeHint().height()
            self.resize(self.width(), min(wanted, round(0.9 * self.screen().availableGeometry().height())))
            QTimer.singleShot(0, self, lambda: self._scroll.ensureWidgetVisible(self.engine))

    def _browse(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self, "File to write", str(paths.data_dir()), "Forkpoint (*.forkpoint)")
        if name:
            self.out.setText(name if name.endswith(".forkpoint") else f"{name}.forkpoint")

    def _problem(self) -> str:
        """The first thing that keeps this from being run, "" where nothing does."""
        out = Path(self.out.text()) if self.out.text().strip() else None
        checks: tuple[tuple[bool, Callable[[], str]], ...] = (
            (self.model.is_reading, lambda: "The model file is being read…"),
            (not self.model.facts, lambda: "Choose a model that can be used."),
            (not self.episodes.episodes, lambda: "Choose episodes."),
            (bool(self.engine.problem), lambda: self.engine.problem),
            (out is not None and not out.absolute().parent.is_dir(), lambda: "The folder of the file does not exist."),
        )
        return next((sentence() for wrong, sentence in checks if wrong), "")

    def _check(self) -> None:
        problem = self._problem()
        self.go.setEnabled(not problem)
        self.said.setProperty("role", "problem" if problem else "muted")
        self.said.style().polish(self.said)
        self.said.setText(problem or self._estimate())

    def _estimate(self) -> str:
        if self.until_fork.isChecked():
            return "Until the first fork, three minutes at most."
        episodes = len(self.episodes.episodes)
        repeated = min(self.repeat_first.value() or episodes, episodes) * (self.repeat.value() - 1)
        low, high = run_estimate.guess(episodes, repeated, float(self.model.facts.get("size_bytes") or 0))
        return f"{run_estimate.in_words(low, high).capitalize()}: a guess from the model's size, better once it runs."

    def accept(self) -> None:
        """Make the request and remember what was chosen; a value that cannot be used is said instead."""
        if self._problem():
            return
        try:
            self.request = RunRequest(
                model=self.model.model,
                settings=self.engine.value(),
                sampling=self.sampling.value(),
                episodes=self.episodes.selection.text(),
                imported=self.episodes.import_file(),
                repeat=self.repeat.value(),
                repeat_first=self.repeat_first.value() or None,
                rivals=self.rivals.value(),
                history=self.history.currentData(),
                until_fork=self.until_fork.isChecked(),
                out=Path(self.out.text()) if self.out.text().strip() else None,
            )
        except AppError as error:
            self.said.setText(str(error))
            return
        self._settings.last_model = str(self.model.model) if self.model.model else ""
        super().accept()

    def reject(self) -> None:
        """Close without a run."""
        self.episodes.discard()
        super().reject()


def _side_by_side(*widgets: QWidget, stretch: bool = True) -> QWidget:
    holder = QWidget()
    row = QHBoxLayout(holder)
    row.setContentsMargins(0, 0, 0, 0)
    for widget in widgets:
        row.addWidget(widget)
    if stretch:
        row.addStretch(1)
    return holder
