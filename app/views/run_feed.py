"""From the runner's inbox to the window: the one place where a run crosses into the GUI thread (DESIGN 4)."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from app.trajectory.events import Event, RunEnded, RunFailed, StepsTaken

TICK_MS = 33
STEPS_PER_TICK = 2000


class Running(Protocol):
    """What a run, a "run both again" and a replay have in common; `app.session.RunHandle` is one."""

    @property
    def inbox(self) -> deque[Event]:
        """Events not taken yet, oldest first."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether more events may come."""
        ...

    def stop(self) -> None:
        """Ask it to end soon; RunEnded follows."""
        ...

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; False where it did not come in time."""
        ...


class FileRun(Running, Protocol):
    """A run that records into a file."""

    @property
    def path(self) -> Path:
        """The file being written."""
        ...


class RunFeed(QObject):
    """Drains an inbox on a timer, at most `STEPS_PER_TICK` steps a tick, and hands the events on in one list.

    Stops after RunEnded or RunFailed, which are held back until the run has let go of its file and engine. A run that
    ends without either has a bug: the feed says so in its place.
    """

    drained = Signal(object)

    def __init__(self, run: Running, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._run = run
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self.drain)
        self._timer.start()

    def drain(self) -> None:
        """Take what is there and emit it; nothing is emitted where nothing came."""
        alive = self._run.is_running  # asked first: what a dead run has left is then all in the inbox
        inbox, events, steps = self._run.inbox, list[Event](), 0
        while inbox and steps < STEPS_PER_TICK:
            event = inbox.popleft()
            if alive and isinstance(event, RunEnded | RunFailed):
                inbox.appendleft(event)
                break
            events.append(event)
            steps += len(event.steps) if isinstance(event, StepsTaken) else 0
        ended = any(isinstance(event, RunEnded | RunFailed) for event in events)
        if not alive and not inbox and not ended:
            hint = "This is a bug in Forkpoint. What was recorded stays."
            events.append(RunFailed(None, "The run ended without saying how.", hint))
            ended = True
        if ended:
            self.close()
        if events:
            self.drained.emit(events)

    def close(self) -> None:
        """Stop draining; closing twice is harmless."""
        self._timer.stop()
