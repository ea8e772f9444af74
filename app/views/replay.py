"""A recorded pair played again at reading speed, through the same events as a run. Nothing is computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from PySide6.QtCore import QObject, QTimer

from app.trajectory.events import (
    Event,
    PrefillProgress,
    RequestFinished,
    RequestStarted,
    RunEnded,
    StepsTaken,
    TrajectoryFinished,
    TrajectoryStarted,
)
from app.trajectory.pair import Pair
from app.trajectory.trajectory import Request, Trajectory

TOKENS_PER_SECOND = 12.0


def replay_events(pair: Pair, side_by_side: bool = True) -> Iterator[tuple[float, Event]]:
    """Both sides of a pair as events, each with the seconds to wait first. A prompt takes little whatever it took then.

    In a run one path comes after the other; `side_by_side` plays them request by request and token beside token, so
    that the fork can be seen as it happens.
    """
    together = [(pair.cached, pair.recompute)] if side_by_side else [(pair.cached,), (pair.recompute,)]
    for sides in together:
        for side in sides:
            yield 0.0, TrajectoryStarted(side.id, side.episode_id, side.family, side.path, side.repeat)
        for index in range(max(len(side.requests) for side in sides)):
            taking = [(side, side.requests[index]) for side in sides if index < len(side.requests)]
            yield from _request(taking, pair)
        for side in sides:
            yield 0.0, TrajectoryFinished(side.id, side.status, side.outcome)


def _request(taking: list[tuple[Trajectory, Request]], pair: Pair) -> Iterator[tuple[float, Event]]:
    for side, request in taking:
        yield from _prompt(side, request)
    for number in range(max(len(request.steps) for _, request in taking)):
        wait_s = 1.0 / TOKENS_PER_SECOND
        for side, request in taking:
            if number < len(request.steps):
                yield wait_s, StepsTaken(side.id, request.index, (request.steps.step(number, pair.pieces),))
                wait_s = 0.0
    for side, request in taking:
        report = request.report
        if report is not None:
            yield 0.0, RequestFinished(side.id, request.index, report, request.calls, request.results, request.spans)


def _prompt(side: Trajectory, request: Request) -> Iterator[tuple[float, Event]]:
    total = len(request.prompt.ids)
    cached = (request.report.cached_tokens if request.report else None) or 0
    yield 0.0, RequestStarted(side.id, request.index, request.prompt)
    for part in (0.0, 0.5, 1.0):
        done = cached + round(part * (total - cached))
        yield 0.1, PrefillProgress(side.id, request.index, done, total, cached)


class Replay(QObject):
    """Feeds the events of a pair into `inbox` by the clock; to whoever drains it, it is a run that can be paused."""

    def __init__(self, pair: Pair, experiment_id: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.inbox: deque[Event] = deque()
        self._events = replay_events(pair)
        self._end = RunEnded(experiment_id, "replayed", pair.cached.episode_id)
        self._due: Event | None = None
        self._running = True
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._go_on)
        self._timer.start(0)

    @property
    def is_running(self) -> bool:
        """Whether the end has not come yet; True while paused."""
        return self._running

    @property
    def is_paused(self) -> bool:
        """Whether it waits for `play`."""
        return self._running and not self._timer.isActive()

    def play(self) -> None:
        """Go on after `pause`."""
        if self.is_paused:
            self._timer.start(0)

    def pause(self) -> None:
        """Hold the clock; `play` goes on."""
        self._timer.stop()

    def stop(self) -> None:
        """End it now: the pair is shown as it stands in the file."""
        if self._running:
            self._timer.stop()
            self._running = False
            self.inbox.append(self._end)

    def join(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as a run's handle has it
        """Nothing runs beside the window: True once it has ended."""
        return not self._running

    def _go_on(self) -> None:
        """Hand out what is due now, and come back when the next is due."""
        if self._due is not None:
            self.inbox.append(self._due)
            self._due = None
        for wait_s, event in self._events:
            if wait_s > 0:
                self._due = event
                self._timer.start(round(1000 * wait_s))
                return
            self.inbox.append(event)
        self.stop()
