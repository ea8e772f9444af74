"""Runs as the window has them: begun by a wish, shown as they go, ended with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.errors import AppError
from app.session import DEMO_SECONDS, RunRequest
from app.settings import Settings
from app.trajectory.events import PassFinished, RunEnded, RunFailed, RunStarted
from app.views.banner import Banner
from app.views.run_control import Kind, RunControl
from app.views.run_feed import FileRun
from app.views.verbs import Verbs

if TYPE_CHECKING:  # the workbench loads pyqtgraph: only once there is something to show
    from app.views.workbench import Workbench

DEMO = RunRequest(episodes="0-79", repeat=2, until_fork=True)
ENDED = {
    "complete": "The run is complete.",
    "stopped": "Stopped. What was recorded stays.",
    "forked": "Stopped on the first fork.",
    "again": "Both paths were asked again.",
    "shrunk": "The search is over; the smallest pair that still forks is shown.",
    "replayed": "The replay is over; this is the pair as it was recorded.",
}


class WindowRuns(QObject):
    """Begins runs, replays and "run both again here"; tells their ends. `said` is for the status bar."""

    said = Signal(str)

    def __init__(
        self,
        verbs: Verbs,
        settings: Settings,
        control: RunControl,
        banner: Banner,
        bench: Callable[[], Workbench],
        open_sample: Callable[[], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._verbs = verbs
        self._settings = settings
        self._control = control
        self._banner = banner
        self._bench = bench
        self._open_sample = open_sample
        self._file: Path | None = None
        control.experiment_started.connect(self._experiment_started)
        control.pass_finished.connect(self._pass_finished)
        control.ended.connect(self._ended)
        control.failed.connect(self._failed)

    def start(self, request: RunRequest) -> None:
        """Begin an experiment in a file of its own."""
        if self._control.running:
            return
        self._banner.hide()
        try:
            run = self._verbs.start_run(request, self._settings.near_tie)
        except AppError as error:
            self._banner.show_error(error)
            return
        self.watch(run, DEMO_SECONDS if request.until_fork else None)

    def watch(self, run: FileRun, at_most_s: float | None = None) -> None:
        """Show a run that has just begun, in place of the file that was open."""
        self._file = run.path
        bench = self._bench()
        self._control.begin(run, Kind.RUN, at_most_s)
        bench.run_began("Loading the engine…")

    def resume(self) -> None:
        """Go on with the shown experiment (DESIGN 4)."""
        bench = self._bench()
        if self._control.running or bench.session is None or bench.experiment is None:
            return
        try:
            run = self._verbs.resume_run(bench.session.path, bench.experiment.id, self._settings.near_tie)
        except AppError as error:
            self._banner.show_error(error)
            return
        self._file = run.path
        self._control.begin(run, Kind.RUN)
        bench.follow(True)

    def run_again(self) -> None:
        """Run both again here."""
        bench = self._bench()
        pair = bench.view.pair
        if self._control.running or pair is None or bench.session is None or bench.experiment is None:
            return
        try:
            run = self._verbs.run_again(bench.session, pair, bench.experiment.id)
        except AppError as error:
            self._banner.show_error(error)
            return
        self._control.begin(run, Kind.AGAIN)
        bench.view.inspector.set_again_lines([])
        bench.view.inspector.set_can_run_again(*bench.can_run_again())

    def replay(self) -> None:
        """Play the shown pair again at reading speed."""
        from app.views.replay import Replay

        bench = self._bench()
        if self._control.running or bench.view.pair is None or bench.experiment is None:
            return
        self._control.begin(Replay(bench.view.pair, bench.experiment.id, self), Kind.REPLAY)

    def pause(self, paused: bool) -> None:
        """Hold the replay, or let it go on."""
        from app.views.replay import Replay

        run = self._control.run
        if isinstance(run, Replay):
            run.pause() if paused else run.play()

    def _experiment_started(self, event: RunStarted) -> None:
        if self._file is None:
            return
        try:
            self._bench().experiment_started(self._verbs.open_session(self._file, self._settings.near_tie), event)
        except AppError as error:
            self._banner.show_error(error)

    def _pass_finished(self, event: PassFinished) -> None:
        if not event.valid:
            sentence = f"The {event.path} pass {event.repeat} is invalid: its pairs are shown, and never averaged."
            self._banner.say("notice", sentence, "; ".join(event.reasons))

    def _ended(self, event: RunEnded) -> None:
        self._refresh(event)
        if event.reason == "no fork":
            self._banner.say(
                "notice",
                "No fork so far: every pair gave the same tokens on both paths.",
                "On this machine and model the paths agree. The sample shows a fork that was recorded elsewhere.",
                "Open the sample",
                self._open_sample,
            )
        if self._control.kind not in (Kind.TRY, Kind.REPRODUCE) or event.reason == "stopped":  # else it is answered
            self.said.emit(ENDED.get(event.reason, ""))

    def _failed(self, event: RunFailed) -> None:
        self._refresh(None)
        self._banner.say("error", event.message, event.hint)

    def _refresh(self, event: RunEnded | None) -> None:
        bench = self._bench()
        try:
            if bench.session is not None and event is not None and event.reason not in ("again", "replayed"):
                bench.session.close()  # the file is not being written any more: open it as it is now
                bench.session = self._verbs.open_session(bench.session.path, self._settings.near_tie)
            bench.run_ended(event)
        except AppError as error:
            self._banner.show_error(error)
