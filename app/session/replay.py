"""Recorded forks asked again here: those of a bundle that was received, or of a file, on this engine or another."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from app.engine.base import Engine
from app.engine.opening import is_url, open_engine
from app.engine.server_settings import ServerSettings
from app.errors import AppError, StoreError
from app.experiment.pass_run import Stopped
from app.experiment.replay import replay
from app.experiment.replay_environment import replay_server, replay_settings
from app.session.runs import RunHandle
from app.session.session import Session
from app.trajectory.events import EngineLoading, Event, Replayed, RunEnded, RunFailed
from app.trajectory.reproducer import ReplayResult, Reproducer, reproducer_of
from app.trajectory.step import StepBlock
from app.trajectory.trajectory import ExperimentInfo

BINARY_VARIABLE = "FORKPOINT_LLAMA_SERVER"
"""Names a llama-server where none lies beside Python or on PATH."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplayOn:
    """Where to replay: `engine` is "embedded", "managed" or the URL of a server.

    `model` None is the one that the run named, or the default model; the recorded one is known by its SHA-256. `server`
    says how a server that runs elsewhere is reached, `binary` which llama-server of our own is started. Everything else
    comes from the record, by an allow-list.
    """

    engine: str = "embedded"
    model: FilePath | None = None
    server: ServerSettings | None = None
    binary: FilePath | None = None


def replay_pairs(
    session: Session, experiment_id: int, episode_ids: Sequence[str], where: ReplayOn = ReplayOn()
) -> RunHandle:
    """Replay the forks of these pairs; each ends in a Replayed, the run in RunEnded "replayed".

    `session` may be a bundle's: nothing of it is run or opened. One that was altered or redacted, and a pair that did
    not fork at a token, "cannot be compared". Raises StoreError where there is no such experiment.
    """
    info = session.experiment(experiment_id)
    if where.model is None and not is_url(where.engine):
        where = replace(where, model=model_of(session, experiment_id))

    def work(inbox: deque[Event], stop: threading.Event) -> None:
        try:
            _replay_all(_tasks(session, info, episode_ids), info, where, inbox.append, stop)
        except Stopped:
            inbox.append(RunEnded(experiment_id, "stopped"))
        except AppError as error:
            stopped = RunEnded(experiment_id, "stopped") if stop.is_set() else None
            inbox.append(stopped or RunFailed(experiment_id, error.message, error.hint))
        except Exception as error:
            log.exception("a bug ended the replay")
            hint = "This is a bug; see the log."
            inbox.append(RunFailed(experiment_id, f"That ended unexpectedly: {error!r}.", hint))
        else:
            inbox.append(RunEnded(experiment_id, "replayed"))

    return RunHandle(session.path, work)


def bundled_episodes(session: Session, experiment_id: int) -> list[str]:
    """The pairs of a bundle; of a file of data one must be named, since it may hold thousands. Raises StoreError."""
    if session.verification is None:
        raise StoreError("Which pair shall be replayed?", "Name it with --pair; `forkpoint list FILE` shows them.")
    return [row.episode_id for row in session.rows(experiment_id)]


_Task = Reproducer | ReplayResult
"""What to replay, or why it cannot be."""


def _tasks(session: Session, info: ExperimentInfo, episode_ids: Sequence[str]) -> list[_Task]:
    """Read in the run's thread, a file of data through a session of its own: a late pair's history takes a while."""
    own = session if session.verification is not None else Session.open(session.path, session.near_tie)
    try:
        return [_task(own, info, episode_id) for episode_id in episode_ids]
    finally:
        if own is not session:
            own.close()


def _task(session: Session, info: ExperimentInfo, episode_id: str) -> _Task:
    pair = session.pair(info.id, episode_id)
    found = session.verification
    if found is not None and found.contents is not None and found.contents.redaction != "none":
        return _refusal(episode_id, "This bundle is redacted: what the model was asked is not in it.")
    if found is not None and found.state != "whole":
        return _refusal(episode_id, f"This bundle is not as it was written. {found.sentence}")
    try:
        return reproducer_of(pair, session.pair_reader(info.id).earlier(pair.cached), info.plan)
    except StoreError as error:
        return _refusal(episode_id, error.message)


def _refusal(episode_id: str, because: str) -> ReplayResult:
    empty = StepBlock.empty()
    return ReplayResult(episode_id, "cannot be compared", because, (), (), empty, empty, None)


def _replay_all(
    tasks: Sequence[_Task],
    info: ExperimentInfo,
    where: ReplayOn,
    tell: Callable[[Event], None],
    stop: threading.Event,
) -> None:
    engine: Engine | None = None
    try:
        for task in tasks:
            if isinstance(task, ReplayResult):
                tell(Replayed("", task))
                continue
            if engine is None:
                tell(EngineLoading("Starting llama-server…" if where.engine == "managed" else "Opening the engine…"))
                engine = _open(info, where, stop)
            result = replay(engine, task, info.environment, tell, stop)
            tell(Replayed(f"{task.episode_id}, {task.fork.place}", result))
    finally:
        if engine is not None:
            engine.close()


def _open(info: ExperimentInfo, where: ReplayOn, stop: threading.Event) -> Engine:
    binary = where.binary or server_binary()
    return open_engine(
        where.engine,
        where.model,
        replay_settings(info.environment, info.plan),
        server=where.server,
        managed=replay_server(info.environment, info.plan, binary) if where.engine == "managed" else None,
        stop=stop,
    )


def model_of(session: Session, experiment_id: int | None = None) -> FilePath | None:
    """The model file that a run on this machine named; None where it was the default, or the file is a bundle."""
    named = session.experiment(experiment_id).plan.get("model") if session.verification is None else None
    return FilePath(named) if isinstance(named, str) else None


def server_binary() -> FilePath | None:
    """The llama-server that BINARY_VARIABLE names; None leaves the choice to the engine."""
    named = os.environ.get(BINARY_VARIABLE)
    return FilePath(named) if named else None
