"""The order of a run: which pass plays which episode when, what is compared, and how the run ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from threading import Event, Timer

from app.engine.base import Engine, EngineInfo
from app.errors import AppError, EngineError, StoreError
from app.experiment import plans
from app.experiment.clock import Clock
from app.experiment.environment import environment_of
from app.experiment.pairs import PairReader
from app.experiment.pass_run import PassRun, Stopped, Tools
from app.experiment.passes import Passes
from app.experiment.plans import RunRequest, loading, repeats_of, to_plan
from app.store.reader import Reader
from app.store.recorder import Recorder
from app.trajectory.episode import Episode
from app.trajectory.events import (
    EngineLoading,
    PairCompared,
    RunEnded,
    RunFailed,
    RunStarted,
)
from app.trajectory.events import Event as RunEvent
from app.trajectory.trajectory import Path, Status
from app.workload.chat import ChatTemplate

log = logging.getLogger(__name__)


@dataclass
class Runner:
    """Runs one experiment in the calling thread and tells `tell` about it. `near_tie` in nats.

    Ends in exactly one of RunEnded or RunFailed, whatever happens. `resume` is the id of an experiment to go on with.
    """

    open_engine: Callable[[], Engine]
    file: FilePath
    request: RunRequest
    episodes: tuple[Episode, ...]
    tell: Callable[[RunEvent], None]
    stop: Event
    near_tie: float
    resume: int | None = None
    experiment_id: int | None = field(default=None, init=False)

    def run(self) -> None:
        """Run to the end. Raises nothing: known errors become RunFailed, unknown ones too, with a trace in the log."""
        try:
            self._run()
        except AppError as error:
            log.warning("run failed: %s", error)
            self.tell(RunFailed(self.experiment_id, error.message, error.hint))
        except Exception as error:
            log.exception("a bug ended the run")
            hint = "This is a bug in Forkpoint; the log file has the details. What was recorded stays."
            self.tell(RunFailed(self.experiment_id, f"The run ended unexpectedly: {error!r}.", hint))

    def _run(self) -> None:
        self.tell(EngineLoading(loading(self.request)))
        recorder = Recorder(self.file)
        recorder.interrupt_running()  # we hold the file's lock: whatever still runs in it is dead
        try:
            engine = self.open_engine()
            try:
                course = Course(self, engine, engine.describe(), recorder)
                try:
                    course.run()
                finally:
                    course.close()
            finally:
                engine.close()
        finally:
            recorder.close(keep_empty=False)  # nothing is in it where the model did not open


class Course:
    """One run with its engine and file open."""

    def __init__(self, runner: Runner, engine: Engine, info: EngineInfo, recorder: Recorder) -> None:
        self.runner = runner
        self.recorder = recorder
        template = info.model.get("chat_template")
        self.tools = Tools(
            engine=engine,
            info=info,
            template=ChatTemplate(
                str(template) if template else None,
                str(info.model.get("bos_token") or ""),
                str(info.model.get("eos_token") or ""),
            ),
            recorder=recorder,
            request=runner.request,
            tell=runner.tell,
            stop=runner.stop,
        )
        self.reader = Reader(runner.file)  # last: what raises before it has nothing to close
        self._run_to_run = runner.request.kind == "repeat"
        self._paths = (Path.CACHED,) if self._run_to_run else (Path.CACHED, Path.RECOMPUTE)
        self._is_expired = False

    def run(self) -> None:
        """Play every episode of every pass, compare, and end. Raises EngineError where a path cannot be had."""
        runner = self.runner
        if Path.RECOMPUTE in self._paths and self.tools.info.capabilities.recompute is False:
            raise EngineError(
                f"{self.tools.info.name} cannot keep a request from its cache, so there is no recompute path.",
                "The cached path can be served again and compared with itself: --kind repeat.",
            )
        runner.experiment_id = self._experiment()
        tell = runner.tell
        request = runner.request
        tell(RunStarted(runner.experiment_id, self._title(), len(runner.episodes), request.repeat, request.kind))
        experiment = next(info for info in self.reader.experiments() if info.id == runner.experiment_id)
        self.pairs = PairReader(self.reader, experiment, runner.near_tie)
        self.passes = Passes(
            self.tools, self.reader, experiment.id, self._run_to_run, lambda: self.pairs.forget(self.recorder)
        )
        deadline = Timer(plans.DEMO_SECONDS, self._expire)
        if request.until_fork:
            deadline.start()
        try:
            reason, episode_id = self._play()
        except Stopped:
            self.passes.end(Status.STOPPED)
            self.recorder.finish_experiment(runner.experiment_id, Status.STOPPED)
            tell(RunEnded(runner.experiment_id, "no fork" if self._is_expired else "stopped"))
            return
        except BaseException:
            self._fail(runner.experiment_id)
            raise
        finally:
            deadline.cancel()
            self.passes.close()
        for episode in runner.episodes:  # once more, with the noise floor and the passes' acceptance as they are now
            self._compare(episode)
        self.recorder.finish_experiment(runner.experiment_id, Status.DONE)
        tell(RunEnded(runner.experiment_id, reason, episode_id))

    def close(self) -> None:
        """Give back what the course opened."""
        self.tools.template.close()
        self.reader.close()

    def _expire(self) -> None:
        """The time that --until-fork has is over, wherever the run is."""
        self._is_expired = True
        self.runner.stop.set()

    def _play(self) -> tuple[str, str | None]:
        """Repeat after repeat; within one, episode after episode on both paths. Returns RunEnded's reason."""
        runner, request = self.runner, self.runner.request
        plan = repeats_of(request, runner.episodes)
        clock = Clock(dict.fromkeys(self._paths, sum(len(episodes) for episodes in plan)))
        if self._run_to_run:
            self.passes.drop_unfinished_history(len(plan))
        for repeat, episodes in enumerate(plan, start=1):
            runs = [self.passes.open(path, repeat, episodes) for path in self._paths]
            for episode, run, skip in self._order(episodes, runs):
                if runner.stop.is_set():
                    raise Stopped
                clock.begin()
                if not skip:
                    run.play(episode)
                    self.passes.keep_snapshot(run, episodes, episode)
                clock.end(run.path, skip)
                runner.tell(clock.estimate())
                forked = run.path is self._paths[-1] and self._compare(episode)
                if request.until_fork and forked:
                    self.passes.accept(repeat, episodes, until=episode)
                    return "forked", episode.id
            self.passes.accept(repeat, episodes)
            if request.until_fork and len(self.passes.runs) > 1:
                return "no fork", None
        return "complete", None

    def _order(
        self, episodes: tuple[Episode, ...], runs: Sequence[tuple[PassRun, int]]
    ) -> Iterator[tuple[Episode, PassRun, bool]]:
        """Episode by episode on both paths where two States may live side by side, else pass after pass."""
        if self.tools.info.states_at_once != 1:
            for at, episode in enumerate(episodes):
                yield from ((episode, run, at < done) for run, done in runs)
            return
        for run, done in runs:
            yield from ((episode, run, at < done) for at, episode in enumerate(episodes))
            if not self._run_to_run:
                run.close()  # before the next one asks for a server history of its own

    def _compare(self, episode: Episode) -> bool:
        """Compare both paths of an episode, keep the row; True where they forked and the pair is valid."""
        row = self.pairs.refresh(episode.id, self.recorder)
        if row is None:
            return False
        self.runner.tell(PairCompared(row))
        return bool(row.diverged and row.valid)

    def _fail(self, experiment_id: int) -> None:
        """Mark what is broken, as far as the disk still lets us; the error itself is what a person must see."""
        try:
            self.passes.end(Status.FAILED)
            self.recorder.finish_experiment(experiment_id, Status.FAILED)
            self.recorder.interrupt_running()  # a trajectory whose end could not be written
        except StoreError as error:
            log.warning("could not mark the run as failed: %s", error)

    # The experiment's row, its title and environment.

    def _title(self) -> str:
        model = self.tools.info.model
        return f"{self.runner.request.kind} · {model.get('name', 'unknown model')} · {self.tools.info.name}"

    def _experiment(self) -> int:
        environment = environment_of(self.tools.info, self.tools.template)
        if self.runner.resume is None:
            plan = to_plan(self.runner.request, self.runner.episodes)
            return self.recorder.add_experiment(self._title(), plan, environment)
        kept = next(e for e in self.reader.experiments() if e.id == self.runner.resume)
        changed = [key for key, value in environment.items() if kept.environment.get(key, value) != value]
        if changed:
            raise EngineError(
                f"The run cannot go on: {', '.join(sorted(changed))} changed since it began.",
                f"Its passes would mix two set-ups. It began as {kept.title}: go back to that, or start a new run.",
            )
        self.recorder.finish_experiment(kept.id, Status.RUNNING)
        return kept.id
