"""The doctor: is this engine reproducible, what can be proved on it, and which flags would make it so?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QFormLayout,
    QHBoxLayout,
    QMessageBox,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app import session
from app.errors import AppError
from app.session import MOST_PROBES, Diagnosis, Examination
from app.settings import Settings
from app.views.diagnosis_view import DiagnosisView
from app.views.engine_fields import number
from app.views.engine_picker import EnginePicker, Picked
from app.views.text_label import set_role, text_label
from app.views.verbs import Verbs

LOOK_MS = 100
PROBES = 6
RESULT_HEIGHT = 820
INTRODUCTION = (
    "The doctor asks the engine one long prompt before and after an unrelated one, then short conversations on the "
    "cached and on the recompute path, each twice. It answers: is there a server-level prompt cache, does what was "
    "served before change an answer, can the cache be observed, pinned and reset, do both paths repeat themselves, and "
    "how far are they apart. Nothing is changed and nothing leaves this machine but to the server that you name.\n\n"
    "With a small model it takes a minute or two."
)
EVICTS = (
    "This server was not started by Forkpoint. The doctor's prompts push out what others have in its cache, so their "
    "next requests are slower.\n\nGo on?"
)


class DoctorPage(QDialog):
    """Picks an engine, examines it in a thread, shows what was found. Closing it ends the examination."""

    def __init__(self, verbs: Verbs, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._verbs = verbs
        self._examination: Examination | None = None
        self._text = ""
        self._name = ""
        self.setWindowTitle("Doctor")
        self.picker = EnginePicker(verbs, settings, self)
        self.probes = number(PROBES, 1, MOST_PROBES, "Probes")
        self.target = QWidget()
        self.about = text_label("muted", wrap=True)
        self.about.setText(INTRODUCTION)
        self.about.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        self.said = text_label("muted", wrap=True)
        self.said.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.bar = QProgressBar(textVisible=False)
        self.bar.setRange(0, 0)
        self.bar.setFixedWidth(120)
        self.bar.setAccessibleName("The doctor is at work")
        self.found: DiagnosisView | None = None
        self.diagnosis: Diagnosis | None = None
        self.go, self.again = QPushButton("Examine"), QPushButton("Examine another…")
        self.copy, self.shut = QPushButton("Copy as text"), QPushButton("Close")
        self.go.setProperty("primary", True)
        self._look = QTimer(self, interval=LOOK_MS)
        self._look.timeout.connect(self._take)
        self._lay_out()
        for button in self.findChildren(QPushButton):
            button.setAutoDefault(False)
        self.go.setDefault(True)
        self.go.clicked.connect(self._go_or_stop)
        self.again.clicked.connect(self._show_target)
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._text))
        self.shut.clicked.connect(self.reject)
        self.picker.changed.connect(self._check)
        self.picker.unfolded.connect(lambda shown: self._give_room(self.height() + shown.sizeHint().height()))
        self.picker.kind.setFocus()
        self._show_target()

    def _lay_out(self) -> None:
        form = QFormLayout(self.target)
        form.setContentsMargins(0, 0, 0, 0)
        form.setVerticalSpacing(10)
        form.setHorizontalSpacing(16)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        self.picker.add_rows(form)
        row = QHBoxLayout()
        row.addWidget(self.probes)
        row.addStretch(1)
        form.addRow("Probes", row)
        inner = QWidget()
        self._column = QVBoxLayout(inner)
        self._column.setSpacing(14)
        self._column.addWidget(self.about)
        self._column.addWidget(self.target)
        self._column.addStretch(1)
        scroll = QScrollArea(widgetResizable=True)
        scroll.setWidget(inner)
        foot = QHBoxLayout()
        foot.addWidget(self.bar)
        foot.addWidget(self.said, 1)
        for button in (self.again, self.copy, self.go, self.shut):
            foot.addWidget(button)
        whole = QVBoxLayout(self)
        whole.addWidget(scroll, 1)
        whole.addLayout(foot)
        self.resize(940, 480)

    def _give_room(self, height: int) -> None:
        """As far as the screen has it; the rest scrolls."""
        most = round(0.9 * self.screen().availableGeometry().height())
        self.resize(self.width(), min(max(height, self.height()), most))

    @property
    def is_examining(self) -> bool:
        """Whether the doctor is at work."""
        return self._examination is not None

    def _show_target(self) -> None:
        """Back to what is examined."""
        if self.found is not None:
            self.found.deleteLater()
            self.found = self.diagnosis = None
        for widget, shown in ((self.about, True), (self.target, True), (self.again, False), (self.copy, False)):
            widget.setVisible(shown)
        self.go.show()
        self.bar.hide()
        self._check()

    def _check(self) -> None:
        if self.is_examining or self.found is not None:
            return
        problem = self.picker.problem
        self.go.setEnabled(not problem)
        self._say(problem or "Ready.", "problem" if problem else "muted")

    def _say(self, sentence: str, role: str = "muted") -> None:
        self.said.setText(sentence)
        set_role(self.said, role)

    # The examination.

    def _go_or_stop(self) -> None:
        if self._examination is not None:
            self._examination.stop()
            self.go.setEnabled(False)
            self._say("Stopping…")
            return
        try:
            picked = self.picker.value()
        except AppError as error:
            self._say(str(error), "problem")
            return
        if session.evicts_others(picked.engine) and not picked.server.allow_reset:
            if not self._may_evict():
                return
            picked = replace(picked, server=replace(picked.server, allow_reset=True))
        self.examine(picked)

    def examine(self, picked: Picked) -> None:
        """Begin; what it evicts has been agreed to."""
        self.picker.close_down()
        self.picker.remember()
        self._name = session.without_password(picked.engine)
        if picked.engine == "embedded" and self.picker.model.path is not None:
            self._name = self.picker.model.path.name
        try:
            self._examination = self._verbs.examine(
                picked.engine,
                probes=self.probes.value(),
                model=picked.model,
                settings=picked.settings,
                server=picked.server,
                managed=picked.managed,
            )
        except AppError as error:
            self._say(str(error), "problem")
            return
        self.target.setEnabled(False)
        self.bar.show()
        self.go.setText("Stop")
        self.go.setEnabled(True)
        self._say("Opening the engine…")
        self._look.start()

    def _may_evict(self) -> bool:
        answer = QMessageBox.question(
            self,
            "Forkpoint",
            EVICTS,
            QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.Cancel,
            QMessageBox.StandardButton.Cancel,
        )
        return answer is QMessageBox.StandardButton.Yes

    def _take(self) -> None:
        examination = self._examination
        if examination is None:
            return
        over = examination.join(0)  # asked first: what it said is then all there
        while examination.said:
            self._say(examination.said.popleft())
        if not over:
            return
        self._look.stop()
        self._examination = None
        self.target.setEnabled(True)
        self.bar.hide()
        self.go.setText("Examine")
        self.go.setEnabled(True)
        if examination.diagnosis is not None:
            self.show_diagnosis(examination.diagnosis)
        else:
            failure = examination.failure or AppError("The examination ended without a result.")
            self._say(f"✗ {failure}", "problem")

    def show_diagnosis(self, diagnosis: Diagnosis) -> None:
        """Show what was found, in place of the target."""
        self._text = "\n".join(session.diagnosis_lines(diagnosis, self._name)) + "\n"
        self.diagnosis = diagnosis
        self.found = DiagnosisView(diagnosis)
        self._column.insertWidget(2, self.found)
        for widget, shown in ((self.about, False), (self.target, False), (self.again, True), (self.copy, True)):
            widget.setVisible(shown)
        self.go.hide()
        self._give_room(RESULT_HEIGHT)
        self._say(f"Examined: {Path(self._name).name if '://' not in self._name else self._name}")

    def done(self, result: int) -> None:
        """Whatever the end is, nothing is asked any more."""
        self._look.stop()
        self.picker.close_down()
        if self._examination is not None:
            self._examination.stop()
            self._examination = None
        super().done(result)
