"""The product without a window: open, list, load, compare, run, resume. The commands and the views call these verbs."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path as FilePath

from app import paths
from app.engine.base import Engine, Sampling
from app.engine.default_model import default_model, default_model_licence
from app.engine.opening import open_engine
from app.engine.settings import KV_TYPES, EmbeddedSettings
from app.errors import AppError, StoreError
from app.experiment.again import require_same_model
from app.experiment.again import run_again as answer_both_again
from app.experiment.pairs import PairReader
from app.experiment.plans import DEMO_SECONDS, RunRequest, choose, from_plan
from app.experiment.runner import Runner
from app.experiment.statistics import Summary, summarise
from app.experiment.summary_report import summary_lines, summary_report
from app.settings import Settings
from app.store.lock import why_read_only
from app.store.reader import Reader
from app.store.recorder import Recorder
from app.trajectory.episode import Episode
from app.trajectory.events import EngineLoading, Event, RunEnded, RunFailed
from app.trajectory.pair import NEAR_TIE_NATS, Pair, PairRow
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Status

__all__ = [
    "DEMO_SECONDS",
    "KV_TYPES",
    "EmbeddedSettings",
    "RunHandle",
    "RunRequest",
    "Sampling",
    "Session",
    "Settings",
    "choose",
    "default_model",
    "default_model_licence",
    "summary_lines",
    "summary_report",
]

log = logging.getLogger(__name__)


class Session:
    """One open file. Reads only; whatever writes is a run. Raises StoreError where the file cannot be read.

    `notice` says why runs cannot be added to the file, "" where they can.
    """

    def __init__(self, path: FilePath, notice: str, near_tie: float = NEAR_TIE_NATS) -> None:
        self.path = path
        self.near_tie = near_tie
        self.notice = notice
        self._reader = Reader(path)

    @classmethod
    def open(cls, path: FilePath | str, near_tie: float = NEAR_TIE_NATS) -> Session:
        """Open a file of data; one that is being written, or lies in a read-only folder, opens all the same."""
        path = FilePath(path)
        session = cls(path, why_read_only(path), near_tie)
        if not session.read_only and any(info.status is Status.RUNNING for info in session.experiments()):
            try:
                recorder = Recorder(path)  # nobody holds the file, so whatever still runs in it is dead
                try:
                    recorder.interrupt_running()
                finally:
                    recorder.close()
            except StoreError as error:  # a full disk, or a run that began just now: it is readable all the same
                session.notice = error.message
        return session

    @property
    def read_only(self) -> bool:
        """Whether runs cannot be added to this file."""
        return bool(self.notice)

    def experiments(self) -> list[ExperimentInfo]:
        """All experiments, newest first."""
        return self._reader.experiments()

    def experiment(self, experiment_id: int | None = None) -> ExperimentInfo:
        """One experiment, the newest unless told. Raises StoreError where there is none."""
        for info in self.experiments():
            if experiment_id in (None, info.id):
                return info
        what = "no experiment" if experiment_id is None else f"no experiment {experiment_id}"
        raise StoreError(f"{self.path.name} holds {what}.", "`forkpoint list FILE` shows what it holds.")

    def rows(self, experiment_id: int) -> list[PairRow]:
        """A row per planned episode, in the order of the plan."""
        return self._pairs(experiment_id).rows()

    def pair(self, experiment_id: int, episode_id: str, repeat: int = 1) -> Pair:
        """Load and compare a pair. Raises StoreError where one of its paths has not begun."""
        pair = self._pairs(experiment_id).pair(episode_id, repeat)
        if pair is None:
            raise StoreError(
                f"{self.path.name} does not hold {episode_id} on both paths (repeat {repeat}).",
                "`forkpoint list FILE` shows what it holds.",
            )
        return pair

    def summary(self, experiment_id: int) -> Summary:
        """What the experiment's pairs say together; invalid and unfinished ones are left out."""
        pairs = self._pairs(experiment_id)
        planned = self.experiment(experiment_id).plan["episode_ids"]
        return summarise(pair for pair in map(pairs.pair, planned) if pair is not None)

    def passes(self, experiment_id: int) -> list[PassInfo]:
        """The passes of an experiment, newest first of each path and repeat."""
        return self._reader.passes(experiment_id)

    def size_bytes(self) -> int:
        """Size of the file on disk."""
        return self._reader.size_bytes()

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def _pairs(self, experiment_id: int) -> PairReader:
        return PairReader(self._reader, self.experiment(experiment_id), self.near_tie)


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
    finally:
        session.close()
    if info.status is Status.DONE:
        raise StoreError("That run is complete; there is nothing to go on with.", "Start a new run to ask more.")
    request, episodes = from_plan(info.plan)
    return _run(path, request, episodes, near_tie, experiment_id)


def _run(
    path: FilePath, request: RunRequest, episodes: tuple[Episode, ...], near_tie: float, resume: int | None
) -> RunHandle:
    def work(inbox: deque[Event], stop: threading.Event) -> None:
        Runner(_opener(request, stop), path, request, episodes, inbox.append, stop, near_tie, resume).run()

    return RunHandle(path, work)


def run_again(session: Session, pair: Pair, experiment_id: int) -> RunHandle:
    """Run both again here: answer the forked request once more on both paths, from states filled as recorded.

    Another machine or build may well answer otherwise, and that is a finding; another model file is refused.
    """
    info = session.experiment(experiment_id)
    request, _ = from_plan(info.plan)

    def work(inbox: deque[Event], stop: threading.Event) -> None:
        inbox.append(EngineLoading("Loading the model…"))
        try:
            engine = _opener(request, stop)()
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


def _opener(request: RunRequest, stop: threading.Event) -> Callable[[], Engine]:
    return lambda: open_engine(request.engine, request.model, request.settings, stop=stop)


def check_model(path: FilePath) -> Mapping[str, object]:
    """What a GGUF file really holds: name, size, architecture, tensor types. Raises ModelFileError."""
    from app.engine.gguf import inspect

    return asdict(inspect(path))


def quantise(source: FilePath, target: FilePath, type_name: str) -> None:
    """Requantise a GGUF file with llama.cpp's quantiser. Raises ModelFileError or EngineError."""
    from app.engine.quantise import quantise as requantise

    requantise(source, target, type_name)


def unpack(source: FilePath, target: FilePath) -> None:
    """Write plain row-per-step tables of a file. Raises StoreError."""
    from app.store.unpack import unpack as write_plain

    write_plain(source, target)


def _check_model() -> str:
    return f"{default_model().name}, SHA-256 as expected"


def _check_paths() -> str:
    """Run a real pair into a throw-away file; both paths must prove what they did with the cache."""
    with tempfile.TemporaryDirectory() as folder:
        handle = start_run(RunRequest(episodes="0", repeat=1, out=FilePath(folder) / "self-test.forkpoint"))
        handle.join()
        ended = handle.inbox[-1]
        if isinstance(ended, RunFailed):
            raise AppError(ended.message, ended.hint)
        session = Session.open(handle.path)
        try:
            row = session.rows(session.experiment().id)[0]
        finally:
            session.close()
    if not row.valid:
        raise AppError(f"The pair is not valid: {'; '.join(row.problems)}.")
    return row.headline


SELF_TESTS: Mapping[str, Callable[[], str]] = {
    "the default model is here": _check_model,
    "both paths of an episode run and are proved": _check_paths,
}
"""What `forkpoint self-test` runs without a window; each returns a finding or raises AppError."""
