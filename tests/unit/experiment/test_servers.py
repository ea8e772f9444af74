"""Runs on engines that hold one State, name no ids, or have no recompute path; and one path served again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path as FilePath
from threading import Event
from typing import Any

import pytest

from app.engine.base import EngineInfo
from app.engine.scripted import Answers, Mishap, ScriptedEngine, ScriptedState, steps_of
from app.engine.server_settings import ManagedSettings, ServerSettings
from app.errors import SettingsError
from app.experiment.pairs import PairReader
from app.experiment.plans import RunRequest, choose, from_plan, loading, to_plan
from app.store.reader import Reader
from app.trajectory.events import Event as RunEvent
from app.trajectory.events import Notice, PairCompared, PassFinished, RunEnded, RunFailed, RunStarted, TrajectoryStarted
from app.trajectory.pair import Pair
from app.trajectory.report import pair_report, token_lines
from app.trajectory.step import IdArray, Step
from app.trajectory.trajectory import Path
from tests.unit.experiment.test_runner import Run, forking


class Server(ScriptedEngine):
    """A scripted engine as a server is: `described` changes what it says of itself; `log` is what was asked of it."""

    def __init__(self, answers: Answers | None = None, *, mishaps: list[Mishap] | None = None, counts: bool = True,
                 **described: Any) -> None:  # fmt: skip
        super().__init__(answers, mishaps=mishaps or [], counts=counts)
        self._described = replace(super().describe(), **{"states_at_once": 1, **described})
        self.log: list[str] = []

    def describe(self) -> EngineInfo:
        return self._described

    def begin_pass(self) -> None:
        self.log.append("begin")

    def open_state(self) -> ScriptedState:
        self.log.append("open")
        return Logged(self, super().open_state())


class Logged(ScriptedState):
    def __init__(self, engine: Server, state: ScriptedState) -> None:
        super().__init__(engine, state.snapshot().ids)
        self._log = engine.log

    def close(self) -> None:
        self._log.append("close")


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    return tmp_path / "run.forkpoint"


def pair_of(file: FilePath, repeat: int = 1) -> Pair:
    with closing(Reader(file)) as reader:
        pair = PairReader(reader, reader.experiments()[0], 0.1).pair("files-00", repeat)
    assert pair is not None
    return pair


def test_a_server_that_holds_one_state_serves_pass_after_pass_each_in_a_history_of_its_own(file: FilePath) -> None:
    engine = Server(forking)
    run = Run(file, engine, RunRequest(episodes="0-1", repeat=2))
    assert run.last == RunEnded(1, "complete")
    begun = [(started.path, started.repeat) for started in run.of(TrajectoryStarted)]
    assert begun == [(path, repeat) for repeat in (1, 2) for path in Path for _ in range(2)]
    assert engine.log.count("begin") == 4
    for number, word in enumerate(engine.log):
        if word == "begin":
            assert engine.log[number + 1] == "open"
            assert engine.log[:number].count("open") == engine.log[:number].count("close"), "a State outlives its pass"
    assert all(finished.valid for finished in run.of(PassFinished))
    assert {event.row.code for event in run.of(PairCompared)[-2:]} == {"N"}


def test_where_states_live_side_by_side_each_pass_begins_once(file: FilePath) -> None:
    engine = Server(forking, states_at_once=None)
    Run(file, engine, RunRequest(episodes="0-1", repeat=1))
    assert engine.log.count("begin") == 2


def test_a_repeat_serves_the_cached_path_again_in_one_server_history(file: FilePath) -> None:
    engine = Server(forking)
    run = Run(file, engine, RunRequest(episodes="0", kind="repeat"))
    assert run.last == RunEnded(1, "complete")
    assert run.of(RunStarted)[0].kind == "repeat"
    assert engine.log == ["begin", "open", "close"]
    assert [(started.path, started.repeat) for started in run.of(TrajectoryStarted)] == [
        (Path.CACHED, 1),
        (Path.CACHED, 2),
    ]
    assert all(finished.valid for finished in run.of(PassFinished))
    pair = pair_of(file)
    assert pair.names == ("second run", "first run")
    first, second = pair.recompute.requests[0].report, pair.cached.requests[0].report
    assert first is not None and first.cached_tokens == 0
    assert second is not None and second.cached_tokens == len(pair.cached.requests[0].prompt.ids) - 1
    assert pair.cached.requests[0].spans[0].writer == "files-00 r1"
    assert pair.cached.requests[0].spans[-1].writer == "files-00 r1, run 2"


def test_a_fork_between_two_runs_is_told_as_one_and_with_what_each_met(file: FilePath) -> None:
    Run(file, Server(forking), RunRequest(episodes="0", kind="repeat"))
    pair = pair_of(file)
    assert pair.comparison.valid
    assert pair.verdict.headline.startswith(
        "Served again by the same server: forked at request 1, token 18: a near tie"
    )
    assert "At request 1 the first run took 0 prompt tokens from it, the second run " in pair.verdict.detail
    assert "both runs took the cached path" in pair.verdict.rule
    assert "path" not in pair.verdict.headline
    report = pair_report(pair)
    assert report["sides"] == ["second run", "first run"] and report["diverged"] is True
    assert any("first run" in line for line in token_lines(pair))


def test_runs_that_agree_are_bit_identical_though_the_cache_gave_another_number_of_tokens(file: FilePath) -> None:
    run = Run(file, Server(), RunRequest(episodes="0", kind="repeat", repeat=3))
    assert run.of(PairCompared)[-1].row.code == "equal"
    pair = pair_of(file, 2)
    assert pair.names == ("third run", "first run") and pair.cached.repeat == 3
    assert pair.verdict.headline.startswith("Served again by the same server: no fork")


def test_a_repeat_proves_something_where_counts_are_not_reported(file: FilePath) -> None:
    run = Run(file, Server(counts=False), RunRequest(episodes="0", kind="repeat"))
    assert run.of(PairCompared)[-1].row.valid is True
    assert all(finished.valid for finished in run.of(PassFinished))


def test_a_repeat_ends_at_its_first_fork_where_it_is_told_to(file: FilePath) -> None:
    run = Run(file, Server(forking), RunRequest(episodes="0", kind="repeat", until_fork=True))
    assert run.last == RunEnded(1, "forked", "files-00")
    agreeing = Run(file, Server(), RunRequest(episodes="0", kind="repeat", repeat=5, until_fork=True))
    assert agreeing.last == RunEnded(2, "no fork")
    assert len(agreeing.of(TrajectoryStarted)) == 2


def test_a_repeat_that_was_stopped_starts_over_and_says_so(file: FilePath) -> None:
    def stop_in_second(event: RunEvent, stop: Event) -> None:
        if isinstance(event, TrajectoryStarted) and event.repeat == 2:
            stop.set()

    request = RunRequest(episodes="0", kind="repeat")
    assert Run(file, Server(), request, watch=stop_in_second).last == RunEnded(1, "stopped")
    again = Run(file, Server(), request, resume=1)
    assert again.last == RunEnded(1, "complete")
    assert len(again.of(TrajectoryStarted)) == 2
    assert any("starts over" in notice.sentence for notice in again.of(Notice))


def test_a_cached_pass_on_a_server_starts_over_and_says_so(file: FilePath) -> None:
    def stop_in_second(event: RunEvent, stop: Event) -> None:
        if isinstance(event, TrajectoryStarted) and event.episode_id == "units-01":
            stop.set()

    request = RunRequest(episodes="0-1", repeat=1)
    capabilities = replace(ScriptedEngine().describe().capabilities, rebuild=False)
    Run(file, Server(capabilities=capabilities), request, watch=stop_in_second)
    again = Run(file, Server(capabilities=capabilities), request, resume=1)
    assert again.last == RunEnded(1, "complete")
    assert [notice.sentence for notice in again.of(Notice)] == [
        "The cached pass 1 starts over: the state of its cache was not kept."
    ]


def test_a_run_does_not_go_on_with_another_model_and_says_what_it_began_with(file: FilePath) -> None:
    def stop(_: RunEvent, flag: Event) -> None:
        flag.set()

    request = RunRequest(episodes="0", repeat=1)
    Run(file, Server(model={**ScriptedEngine().describe().model, "name": "first.gguf"}), request, watch=stop)
    again = Run(file, Server(model={**ScriptedEngine().describe().model, "name": "other.gguf"}), request, resume=1)
    assert isinstance(again.last, RunFailed) and "model changed since it began" in again.last.message
    assert "first.gguf" in again.last.hint and not again.of(TrajectoryStarted)


def test_without_a_recompute_path_a_pair_is_refused_and_a_repeat_is_offered(file: FilePath) -> None:
    capabilities = replace(ScriptedEngine().describe().capabilities, recompute=False)
    run = Run(file, Server(capabilities=capabilities), RunRequest(episodes="0"))
    assert isinstance(run.last, RunFailed)
    assert "no recompute path" in run.last.message and "--kind repeat" in run.last.hint
    assert run.last.experiment_id is None
    repeat = Run(file, Server(capabilities=capabilities), RunRequest(episodes="0", kind="repeat"))
    assert isinstance(repeat.last, RunEnded)


def test_a_server_that_names_no_ids_is_compared_by_text_and_owes_no_logprobs(file: FilePath) -> None:
    def bare(_prompt: IdArray, _cached: int) -> list[Step]:
        return [Step(step.token_id, None, step.piece) for step in steps_of("Done.")]

    run = Run(file, Server(bare, level="text"), RunRequest(episodes="0", kind="repeat"))
    assert all(finished.valid for finished in run.of(PassFinished))
    pair = pair_of(file)
    assert pair.comparison.level == "text" and pair_report(pair)["level"] == "text"
    assert pair.verdict.detail.endswith("Compared by text: the server tells no token ids.")
    assert pair.verdict.code == "unproven", "equal text without logprobs proves no equal numbers"
    with closing(Reader(file)) as reader:
        environment = reader.experiments()[0].environment
    assert environment["level"] == "text" and environment["gaps"] == []


def test_a_plan_keeps_how_the_server_was_reached_and_started_but_no_password(tmp_path: FilePath) -> None:
    request = RunRequest(
        engine="llama-server+http://me:secret@127.0.0.1:8080/base",
        kind="repeat",
        server=ServerSettings(key_file=tmp_path / "key", control_url="http://127.0.0.1:8081"),
        managed=ManagedSettings(binary=tmp_path / "llama-server", cache_ram=0, arguments=("--no-cache-prompt",)),
        episodes="0",
    )
    plan = to_plan(request, choose(request))
    assert "secret" not in repr(plan)
    assert "secret" not in loading(request)
    kept, _ = from_plan(plan)
    assert kept == replace(request, engine="llama-server+http://127.0.0.1:8080/base")


def test_a_plan_of_an_older_version_is_read() -> None:
    request = RunRequest(episodes="0")
    plan = to_plan(request, choose(request))
    for name in ("server", "managed"):
        del plan[name]
    assert from_plan(plan)[0] == request


@pytest.mark.parametrize(
    "wrong", [{"kind": "again"}, {"kind": "repeat", "repeat": 1}, {"engine": "http://h:1", "model": FilePath("m.gguf")}]
)
def test_what_cannot_be_run_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        RunRequest(**wrong)  # type: ignore[arg-type]
