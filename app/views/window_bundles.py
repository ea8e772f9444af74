"""Bundles as the window has them: opened, exported, replayed here; and the search for a smaller pair to send."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app.errors import AppError
from app.session import CANNOT, LABELS, ExportJob, ExportRequest, ReplayOn, Session, issue_words
from app.trajectory.events import Event, RunEnded, RunFailed, Shrunk
from app.trajectory.pair import Pair
from app.trajectory.piece_text import inert
from app.trajectory.reproducer import why_no_reproducer
from app.views.banner import Banner
from app.views.export_dialog import ExportDialog
from app.views.pair_summary import local_time
from app.views.replay_here import ReplayHere
from app.views.run_control import Kind, RunControl
from app.views.run_feed import RunFeed, Running
from app.views.shrink_dialog import ShrinkDialog
from app.views.theme import Theme
from app.views.verbs import Verbs
from app.views.window_marks import WindowMarks

if TYPE_CHECKING:
    from app.views.workbench import Workbench

BUSY = "Something else is running; stop it first."
NO_PAIR = "There is no pair."
BUNDLE = "This is a bundle already; report.md in it has the issue form."


class WindowBundles(QObject):
    """Begins exports, replays of recorded forks, and searches; tells their ends. `said` is for the status bar."""

    said = Signal(str)

    def __init__(
        self,
        verbs: Verbs,
        control: RunControl,
        banner: Banner,
        marks: WindowMarks,
        bench: Callable[[], Workbench | None],
        theme: Callable[[], Theme],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self.export_dialog: ExportDialog | None = None
        self.replay_dialog: ReplayHere | None = None
        self._verbs, self._control, self._banner, self._marks = verbs, control, banner, marks
        self._bench, self._theme, self._window = bench, theme, parent
        self._shrunk: Shrunk | None = None
        control.shrunk.connect(self._has_shrunk)
        control.ended.connect(self._ended)

    # What can be done now.

    def why_not(self) -> dict[str, str]:
        """Why an action cannot be done now, by its name; "" where it can."""
        bench = self._bench()
        session = bench.session if bench is not None else None
        pair = bench.view.pair if bench is not None else None
        if bench is None or session is None or (pair is None and not self._marks.notes):
            return dict.fromkeys(("export", "copy_issue", "replay_here", "shrink"), NO_PAIR)
        is_bundle = session.verification is not None
        no_fork = why_no_reproducer(pair) if pair is not None else NO_PAIR
        return {
            "export": BUNDLE if is_bundle else "",
            "copy_issue": NO_PAIR if pair is None else BUNDLE if is_bundle else "",
            "replay_here": BUSY if self._control.running else no_fork,
            "shrink": BUSY if self._control.running else no_fork or session.notice or self._verbs.why_no_marks(session),
        }

    def close(self) -> None:
        """End what the dialogs do."""
        for dialog in (self.export_dialog, self.replay_dialog):
            if dialog is not None:
                dialog.reject()

    # Opening.

    def show_opened(self, session: Session) -> None:
        """Say what an opened bundle is, whether it is whole, and what can be done with it."""
        sentence, hint, is_whole = bundle_words(session)
        offer = "Replay here" if is_whole and can_be_replayed(session) else ""
        self._banner.say("whole" if is_whole else "notice", sentence, hint, offer, self.replay_here)

    # Export.

    def export(self) -> None:
        """The dialog for the marked pairs, or for the shown one where none is marked."""
        bench = self._bench()
        if bench is None or bench.session is None or bench.experiment is None or self.why_not()["export"]:
            return
        bench.table.note.finish()
        shown = [bench.shown[0]] if bench.shown is not None else []
        episodes = list(self._marks.notes) or shown
        self.export_dialog = ExportDialog(
            self._verbs, bench.session, bench.experiment, episodes, self._marks.notes, self._window
        )
        self.export_dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.export_dialog.written.connect(lambda path: self.said.emit(f"{path.name} is written."))
        self.export_dialog.destroyed.connect(self._forget_export)
        self.export_dialog.open()

    def _forget_export(self) -> None:
        self.export_dialog = None

    def copy_issue(self) -> None:
        """Copy the shown pair as the engine's issue form has it; it is made in a thread."""
        bench = self._bench()
        if bench is None or bench.session is None or bench.experiment is None or bench.view.pair is None:
            return
        request = ExportRequest((bench.view.pair.cached.episode_id,), bench.experiment.id)
        job = self._verbs.prepare_export(bench.session, request, False)
        feed = RunFeed(job, self)
        feed.drained.connect(lambda events: self._copy_made(job, feed, events))

    def _copy_made(self, job: ExportJob, feed: RunFeed, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, RunFailed):
                self._banner.say("error", event.message, event.hint)
            elif isinstance(event, RunEnded) and job.made is not None:
                QGuiApplication.clipboard().setText(issue_words(job.made))
                self.said.emit("Copied the issue text. Its empty fields are for your own words.")
        if not job.is_running and not job.inbox:
            feed.deleteLater()

    # Replay here.

    def replay_here(self, model: Path | None = None) -> None:
        """Ask the shown fork again on the embedded engine, and lay the answers side by side."""
        bench = self._bench()
        pair = bench.view.pair if bench is not None else None
        if bench is None or bench.session is None or bench.experiment is None or pair is None:
            return
        if reason := self.why_not()["replay_here"]:
            self._banner.say("notice", "This pair cannot be replayed here.", reason)
            return
        try:
            where = ReplayOn("embedded", model)
            run = self._verbs.replay_pairs(bench.session, bench.experiment.id, [pair.cached.episode_id], where)
        except AppError as error:
            self._banner.show_error(error)
            return
        self.show_replay(pair, run)

    def show_replay(self, pair: Pair, run: Running) -> None:
        """Follow a replay that was just begun, in a dialog of its own."""
        self._control.begin(run, Kind.REPRODUCE)
        if self.replay_dialog is not None and self.replay_dialog.pair is pair:
            self.replay_dialog.begun()
            return
        if self.replay_dialog is not None:
            self.replay_dialog.close()
        dialog = self.replay_dialog = ReplayHere(pair, self._control, self._theme(), self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.again_requested.connect(self.replay_here)
        dialog.finished.connect(self._forget_replay)
        dialog.show()

    def _forget_replay(self) -> None:
        self.replay_dialog = None

    # Shrink.

    def ask_to_shrink(self) -> None:
        """Ask for the time, then search."""
        bench = self._bench()
        pair = bench.view.pair if bench is not None else None
        if pair is None:
            return
        dialog = ShrinkDialog(inert(pair.cached.episode_id), self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.accepted.connect(lambda: self.shrink(dialog.seconds))
        dialog.open()

    def shrink(self, budget_s: float) -> None:
        """Search for the shortest history and prompt of the shown pair that still fork at the same token."""
        bench = self._bench()
        pair = bench.view.pair if bench is not None else None
        if bench is None or bench.session is None or bench.experiment is None or pair is None:
            return
        if reason := self.why_not()["shrink"]:
            self._banner.say("notice", "This fork cannot be shrunk now.", reason)
            return
        self._banner.hide()
        try:
            run = self._verbs.shrink(bench.session, pair.cached.episode_id, budget_s, bench.experiment.id)
        except AppError as error:
            self._banner.show_error(error)
            return
        self._shrunk = None
        self._control.begin(run, Kind.SHRINK)

    def _has_shrunk(self, shrunk: Shrunk) -> None:
        self._shrunk = shrunk

    def _ended(self, event: RunEnded) -> None:
        """Show the pair that was found: an experiment of its own."""
        bench, found = self._bench(), self._shrunk
        if self._control.kind is not Kind.SHRINK or bench is None or bench.session is None or found is None:
            return
        self._shrunk = None
        if any(
            info.id == event.experiment_id and info.plan.get("kind") == "shrink" for info in bench.session.experiments()
        ):
            bench.show_experiment(event.experiment_id)
        hint = f"It is an experiment of its own in this file. Ctrl+E exports it. {inert(found.sentence)}."
        gone = found.tokens_before - found.tokens_now
        sentence = (
            f"The fork shows with {found.tokens_now:,} of {found.tokens_before:,} tokens."
            if gone
            else f"Nothing could go yet: the fork needs all {found.tokens_before:,} tokens, as far as was tried."
        )
        self._banner.say("whole", sentence, hint)


def can_be_replayed(session: Session) -> bool:
    """Whether the ids that were asked are in an opened bundle."""
    found = session.verification
    return found is not None and found.contents is not None and found.contents.redaction == "none"


def bundle_words(session: Session) -> tuple[str, str, bool]:
    """What an opened bundle is: a sentence, a hint, and whether it is as it was written."""
    found = session.verification
    assert found is not None
    assert found.contents is not None
    contents = found.contents
    model = contents.environment.get("model", {}).get("name", "an unknown model")
    origin = f"Bundle of {local_time(contents.created)}, {inert(str(model))}"
    redaction = (
        " ".join((LABELS[contents.redaction], *CANNOT[contents.redaction])) if contents.redaction != "none" else ""
    )
    if found.state == "whole":
        hint = redaction or "Nothing of it is run. Replay here asks this machine's engine the same."
        return f"{origin}: whole. Checksums and its own comparison agree.", hint, True
    return (
        f"{origin}: ALTERED: {inert(found.sentence.removeprefix('Altered: '))}",
        f"Do not trust what it shows. {redaction}".strip(),
        False,
    )
