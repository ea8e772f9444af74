"""The export dialog: what is asked on the left, exactly what leaves the machine on the right, then the bundle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.session import ExportJob, Prepared, Session, issue_words, script_seconds
from app.trajectory.events import Event, Notice, RunEnded, RunFailed
from app.trajectory.trajectory import ExperimentInfo
from app.views.environment_line import size_text
from app.views.export_fields import ExportFields
from app.views.export_preview import ExportPreview
from app.views.run_feed import RunFeed
from app.views.text_label import set_role, text_label
from app.views.verbs import Verbs

PREVIEW_AFTER_MS = 350
"""Typing makes one new preview, not one a letter."""

ZIP = "Forkpoint bundles (*.zip)"
GO, CHECK = "Write the bundle…", "Run the scripts"
FIELDS_WIDE = 27
"""Width of the left side in heights of a line, at any text size."""


class ExportDialog(QDialog):
    """Nothing is written before "Write"; what is written then is what the preview shows, byte for byte.

    `written` tells the path. Closing it stops what goes on; a stopped export leaves nothing behind.
    """

    written = Signal(object)

    def __init__(
        self,
        verbs: Verbs,
        session: Session,
        experiment: ExperimentInfo,
        episodes: Sequence[str],
        notes: Mapping[str, str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.made: Prepared | None = None
        self.target: Path | None = None
        self._is_checked = False
        self._checking = False
        self._verbs, self._session = verbs, session
        self._name = episodes[0] if len(episodes) == 1 else f"{session.path.stem}-{len(episodes)}-pairs"
        self._job: ExportJob | None = None
        self._feed: RunFeed | None = None
        self.setWindowTitle("Export a bundle")
        self.fields = ExportFields(experiment, episodes, notes)
        self.preview = ExportPreview()
        self.said = text_label("muted", wrap=True)
        self.progress = QProgressBar(textVisible=False, minimum=0, maximum=0)
        self.progress.setFixedWidth(120)
        self.progress.setAccessibleName("Progress of the export")
        self.copy_issue, self.show_folder = QPushButton("Copy &issue text"), QPushButton("Show &folder")
        self.stop, self.go, self.shut = QPushButton("&Stop"), QPushButton(GO), QPushButton("Close")
        self._due = QTimer(self, singleShot=True, interval=PREVIEW_AFTER_MS)
        self._lay_out()
        self._watch()
        self._prepare(check=False)

    def _lay_out(self) -> None:
        scroll = QScrollArea(widgetResizable=True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(self.fields)
        scroll.setFixedWidth(FIELDS_WIDE * self.fontMetrics().height())
        upper = QHBoxLayout()
        upper.setSpacing(14)
        upper.addWidget(scroll)
        upper.addWidget(self.preview, 1)
        foot = QHBoxLayout()
        foot.addWidget(self.progress)
        foot.addWidget(self.said, 1)
        self.go.setProperty("primary", True)
        self.go.setDefault(True)
        for button in (self.copy_issue, self.show_folder, self.stop, self.go, self.shut):
            foot.addWidget(button)
        whole = QVBoxLayout(self)
        whole.addLayout(upper, 1)
        whole.addLayout(foot)
        self.resize(1120, 700)

    def _watch(self) -> None:
        self.fields.changed.connect(self._changed)
        self.fields.check.toggled.connect(self._show_state)
        self._due.timeout.connect(lambda: self._prepare(check=False))
        self.go.clicked.connect(self._go_on)
        self.stop.clicked.connect(self._stop)
        self.shut.clicked.connect(self.reject)
        self.copy_issue.clicked.connect(self._copy_issue)
        self.show_folder.clicked.connect(self._show_folder)

    # What is asked.

    def _changed(self) -> None:
        """The preview does not hold any more; a new one is made when typing pauses."""
        self._let_go()
        self.made, self.target, self._is_checked = None, None, False
        self._due.start()
        self._say("Making the preview anew…")
        self._show_state()

    def _go_on(self) -> None:
        if self.go.text() == CHECK:
            self._prepare(check=True)
            return
        folder = self._session.path.absolute().parent
        name, _ = QFileDialog.getSaveFileName(self, "Write the bundle", str(folder / f"{self._name}.zip"), ZIP)
        if name:
            self.write(Path(name if name.lower().endswith(".zip") else f"{name}.zip"))

    def write(self, target: Path) -> None:
        """Write what the preview shows; a file of that name is replaced."""
        if self.made is not None:
            self.target = target
            self._begin(self._verbs.write_export(self.made, target), "Writing…")

    def _wants_check(self) -> bool:
        has_scripts = self.made is not None and script_seconds(self.made) > 0
        return has_scripts and self.fields.check.isChecked() and self.fields.check.isEnabled() and not self._is_checked

    # What goes on.

    def _prepare(self, *, check: bool) -> None:
        job = self._verbs.prepare_export(self._session, self.fields.request(), check)
        self._begin(job, "Running the scripts…" if check else "Making the preview…", checking=check)

    def _begin(self, job: ExportJob, sentence: str, *, checking: bool = False) -> None:
        self._let_go()
        self._checking = checking
        self._job, self._feed = job, RunFeed(job, self)
        self._feed.drained.connect(self._take)
        self._say(sentence)
        self._show_state()

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Notice():
                    self._say(event.sentence)
                case RunEnded():
                    self._ended(event.reason)
                case RunFailed():
                    self._failed(f"{event.message} {event.hint}")

    def _ended(self, reason: str) -> None:
        job, checked = self._job, self._checking
        self._let_go()
        if job is not None and reason == "prepared" and job.made is not None:
            self.made, self._is_checked = job.made, checked
            self.preview.show_made(job.made)
            self.fields.show_estimate(script_seconds(job.made))
            self._say(_checked_words(job.made) if checked else "Nothing has been written yet.")
        elif reason == "written" and self.target is not None:
            self._say(f"{self.target.name} is written: {size_text(self.target.stat().st_size)}.", "good")
            self.written.emit(self.target)
        else:
            self.target = None
            self._say("Stopped; nothing was written.")
        self._show_state()

    def _failed(self, sentence: str) -> None:
        self._let_go()
        self.target = None
        if self.made is None:
            self.preview.show_nothing("There is no preview.")
        self._say(sentence, "problem")
        self._show_state()

    def _stop(self) -> None:
        if self._job is not None:
            self._job.stop()
            self._say("Stopping…")

    def _let_go(self) -> None:
        """End what goes on, without waiting: a preview that nobody wants any more."""
        if self._feed is not None:
            self._feed.close()
            self._feed.deleteLater()
        if self._job is not None:
            self._job.stop()
        self._job = self._feed = None
        self._checking = False

    # What is shown.

    def _say(self, sentence: str, role: str = "muted") -> None:
        self.said.setText(sentence)
        set_role(self.said, role)

    @property
    def works(self) -> bool:
        """Whether something goes on, or is about to."""
        return self._job is not None or self._due.isActive()

    def _show_state(self) -> None:
        works = self.works
        is_written = self.target is not None and not works
        self.progress.setVisible(works)
        self.stop.setVisible(self._job is not None and (self._checking or self.target is not None))
        self.go.setText(CHECK if self._wants_check() and not is_written else GO)
        self.go.setEnabled(not works and self.made is not None)
        self.copy_issue.setVisible(self.made is not None)
        self.show_folder.setVisible(is_written)

    def _copy_issue(self) -> None:
        if self.made is not None:
            QGuiApplication.clipboard().setText(issue_words(self.made))
            self._say("The issue text is copied. Its empty fields are for your own words.")

    def _show_folder(self) -> None:
        if self.target is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self.target.absolute().parent)))

    def done(self, result: int) -> None:
        """Stop what goes on."""
        self._due.stop()
        self._let_go()
        super().done(result)


def _checked_words(made: Prepared) -> str:
    """What the scripts said, counted by their exit codes."""
    printed = list(made.contents.replay_log.values())
    if not printed:
        return "No script could be run here; the bundle says so. Nothing has been written yet."
    shows = sum(text.rstrip().endswith("exit code 0") for text in printed)
    return f"{shows} of {len(printed)} scripts that were run show the fork. Nothing has been written yet."
