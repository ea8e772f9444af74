"""The new-run dialog: everything of a `RunRequest`, checked while it is filled in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QStandardItemModel
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
    QVBoxLayout,
    QWidget,
)

from app import paths
from app.errors import AppError
from app.session import RunRequest
from app.settings import Settings
from app.views import run_estimate
from app.views.engine_fields import SamplingFields, number
from app.views.engine_picker import EnginePicker
from app.views.episodes_field import EpisodesField
from app.views.text_label import set_role
from app.views.verbs import Verbs

KINDS = (
    ("pair", "Both paths: cached | recompute", "Runs of each path"),
    ("repeat", "Run to run: served again by one server", "Runs of the cached path"),
)
"""Kind of experiment, what it is called, and what is then run several times."""

NO_RECOMPUTE = "No request can be kept from this server's cache, so there is no recompute path."
HISTORIES = (("tokens", "Token ids as they were sampled"), ("chat", "As a chat client: rendered and tokenised anew"))


class RunDialog(QDialog):
    """After `accept`, `request` is what to run; it stays None where the dialog was closed."""

    def __init__(self, verbs: Verbs, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.request: RunRequest | None = None
        start = RunRequest()
        self.setWindowTitle("Run episodes")
        self.picker = EnginePicker(verbs, settings, self)
        self.kind = QComboBox()
        self.kind.setAccessibleName("Experiment")
        for key, text, _ in KINDS:
            self.kind.addItem(text, key)
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
        self.picker.add_rows(form)
        form.addRow("Experiment", self.kind)
        form.addRow("Episodes", self.episodes)
        self._runs = QLabel()
        form.addRow(self._runs, _side_by_side(self.repeat, QLabel("repeating"), self.repeat_first))
        form.addRow("", self.until_fork)
        form.addRow("Sampling", self.sampling)
        form.addRow("History", self.history)
        form.addRow("Rivals at each step", _side_by_side(self.rivals))
        browse = QPushButton("Choose…")
        browse.clicked.connect(self._browse)
        form.addRow("File", _side_by_side(self.out, browse, stretch=False))
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.addLayout(form)
        column.addStretch(1)
        scroll = self._scroll = QScrollArea(widgetResizable=True)
        scroll.setWidget(inner)
        foot = QHBoxLayout()
        foot.addWidget(self.said, 1)
        foot.addWidget(self.buttons)
        whole = QVBoxLayout(self)
        whole.addWidget(scroll, 1)
        whole.addLayout(foot)
        self.resize(720, 600)

    def _watch(self) -> None:
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.picker.changed.connect(self._engine_changed)
        self.picker.unfolded.connect(self._give_room)
        self.kind.currentIndexChanged.connect(self._check)
        self.episodes.selection_changed.connect(self._check)
        self.until_fork.toggled.connect(self._check)
        self.out.textChanged.connect(self._check)
        for box in (self.repeat, self.repeat_first):
            box.valueChanged.connect(self._check)

    def _engine_changed(self) -> None:
        """A server without a recompute path can only be served again."""
        info = self.picker.info
        without = info is not None and info.capabilities.recompute is False
        choices = self.kind.model()
        assert isinstance(choices, QStandardItemModel)
        choices.item(0).setEnabled(not without)
        choices.item(0).setToolTip(NO_RECOMPUTE if without else "")
        self.kind.setToolTip(NO_RECOMPUTE if without else "")
        if without:
            self.kind.setCurrentIndex(1)
        self._check()

    def _give_room(self, shown: QWidget) -> None:
        """Room for what was unfolded, as far as the screen has it; the rest scrolls."""
        wanted = self.height() + shown.sizeHint().height()
        self.resize(self.width(), min(wanted, round(0.9 * self.screen().availableGeometry().height())))
        QTimer.singleShot(0, self, lambda: self._scroll.ensureWidgetVisible(shown))

    def _browse(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self, "File to write", str(paths.data_dir()), "Forkpoint (*.forkpoint)")
        if name:
            self.out.setText(name if name.endswith(".forkpoint") else f"{name}.forkpoint")

    def _problem(self) -> str:
        """The first thing that keeps this from being run, "" where nothing does."""
        out = Path(self.out.text()) if self.out.text().strip() else None
        checks: tuple[tuple[bool, Callable[[], str]], ...] = (
            (bool(self.picker.problem), lambda: self.picker.problem),
            (not self.episodes.episodes, lambda: "Choose episodes."),
            (out is not None and not out.absolute().parent.is_dir(), lambda: "The folder of the file does not exist."),
        )
        return next((sentence() for wrong, sentence in checks if wrong), "")

    def _check(self) -> None:
        again = self._run_to_run
        self._runs.setText(KINDS[again][2])
        self.repeat.setMinimum(2 if again else 1)
        self.until_fork.setEnabled(not again)
        problem = self._problem()
        self.go.setEnabled(not problem)
        set_role(self.said, "problem" if problem else "muted")
        self.said.setText(problem or self._estimate())

    @property
    def _run_to_run(self) -> bool:
        return bool(self.kind.currentData() == "repeat")

    @property
    def _until_fork(self) -> bool:
        return self.until_fork.isChecked() and not self._run_to_run

    def _estimate(self) -> str:
        if self._until_fork:
            return "Until the first fork, three minutes at most."
        if self.picker.name == "server":
            return "How long it takes depends on the server; the run bar says so once it runs."
        episodes = len(self.episodes.episodes)
        repeated = min(self.repeat_first.value() or episodes, episodes) * (self.repeat.value() - 1)
        share = 0.5 if self._run_to_run else 1.0  # one path of the two
        low, high = run_estimate.guess(
            share * episodes, share * repeated, float(self.picker.model.facts.get("size_bytes") or 0)
        )
        return f"{run_estimate.in_words(low, high).capitalize()}: a guess from the model's size, better once it runs."

    def accept(self) -> None:
        """Make the request and remember what was chosen; a value that cannot be used is said instead."""
        if self._problem():
            return
        try:
            picked = self.picker.value()
            self.request = RunRequest(
                engine=picked.engine,
                model=picked.model,
                settings=picked.settings,
                server=picked.server,
                managed=picked.managed,
                kind=self.kind.currentData(),
                sampling=self.sampling.value(),
                episodes=self.episodes.selection.text(),
                imported=self.episodes.import_file(),
                repeat=self.repeat.value(),
                repeat_first=self.repeat_first.value() or None,
                rivals=self.rivals.value(),
                history=self.history.currentData(),
                until_fork=self._until_fork,
                out=Path(self.out.text()) if self.out.text().strip() else None,
            )
        except AppError as error:
            self.said.setText(str(error))
            return
        self.picker.remember()
        super().accept()

    def done(self, result: int) -> None:
        """Whatever the end is, no server is asked any more."""
        self.picker.close_down()
        super().done(result)

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
