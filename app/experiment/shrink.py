"""*Shrink*: the shortest history and prompt that still fork at the same token, searched for on the engine.

The result is an experiment of its own in the file, of one pair: the history's requests, then the one that forks. Each
try is noted down, so that a later search for the same pair goes on where this one ended, however it ended.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any

from app.diagnosis.minimise import Candidate, Minimiser
from app.engine.base import Engine, EngineInfo
from app.errors import AppError, EngineDied, EngineError
from app.experiment.again import require_same_model
from app.experiment.asking import Asking
from app.experiment.environment import environment_of
from app.experiment.pass_run import Stopped
from app.experiment.plans import SHRINK
from app.experiment.shrink_request import ShrinkRequest
from app.experiment.shrunk_pair import ShrunkPair
from app.experiment.trial import Playing, Trials
from app.store.recorder import Recorder
from app.trajectory.events import EngineLoading, PairCompared, RunEnded, RunFailed, RunStarted, Shrunk
from app.trajectory.events import Event as RunEvent
from app.workload.chat import ChatTemplate

log = logging.getLogger(__name__)

_TRYING = {
    "requests": "fewer requests",
    "answers": "shorter answers",
    "warm-ups": "shorter warm-up prompts",
    "messages": "fewer messages",
    "tokens": "fewer tokens",
}


@dataclass
class Shrinker:
    """Searches in the calling thread and tells `tell` about it; ends in exactly one of RunEnded or RunFailed."""

    open_engine: Callable[[], Engine]
    request: ShrinkRequest
    tell: Callable[[RunEvent], None]
    stop: Event

    def run(self) -> None:
        """Search until nothing can go, the time is over, or `stop` is set. Raises nothing."""
        experiment_id = self.request.experiment.id
        try:
            self._run()
        except AppError as error:
            log.warning("shrink failed: %s", error)
            self.tell(RunFailed(experiment_id, error.message, error.hint))
        except Exception as error:
            log.exception("a bug ended the search")
            hint = "This is a bug in Forkpoint; the log file has the details. What was found stays."
            self.tell(RunFailed(experiment_id, f"The search ended unexpectedly: {error!r}.", hint))

    def _run(self) -> None:
        recorder = Recorder(self.request.out)
        try:
            recorder.interrupt_running()  # we hold the file's lock: whatever still runs in it is dead
            self.tell(EngineLoading("Opening the engine…"))
            engine = self.open_engine()
            try:
                require_same_model(engine, self.request.experiment.environment)
                hunt = _Hunt(self, engine, recorder)
                try:
                    ended = hunt.run()
                finally:
                    hunt.close()
            finally:
                engine.close()
        finally:
            recorder.close(keep_empty=False)
        self.tell(ended)


class _OutOfTime(Exception):
    """The budget is spent."""


class _Hunt:
    """One search, with its engine and file open."""

    def __init__(self, shrinker: Shrinker, engine: Engine, recorder: Recorder) -> None:
        self._request, self._tell, self._stop = shrinker.request, shrinker.tell, shrinker.stop
        self._began = self._until = time.monotonic()
        self._info = engine.describe()
        self._asking = Asking(engine, self._request.sampling, self._stop)
        self._trials = Trials(self._asking, self._info, self._request.target)
        title = f"shrink · {self._request.reproducer.episode_id} · {self._info.model.get('name', 'unknown model')}"
        self._pair = ShrunkPair(self._request.out, recorder, title, self._request.plan(), _environment(self._info))
        self._before = self._request.candidate
        start, rejected = self._pair.kept() or (self._before, ())
        self._search = Minimiser(start, self._info.eog_ids, rejected)
        self._found: list[Playing] = []  # the best candidate's runs from scratch, to be recorded

    def run(self) -> RunEnded:
        """Search, and record what was found, whatever ended it. Raises EngineError where the fork does not show."""
        try:
            reason = self._hunt()
        finally:
            if self._found:
                self._record()
        self._tell(self._progress(self._conclusion(reason)))
        experiment_id = self._pair.experiment_id or self._request.experiment.id
        return RunEnded(experiment_id, reason, self._request.reproducer.episode_id)

    def close(self) -> None:
        """Let go of the file."""
        self._pair.close()

    def _hunt(self) -> str:
        """RunEnded's reason."""
        try:
            start = self._trials.play(self._search.best)
            if start is None:
                raise EngineError(
                    "The fork does not show again from its history, so there is nothing to shrink.",
                    "Run both again here says whether this machine still answers as it was recorded.",
                )
            self._found = [start]
            self._tell(RunStarted(self._pair.begin(), self._pair.title, 1, 1, SHRINK))
            self._until = time.monotonic() + self._request.budget_s
            with suppress(_OutOfTime):
                self._search.run(self._forks)
            again = self._trials.play(self._search.best, anew=True)
            self._found += [again] if again else []
        except (Stopped, EngineDied):
            if not self._stop.is_set():
                raise
            return "stopped"
        return "shrunk"

    def _forks(self, candidate: Candidate) -> bool:
        """Try one candidate; what was found before it is noted down first."""
        self._pair.note(self._search)
        self._tell(self._progress(f"trying {_TRYING[self._search.level]}"))
        if time.monotonic() >= self._until:
            raise _OutOfTime
        playing = self._trials.forks(candidate)
        if playing is not None:
            self._found = [playing]
        return playing is not None

    def _record(self) -> None:
        self._pair.note(self._search)
        row = self._pair.record(self._found, self._info.settings, self._request.near_tie)
        self._tell(PairCompared(row))

    def _progress(self, what: str) -> Shrunk:
        search, before, now = self._search, self._before, self._search.best
        return Shrunk(
            tries=search.tries,
            requests_before=len(before.history) + 1,
            requests_now=len(now.history) + 1,
            tokens_before=before.token_count,
            tokens_now=now.token_count,
            sentence=f"{search.tries:,} tries, {before.token_count:,} → {now.token_count:,} tokens: {what}",
            is_minimal=search.is_minimal,
            seconds=time.monotonic() - self._began,
            engine_seconds=self._asking.seconds,
        )

    def _conclusion(self, reason: str) -> str:
        if self._search.is_minimal:
            return "1-minimal at token level: no single request, message or token can go"
        proven = " or ".join(_UNITS[level] for level in self._search.proven)
        ended = "stopped" if reason == "stopped" else "stopped by the time"
        return ended + (f"; no single {proven} can go" if proven else "")


_UNITS = {
    "requests": "request",
    "answers": "token of an answer",
    "warm-ups": "token at the end of a warm-up prompt",
    "messages": "message",
    "tokens": "token",
}


def _environment(info: EngineInfo) -> dict[str, Any]:
    """The environment record; the template is not rendered here, only named."""
    template = info.model.get("chat_template")
    return environment_of(info, ChatTemplate(str(template) if template else None))
