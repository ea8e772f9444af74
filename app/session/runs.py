"""Runs in a thread of their own: start, resume, run both again."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path as FilePath

from app import paths
from app.engine.base import Engine
from app.engine.opening import open_engine
from app.errors import AppError, StoreError
from app.experiment.again import require_same_model
from app.experiment.again import run_again as answer_both_again
from app.experiment.plans import SHRINK, RunRequest, choose, from_plan, loading
from app.experiment.runner import Runner
from app.session.session import Session
from app.trajectory.episode import Episode
from app.trajectory.events import EngineLoading, Event, RunEnded, RunFailed
from app.trajectory.pair import NEAR_TIE_NATS, Pair
from app.trajectory.trajectory import ExperimentInfo, Status

log = logging.getLogger(__name__)


class RunHandle:
    """A run in a thread of its own. Events gather in `inbox`; the last one is RunEnded or RunFailed."""

    def __init__(self, path: FilePath, work: Callable[[deque[Event], threading.Event], None]) -> None:
        self.path = path
        self.inbox: deque[Event] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=work, args=(self.inbox, self._stop), name="run", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the run to stop; it does within a second, and everything recorded stays."""
        self._stop.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the run is over; False where the time ran out."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_running(self) -> bool:
        """Whether the run's thread still works."""
        return self._thread.is_alive()


def start_run(request: RunRequest, near_tie: float = NEAR_TIE_NATS) -> RunHandle:
    """Begin an experiment. Raises WorkloadError where its episodes cannot be chosen; the rest comes as events."""
    episodes = choose(request)
    path = request.out or paths.unnamed_run()
    return _run(path, request, episodes, near_tie, None)


def resume_run(path: FilePath, experiment_id: int, near_tie: float = NEAR_TIE_NATS) -> RunHandle:
    """Go on with a run that was stopped, crashed or killed (DESIGN 4). Raises StoreError where it is complete."""
    session = Session.open(path)
    try:
        info = session.experiment(experiment_id)
        request, episodes = planned(session, info)
    finally:
        session.close()
    if info.status is Status.DONE:
        raise StoreError("That run is complete; there is nothing to go on with.", "Start a new run to ask more.")
    if info.plan.get("kind") == SHRINK:
        raise StoreError("That is a search for a smaller pair.", "`forkpoint shrink` on the same pair goes on with it.")
    return _run(path, request, episodes, near_tie, experiment_id)


def _run(
    path: FilePath, request: RunRequest, episodes: tuple[Episode, ...], near_tie: float, resume: int | None
) -> RunHandle:
    def work(inbox: deque[Event], stop: threading.Event) -> None:
        Runner(opener(request, stop), path, request, episodes, inbox.append, stop, near_tie, resume).run()

    return RunHandle(path, work)


def run_again(session: Session, pair: Pair, experiment_id: int) -> RunHandle:
    """Run both again here: answer the forked request once more on both paths, from states filled as recorded.

    Another machine or build may well answer otherwise, and that is a finding; another model file is refused.
    """
    info = session.experiment(experiment_id)
    request, _ = planned(session, info)

    def work(inbox: deque[Event], stop: threading.Event) -> None:
        inbox.append(EngineLoading(loading(request)))
        try:
            engine = opener(request, stop)()
            try:
                require_same_model(engine, info.environment)
                answer_both_again(engine, pair, request, inbox.append, stop)
            finally:
                engine.close()
        except AppError as error:
            inbox.append(RunFailed(experiment_id, error.message, error.hint))
        except Exception as error:
            log.exception("a bug ended the run")
            inbox.append(
                RunFailed(experiment_id, f"That ended unexpectedly: {error!r}.", "This is a bug; see the log.")
            )
        else:
            inbox.append(RunEnded(experiment_id, "stopped" if stop.is_set() else "again", pair.cached.episode_id))

    return RunHandle(session.path, work)


def planned(session: Session, info: ExperimentInfo) -> tuple[RunRequest, tuple[Episode, ...]]:
    """How an experiment of this file was run, to do it again. Raises StoreError for a bundle.

    A bundle's plan comes from somebody else: it may name any program, path or server, so it is never followed.
    """
    if session.verification is not None:
        raise StoreError("A bundle's own plan is never run.", "Replay it: its settings are taken by an allow-list.")
    return from_plan(info.plan)


def opener(request: RunRequest, stop: threading.Event) -> Callable[[], Engine]:
    """What opens the engine of a request; `stop` ends that."""
    return lambda: open_engine(
        request.engine, request.model, request.settings, server=request.server, managed=request.managed, stop=stop
    )
