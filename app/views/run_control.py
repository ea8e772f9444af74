"""One run and what the window knows of it: its feed, its live pairs, its progress, its end."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from PySide6.QtCore import QObject, Signal

from app.trajectory.events import (
    Again,
    EngineLoading,
    Event,
    Notice,
    PairCompared,
    PassFinished,
    Replayed,
    RunEnded,
    RunFailed,
    RunStarted,
    Shrunk,
    TrajectoryStarted,
)
from app.views.live import LiveRun, PairKey
from app.views.run_feed import RunFeed, Running
from app.views.run_progress import RunProgress


class Kind(Enum):
    """What goes on."""

    RUN = "run"
    AGAIN = "again"
    REPLAY = "replay"
    REPRODUCE = "reproduce"
    SHRINK = "shrink"
    TRY = "try"


class RunControl(QObject):
    """At most one thing runs at a time.

    That is a run, a "run both again here", a recorded pair shown again at reading speed (REPLAY), a recorded fork asked
    again here (REPRODUCE) or on a llama-server that is started for it (TRY), or a search for a smaller pair.

    Facts leave as signals, in the order of the events: `experiment_started` (RunStarted), `pair_compared` (PairRow),
    `pass_finished`, `pairs_changed` (set of PairKey, once a tick), `answered_again` (Again), `said` (a sentence),
    `progressed`, `replayed` (Replayed), `shrunk` (Shrunk), `ended` (RunEnded), `failed` (RunFailed). `state_changed`
    follows whatever changes `running` or `stopping`.
    """

    state_changed = Signal()
    experiment_started = Signal(object)
    pair_began = Signal(object)
    pairs_changed = Signal(object)
    pair_compared = Signal(object)
    pass_finished = Signal(object)
    answered_again = Signal(object)
    replayed = Signal(object)
    shrunk = Signal(object)
    said = Signal(str)
    progressed = Signal()
    ended = Signal(object)
    failed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.run: Running | None = None
        self.kind = Kind.RUN
        self.stopping = False
        self.live = LiveRun()
        self.progress = RunProgress()
        self._feed: RunFeed | None = None

    @property
    def running(self) -> bool:
        """Whether something goes on; True until its last event was taken."""
        return self.run is not None

    def begin(self, run: Running, kind: Kind, at_most_s: float | None = None) -> None:
        """Watch a run that was just started; `at_most_s` where it ends at a fork or after that time."""
        assert self.run is None, "one thing at a time"
        self.run, self.kind, self.stopping = run, kind, False
        if kind is not Kind.AGAIN:
            self.live, self.progress = LiveRun(), RunProgress(at_most_s)
        self._feed = RunFeed(run, self)
        self._feed.drained.connect(self._take)
        self.state_changed.emit()

    def stop(self) -> None:
        """Ask for the end; `stopping` is True at once, `ended` follows."""
        if self.run is not None and not self.stopping:
            self.stopping = True
            self.run.stop()
            self.state_changed.emit()

    def close(self) -> None:
        """Stop, and wait a few seconds for the end: what was recorded is on disk then."""
        if self._feed is not None:
            self._feed.close()
        if self.run is not None:
            self.run.stop()
            self.run.join(5.0)
            self.run = None

    def _take(self, events: Iterable[Event]) -> None:
        changed: set[PairKey] = set()
        progressed = False
        for event in events:
            key = self.live.take(event)
            if key is not None:
                changed.add(key)
            progressed |= self.progress.take(event)
            if isinstance(event, PairCompared | RunEnded | RunFailed) and changed:
                self.pairs_changed.emit(changed)  # the last steps before what they led to
                changed = set()
            self._tell(event, key)
        if changed:
            self.pairs_changed.emit(changed)
        if progressed:
            self.progressed.emit()

    def _tell(self, event: Event, key: PairKey | None) -> None:
        match event:
            case RunStarted() if self.kind is Kind.RUN:  # a search shows its pair when it has one
                self.experiment_started.emit(event)
            case TrajectoryStarted():
                self.pair_began.emit(key)
            case PairCompared():
                self.pair_compared.emit(event.row)
                self.live.forget((event.row.episode_id, event.row.repeat))
            case PassFinished():
                self.pass_finished.emit(event)
            case Again():
                self.answered_again.emit(event)
            case Replayed():
                self.replayed.emit(event)
            case Shrunk():
                self.shrunk.emit(event)
                self.said.emit(event.sentence)
            case EngineLoading() | Notice():
                self.said.emit(event.sentence)
            case RunEnded():
                self._finish()
                self.ended.emit(event)
            case RunFailed():
                self._finish()
                self.failed.emit(event)

    def _finish(self) -> None:
        if self._feed is not None:
            self._feed.deleteLater()
            self._feed = None
        self.run, self.stopping, self.live = None, False, LiveRun()
        self.state_changed.emit()
