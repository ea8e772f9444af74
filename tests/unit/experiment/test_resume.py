"""A run that is taken up again, on the scripted engine: what is played anew, what is not, and what the file says."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path as FilePath
from threading import Event

import pytest

from app.engine.base import Snapshot
from app.engine.scripted import Mishap, ScriptedEngine, ScriptedState, steps_of
from app.errors import EngineError
from app.experiment.clock import Clock
from app.experiment.pairs import PairReader
from app.experiment.plans import RunRequest, from_plan, to_plan
from app.store.reader import Reader
from app.trajectory.episode import Episode
from app.trajectory.events import Estimate, Notice, PairCompared, RunEnded, RunFailed, TrajectoryStarted
from app.trajectory.events import Event as RunEvent
from app.trajectory.pair import PairRow
from app.trajectory.step import IdArray, Rival, Step
from app.trajectory.trajectory import Path, Status
from tests.unit.experiment.test_runner import Run, forking


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    return tmp_path / "run.forkpoint"


class StopAt:
    """Stops a run when an episode begins on a path."""

    def __init__(self, episode_id: str, path: Path, repeat: int = 1) -> None:
        self._at = (episode_id, path, repeat)

    def __call__(self, event: RunEvent, stop: Event) -> None:
        if isinstance(event, TrajectoryStarted) and (event.episode_id, event.path, event.repeat) == self._at:
            stop.set()


def played(run: Run) -> list[tuple[str, Path, int]]:
    return [(event.episode_id, event.path, event.repeat) for event in run.of(TrajectoryStarted)]


def rows(file: FilePath, near_tie: float = 0.1) -> list[PairRow]:
    with closing(Reader(file)) as reader:
        return PairReader(reader, reader.experiments()[0], near_tie).rows()


def statuses(file: FilePath, table: str) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        return {status for (status,) in connection.execute(f"SELECT DISTINCT status FROM {table}")}


def test_a_cached_pass_that_was_complete_is_not_played_again(file: FilePath) -> None:
    request = RunRequest(episodes="0-1", repeat=1)
    Run(file, ScriptedEngine(forking), request, watch=StopAt("units-01", Path.RECOMPUTE))
    again = Run(file, ScriptedEngine(forking), request, resume=1)
    assert again.last == RunEnded(1, "complete")
    assert played(again) == [("units-01", Path.RECOMPUTE, 1)]
    assert not again.of(Notice)


def test_a_run_stopped_in_its_second_repeat_keeps_the_first(file: FilePath) -> None:
    request = RunRequest(episodes="0-2", repeat=2, repeat_first=2)
    Run(file, ScriptedEngine(forking), request, watch=StopAt("units-01", Path.CACHED, 2))
    assert statuses(file, "passes") == {"done", "stopped"}
    again = Run(file, ScriptedEngine(forking), request, resume=1)
    assert again.last == RunEnded(1, "complete")
    assert played(again) == [("units-01", Path.CACHED, 2), ("units-01", Path.RECOMPUTE, 2)]
    assert statuses(file, "passes") == {"done"}
    assert [row.code for row in rows(file)] == ["N", "N", "fork"], "the third was not repeated"


def test_the_experiment_is_running_while_it_goes_on(file: FilePath) -> None:
    request = RunRequest(episodes="0", repeat=2)
    Run(file, ScriptedEngine(), request, watch=StopAt("files-00", Path.CACHED, 2))
    seen: set[str] = set()

    def look(event: RunEvent, _stop: Event) -> None:
        if isinstance(event, TrajectoryStarted):
            seen.update(statuses(file, "experiments"))

    Run(file, ScriptedEngine(), request, resume=1, watch=look)
    assert seen == {"running"}


def test_a_state_that_cannot_be_restored_is_rebuilt(file: FilePath) -> None:
    class NoRestore(ScriptedEngine):
        def restore(self, _snapshot: Snapshot) -> ScriptedState:
            raise EngineError("This engine restores nothing.")

    request = RunRequest(episodes="0-1", repeat=1)
    Run(file, ScriptedEngine(forking), request, watch=StopAt("units-01", Path.CACHED))
    again = Run(file, NoRestore(forking), request, resume=1)
    assert again.last == RunEnded(1, "complete")
    assert ("files-00", Path.CACHED, 1) not in played(again)
    assert not again.of(Notice)
    assert all(row.valid for row in rows(file))


def test_a_state_that_can_neither_be_restored_nor_rebuilt_is_said_and_the_pass_starts_over(file: FilePath) -> None:
    class Neither(ScriptedEngine):
        def restore(self, _snapshot: Snapshot) -> ScriptedState:
            raise EngineError("This engine restores nothing.")

        def open_state(self) -> ScriptedState:
            return NoRebuild(self, super().open_state()._held)

    class NoRebuild(ScriptedState):
        def rebuild(self, *_: object) -> None:
            raise EngineError("Nor does it rebuild.")

    request = RunRequest(episodes="0-1", repeat=1)
    Run(file, ScriptedEngine(forking), request, watch=StopAt("units-01", Path.CACHED))
    again = Run(file, Neither(forking), request, resume=1)
    assert again.last == RunEnded(1, "complete")
    assert any("starts over" in notice.sentence for notice in again.of(Notice))
    assert ("files-00", Path.CACHED, 1) in played(again)


def test_rows_made_of_a_pass_that_starts_over_are_forgotten(file: FilePath) -> None:
    request = RunRequest(episodes="0-2", repeat=1)
    Run(file, ScriptedEngine(forking), request, watch=StopAt("calendar-02", Path.CACHED))
    assert [row.diverged for row in rows(file)] == [True, True, None]
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM snapshots")
    Run(file, ScriptedEngine(forking), request, resume=1, watch=StopAt("units-01", Path.CACHED))
    assert [row.diverged for row in rows(file)] == [True, None, None], "the list says what `compare` would"


def test_an_until_fork_run_that_was_stopped_goes_on_to_its_fork(file: FilePath) -> None:
    def late(prompt: IdArray, cached: int) -> list[Step]:
        return (
            forking(prompt, cached) if b"calendar" in bytes(i for i in prompt.tolist() if i < 256) else steps_of("No.")
        )

    request = RunRequest(episodes="0-3", repeat=1, until_fork=True)
    Run(file, ScriptedEngine(late), request, watch=StopAt("units-01", Path.CACHED))
    again = Run(file, ScriptedEngine(late), request, resume=1)
    assert again.last == RunEnded(1, "forked", "calendar-02")
    assert statuses(file, "passes") == {"done"}
    assert [row.diverged for row in rows(file)] == [False, False, True, None]
    assert all(row.valid for row in rows(file)[:3])


def test_what_the_acceptance_of_a_pass_says_reaches_the_rows_of_an_until_fork_run(file: FilePath) -> None:
    def shallow(prompt: IdArray, cached: int) -> list[Step]:
        return [Step(s.token_id, s.logprob, s.piece, s.rivals[:2]) for s in forking(prompt, cached)]

    run = Run(file, ScriptedEngine(shallow), RunRequest(episodes="0-1", repeat=1, until_fork=True))
    assert run.last == RunEnded(1, "forked", "files-00")
    assert run.of(PairCompared)[-1].row.valid is False
    assert rows(file)[0].valid is False


def test_rows_follow_another_near_tie(file: FilePath) -> None:
    Run(file, ScriptedEngine(forking), RunRequest(episodes="0", repeat=1))
    assert [len(rows(file, near_tie)) for near_tie in (0.1, 5.0)] == [1, 1]
    assert rows(file, 0.1)[0].near_ties < rows(file, 5.0)[0].near_ties


def test_any_error_marks_everything_that_was_running(file: FilePath) -> None:
    class NoSnapshot(ScriptedState):
        def snapshot(self) -> Snapshot:
            raise EngineError("llama.cpp cannot save this state.", "Its words.")

    class Engine(ScriptedEngine):
        def open_state(self) -> ScriptedState:
            return NoSnapshot(self, super().open_state()._held)

    run = Run(file, Engine(), RunRequest(episodes="0-1", repeat=1))
    assert run.last == RunFailed(1, "llama.cpp cannot save this state.", "Its words.")
    for table in ("experiments", "passes", "trajectories"):
        assert "running" not in statuses(file, table)


def test_an_id_beyond_the_tokenizer_is_recorded_and_met_by_the_engine(file: FilePath) -> None:
    beyond = 5_000_000

    def odd(_prompt: IdArray, _cached: int) -> list[Step]:
        rivals = (Rival(beyond, -0.1, b""), *(Rival(n, -3.0 - n, bytes([n])) for n in range(97, 101)))
        return [Step(beyond, -0.1, b"", rivals), *steps_of("Done.")]

    run = Run(file, ScriptedEngine(odd), RunRequest(episodes="0", repeat=1))
    assert run.last == RunEnded(1, "complete")
    assert all(beyond in request.steps.token_ids for side in run.trajectories() for request in side.requests)
    assert rows(file)[0].valid


@pytest.mark.parametrize("said", ['{"tool": "list_files", "args": {not json', '{"tool": "list_files", "args": "x"}'])
def test_tool_arguments_that_are_not_json_get_the_error_that_an_agent_would_get(file: FilePath, said: str) -> None:
    run = Run(file, ScriptedEngine([steps_of(said)]), RunRequest(episodes="0", repeat=1))
    assert run.last == RunEnded(1, "complete")
    results = [each for side in run.trajectories() for request in side.requests for each in request.results]
    assert results and not any(result.ok for result in results)
    assert all("error" in json.loads(result.text) for result in results)


def test_a_dead_engine_on_the_last_step_leaves_a_run_that_can_go_on(file: FilePath) -> None:
    request = RunRequest(episodes="0-1", repeat=1)
    run = Run(file, ScriptedEngine(mishaps=[Mishap(7, 2, "die")]), request)
    assert isinstance(run.last, RunFailed)
    assert Run(file, ScriptedEngine(), request, resume=1).last == RunEnded(1, "complete")


def test_a_relative_model_is_found_from_another_folder(tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = to_plan(RunRequest(model=FilePath("own.gguf"), episodes="0"), (Episode("files-00", "files", (), ("Hi",)),))
    assert from_plan(plan)[0].model == tmp_path / "own.gguf"


def test_the_estimate_of_a_resumed_run_knows_a_path_that_has_nothing_left() -> None:
    clock = Clock({Path.CACHED: 2, Path.RECOMPUTE: 2})
    for path, skipped in ((Path.CACHED, True), (Path.CACHED, True), (Path.RECOMPUTE, False)):
        clock.begin()
        clock.end(path, skipped)
    estimate = clock.estimate()
    assert isinstance(estimate, Estimate) and (estimate.done, estimate.total) == (3, 4)
    assert estimate.seconds_left is not None and estimate.seconds_left >= 0


def test_nothing_is_estimated_before_each_path_was_timed() -> None:
    clock = Clock({Path.CACHED: 2, Path.RECOMPUTE: 2})
    clock.begin()
    clock.end(Path.CACHED, False)
    assert clock.estimate().seconds_left is None


def test_a_stopped_run_is_stopped_everywhere(file: FilePath) -> None:
    Run(file, ScriptedEngine(), RunRequest(episodes="0", repeat=1), watch=StopAt("files-00", Path.RECOMPUTE))
    with closing(Reader(file)) as reader:
        (experiment,) = reader.experiments()
        assert experiment.status is Status.STOPPED
        assert {info.status for info in reader.passes(1)} == {Status.STOPPED}
