"""What the app cannot know and asks before an export, and how much shall leave the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QCheckBox, QComboBox, QLineEdit, QRadioButton, QVBoxLayout, QWidget

from app.session import CANNOT, FORMS, LABELS, QUESTIONS, REDACTIONS, ExportRequest, form_of, known_answers
from app.trajectory.trajectory import ExperimentInfo
from app.views.text_label import text_label

SHORT = {
    "none": "Everything: it can be replayed",
    "light": "Lightly redacted: texts out, ids exchanged",
    "strict": "Strictly redacted: no texts, no ids",
}
ASKED = {"gpu": "GPU or other accelerator", "launch": "Server's command line", "link": "Where the model can be had"}


class ExportFields(QWidget):
    """The left side of the export dialog. Emits `changed` when `request` would say something else."""

    changed = Signal()

    def __init__(
        self,
        experiment: ExperimentInfo,
        episodes: Sequence[str],
        notes: Mapping[str, str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._experiment, self._episodes, self._notes = experiment, tuple(episodes), dict(notes)
        self.answers = {key: QLineEdit() for key in QUESTIONS}
        known = known_answers(experiment)
        for key, line in self.answers.items():
            line.setText(known.get(key, ""))
            line.setCursorPosition(0)
            line.setPlaceholderText("not known; leave empty where it does not apply")
            line.setToolTip(QUESTIONS[key])
            line.setAccessibleName(QUESTIONS[key])
        self.note = QLineEdit(self._notes.get(self._episodes[0], ""))
        self.note.setPlaceholderText("What whoever gets it should know")
        self.note.setAccessibleName("Note")
        self.form = QComboBox()
        self.form.addItems(FORMS)
        self.form.setCurrentText(form_of(experiment))
        self.form.setAccessibleName("Issue form that report.md follows")
        self.redactions = {key: QRadioButton(SHORT[key]) for key in REDACTIONS}
        self.redaction_words = text_label("muted", wrap=True)
        self.check = QCheckBox("Run the scripts before writing")
        self.check.setChecked(True)
        self.estimate = text_label("muted", wrap=True)
        self._lay_out()
        self._watch()
        self._say_redaction()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 14, 0)
        column.setSpacing(4)
        count = len(self._episodes)
        title = text_label("title", wrap=True)
        title.setText(self._episodes[0] if count == 1 else f"{count} marked pairs")
        title.setToolTip(", ".join(self._episodes))
        column.addWidget(title)
        column.addSpacing(8)
        rows: list[tuple[str, QWidget]] = [(ASKED[key], line) for key, line in self.answers.items()]
        rows += [("Note", self.note)] if count == 1 else []
        for text, widget in [*rows, ("Issue form", self.form)]:
            label = text_label("muted")
            label.setText(text)
            label.setBuddy(widget)
            column.addWidget(label)
            column.addWidget(widget)
            column.addSpacing(5)
        column.addSpacing(6)
        label = text_label("title")
        label.setText("How much leaves this machine")
        column.addWidget(label)
        for button in self.redactions.values():
            column.addWidget(button)
        column.addWidget(self.redaction_words)
        column.addSpacing(10)
        column.addWidget(self.check)
        column.addWidget(self.estimate)
        column.addStretch(1)

    def _watch(self) -> None:
        group = QButtonGroup(self)
        for button in self.redactions.values():
            group.addButton(button)
        self.redactions["none"].setChecked(True)
        group.buttonToggled.connect(lambda _button, on: self._redaction_chosen() if on else None)
        for line in (*self.answers.values(), self.note):
            line.textChanged.connect(self.changed)
        self.form.currentIndexChanged.connect(self.changed)

    def request(self) -> ExportRequest:
        """What shall be exported."""
        notes = self._notes if len(self._episodes) > 1 else {self._episodes[0]: self.note.text().strip()}
        return ExportRequest(
            episodes=self._episodes,
            experiment=self._experiment.id,
            redaction=next(key for key, button in self.redactions.items() if button.isChecked()),
            form=FORMS[self.form.currentIndex()],
            answers={key: line.text().strip() for key, line in self.answers.items()},
            notes=notes,
        )

    def _redaction_chosen(self) -> None:
        self._say_redaction()
        self.changed.emit()

    def _say_redaction(self) -> None:
        key = self.request().redaction
        self.redaction_words.setText(" ".join((LABELS[key], *CANNOT[key])))
        self.check.setEnabled(key == "none")

    def show_estimate(self, seconds: float) -> None:
        """How long running the scripts takes, in words; 0 where there are none."""
        if not self.check.isEnabled():
            text = "A redacted bundle has no scripts to run."
        elif not seconds:
            text = "No script can show these pairs, so there is nothing to run."
        else:
            text = (
                f"They show the fork without Forkpoint. About {_duration(seconds)} here, if both the model and a "
                "llama-server are at hand; what cannot be run is said, and left out."
            )
        self.estimate.setText(text)


def _duration(seconds: float) -> str:
    return f"{max(5, 5 * round(seconds / 5))} s" if seconds < 90 else f"{round(seconds / 60)} min"
