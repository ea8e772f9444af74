"""The runner on the scripted engine: order, acceptance, failures, stop and resume. The real engine is in end2end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path as FilePath
from threading import Event
from typing import TypeVar

import pytest

from app.engine.scripted import Mishap, ScriptedEngine, steps_of
from app.experiment import plans
from app.experiment.pairs import PairReader
from app.experiment.plans import RunRequest, choose
from app.experiment.runner import Runner
from app.store.reader import Reader
from app.store.recorder import Recorder
from app.trajectory.events import Event as RunEvent
from app.trajectory.events import (
    Notice,
    PairCompared,
    PassFinished,
    RunEnded,
    RunFailed,
    StepsTaken,
    TrajectoryFinished,
    TrajectoryStarted,
)
from app.trajectory.step import IdArray, Step
from app.trajectory.trajectory import Path, Status, Trajectory

T = TypeVar("T")


def forking(prompt: IdArray, cached: int) -> list[Step]:
    """Another last word on the cached path, from the second request of an episode on."""
    text = "Yes, the list is short." if cached > len(prompt) // 2 else "Yes, the list is long."
    return steps_of(text, [1.0] * 17 + [0.02])


class Run:
    """A run into `file`, to its end, with what it told."""

    def __init__(
        self,
        file: FilePath,
        engine: ScriptedEngine,
        request: RunRequest,
        *,
        resume: int | None = None,
        watch: Callable[[RunEvent, Event], None] = lambda *_: None,
    ) -> None:
        self.events: list[RunEvent] = []
        self.file = file
        self.stop = Event()

        def tell(event: RunEvent) -> None:
            self.events.append(event)
            watch(event, self.stop)

        Runner(lambda: engine, file, request, choose(request), tell, self.stop, 0.1, resume).run()

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def last(self) -> RunEvent:
        return self.events[-1]

    def trajectories(self) -> list[Trajectory]:
        reader = Reader(self.file)
        try:
            newest = reader.experiments()[0].id
            ids = [id for info in reader.passes(newest) for id in reader.trajectory_ids(info.id).values()]
            return [reader.trajectory(id) for id in ids]
        finally:
            reader.close()


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    return tmp_path / "run.forkpoint"


def test_every_episode_is_served_on_both_paths_and_compared(file: FilePath) -> None:
    run = Run(file, ScriptedEngine(forking), RunRequest(episodes="0-2", repeat=2))
    assert run.last == RunEnded(1, "complete")
    served = Counter((started.path, started.repeat) for started in run.of(TrajectoryStarted))
    assert served == {(path, repeat): 3 for path in Path for repeat in (1, 2)}
    assert all(finished.valid for finished in run.of(PassFinished))
    rows = {event.row.episode_id: event.row for event in run.of(PairCompared)}
    assert {row.diverged for row in rows.values()} == {True}
    assert {(row.kind, row.request, row.step) for row in rows.values()} == {("token", 1, 17)}


def test_repeats_of_the_first_episodes_only(file: FilePath) -> None:
    run = Run(file, ScriptedEngine(), RunRequest(episodes="0-2", repeat=3, repeat_first=1))
    repeated = {started.episode_id for started in run.of(TrajectoryStarted) if started.repeat > 1}
    assert repeated == {"files-00"}


def test_repeats_are_compared_bit_for_bit(file: FilePath) -> None:
    Run(file, ScriptedEngine(forking), RunRequest(episodes="0", repeat=2))
    reader = Reader(file)
    try:
        pair = PairReader(reader, reader.experiments()[0], 0.1).pair("files-00")
    finally:
        reader.close()
    assert pair is not None
    assert {path: repeats.exact for path, repeats in pair.comparison.repeats.items()} == {
        "cached": True,
        "recompute": True,
    }


def test_until_fork_ends_at_the_first_pair_that_forks(file: FilePath) -> None:
    run = Run(file, ScriptedEngine(forking), RunRequest(episodes="0-7", repeat=1, until_fork=True))
    assert run.last == RunEnded(1, "forked", "files-00")
    assert {started.episode_id for started in run.of(TrajectoryStarted)} == {"files-00"}


def test_without_a_fork_until_fork_says_so(file: FilePath) -> None:
    run = Run(file, ScriptedEngine(), RunRequest(episodes="0-1", repeat=1, until_fork=True))
    assert run.last == RunEnded(1, "no fork")


def test_until_fork_ends_when_its_time_is_over_wherever_it_is(file: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "DEMO_SECONDS", 0.2)
    engine = ScriptedEngine(mishaps=[Mishap(1, 2, "hang")])
    run = Run(file, engine, RunRequest(episodes="0-1", repeat=1, until_fork=True))
    assert run.last == RunEnded(1, "no fork")


def test_counts_that_are_not_reported_leave_the_pair_unproven(file: FilePath) -> None:
    run = Run(file, ScriptedEngine(forking, counts=False), RunRequest(episodes="0", repeat=1))
    row = run.of(PairCompared)[-1].row
    assert row.valid is False
    assert row.code == "unproven"


def test_a_dead_engine_is_a_sentence_and_what_was_recorded_stays(file: FilePath) -> None:
    run = Run(file, ScriptedEngine(mishaps=[Mishap(1, 3, "die")]), RunRequest(episodes="0", repeat=1))
    assert isinstance(run.last, RunFailed)
    assert run.last.hint
    (trajectory,) = run.trajectories()
    assert trajectory.status is Status.FAILED
    assert trajectory.requests[0].report is not None
    assert len(trajectory.requests[1].steps) == 3


def test_an_error_of_one_request_is_an_outcome_and_the_run_goes_on(file: FilePath) -> None:
    run = Run(file, ScriptedEngine(mishaps=[Mishap(0, 0, "error")]), RunRequest(episodes="0-1", repeat=1))
    assert isinstance(run.last, RunEnded)
    outcomes = [finished.outcome.kind for finished in run.of(TrajectoryFinished)]
    assert outcomes.count("error") == 1


def test_a_prompt_longer_than_the_context_is_an_outcome(file: FilePath) -> None:
    run = Run(file, ScriptedEngine(n_ctx=1000), RunRequest(episodes="0", repeat=1))
    assert {finished.outcome.kind for finished in run.of(TrajectoryFinished)} == {"overflow"}


def test_stop_ends_an_answer_that_hangs(file: FilePath) -> None:
    def stop_soon(event: RunEvent, stop: Event) -> None:
        if isinstance(event, StepsTaken) and event.index == 0:
            stop.set()

    engine = ScriptedEngine(mishaps=[Mishap(1, 2, "hang")])
    run = Run(file, engine, RunRequest(episodes="0", repeat=1), watch=stop_soon)
    assert run.last == RunEnded(1, "stopped")
    (trajectory,) = run.trajectories()
    assert trajectory.status is Status.STOPPED


def test_a_stopped_run_goes_on_and_ends_as_an_unbroken_one(file: FilePath, tmp_path: FilePath) -> None:
    def stop_in_second(event: RunEvent, stop: Event) -> None:
        if isinstance(event, TrajectoryStarted) and event.episode_id == "units-01" and event.path is Path.RECOMPUTE:
            stop.set()

    request = RunRequest(episodes="0-2", repeat=1)
    assert Run(file, ScriptedEngine(forking), request, watch=stop_in_second).last == RunEnded(1, "stopped")
    again = Run(file, ScriptedEngine(forking), request, resume=1)
    assert again.last == RunEnded(1, "complete")
    begun = [(started.episode_id, started.path) for started in again.of(TrajectoryStarted)]
    assert ("files-00", Path.CACHED) not in begun
    assert ("units-01", Path.CACHED) not in begun, "the cached pass goes on from its snapshot"
    whole = Run(tmp_path / "whole.forkpoint", ScriptedEngine(forking), request)
    assert _ids(again) == _ids(whole)


def test_a_cached_pass_without_a_snapshot_starts_over_and_says_so(file: FilePath) -> None:
    def stop_in_second(event: RunEvent, stop: Event) -> None:
        if isinstance(event, TrajectoryStarted) and event.episode_id == "units-01":
            stop.set()

    request = RunRequest(episodes="0-1", repeat=1)
    Run(file, ScriptedEngine(forking), request, watch=stop_in_second)
    _drop_snapshots(file)
    again = Run(file, ScriptedEngine(forking), request, resume=1)
    assert again.last == RunEnded(1, "complete")
    assert any("starts over" in notice.sentence for notice in again.of(Notice))
    assert [s.episode_id for s in again.of(TrajectoryStarted) if s.path is Path.CACHED] == ["files-00", "units-01"]
    assert [s.episode_id for s in again.of(TrajectoryStarted) if s.path is Path.RECOMPUTE] == ["units-01"]


def test_a_run_does_not_go_on_with_another_set_up(file: FilePath) -> None:
    request = RunRequest(episodes="0", repeat=1)
    Run(file, ScriptedEngine(), request)
    again = Run(file, ScriptedEngine(n_ctx=2048), request, resume=1)
    assert isinstance(again.last, RunFailed)
    assert "settings" in again.last.message


def test_a_bug_in_the_engine_ends_the_run_in_a_sentence(file: FilePath, caplog: pytest.LogCaptureFixture) -> None:
    def broken(prompt: IdArray, cached: int) -> list[Step]:
        return [][len(prompt) + cached]

    run = Run(file, ScriptedEngine(broken), RunRequest(episodes="0", repeat=1))
    assert isinstance(run.last, RunFailed)
    assert "bug" in run.last.hint
    assert "IndexError" in caplog.text


def _ids(run: Run) -> dict[tuple[str, Path], list[list[int]]]:
    return {
        (trajectory.episode_id, trajectory.path): [request.steps.token_ids.tolist() for request in trajectory.requests]
        for trajectory in run.trajectories()
    }


def _drop_snapshots(file: FilePath) -> None:
    reader, recorder = Reader(file), Recorder(file)
    try:
        for info in reader.passes(1):
            recorder.drop_snapshot(info.id)
    finally:
        reader.close()
        recorder.close()
