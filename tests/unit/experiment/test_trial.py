"""Tries of *Shrink*: what is evaluated again, and that restored states give the bits of a run from scratch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from app.diagnosis.minimise import Asked, Candidate
from app.engine.base import Capabilities, Engine, EngineInfo, Sampling, Snapshot
from app.engine.default_model import default_model
from app.engine.embedded.engine import EmbeddedEngine
from app.engine.scripted import Mishap, ScriptedEngine, steps_of
from app.engine.settings import EmbeddedSettings
from app.experiment.asking import Asking
from app.experiment.pass_run import Stopped
from app.experiment.trial import Target, Trials
from app.experiment.warm_states import Shelf, WarmStates
from app.trajectory.step import IdArray, Step, StepBlock, as_ids
from app.trajectory.trajectory import Path, RequestReport
from tests.unit.engine.conversation import converse, next_prompt

TARGET = Target("made-00", ord("s"), ord("n"), 5, 5)


class Counting(ScriptedEngine):
    """Forks wherever something is cached; notes how long each prompt was and how much of it was cached."""

    def __init__(self, **capabilities: bool) -> None:
        self.asked: list[tuple[int, int]] = []
        self._can = replace(Capabilities(True, True, True, True, True, True), **capabilities)
        super().__init__(self._answer)

    def _answer(self, prompt: IdArray, cached: int) -> list[Step]:
        self.asked.append((len(prompt), cached))
        return steps_of("Yes, so it is." if cached % 512 else "Yes, no it is.")

    def describe(self) -> EngineInfo:
        settings = {"n_ctx": 4096, "n_batch": 2048, "n_ubatch": 512}
        return replace(super().describe(), settings=settings, capabilities=self._can)

    def evaluated(self) -> list[int]:
        """Prompt tokens of each request since the last call that were not cached."""
        found = [length - cached for length, cached in self.asked]
        self.asked.clear()
        return found


def trials(engine: Engine, target: Target = TARGET) -> Trials:
    return Trials(asking(engine), engine.describe(), target)


def asking(engine: Engine) -> Asking:
    return Asking(engine, Sampling(), threading.Event())


def candidate(prompt: int, *history: int) -> Candidate:
    """Of prompts so long, each of which begins as all others do."""
    ids = tuple(number % 250 for number in range(4000))
    return Candidate(tuple(Asked(ids[:length], 3) for length in history), (*ids[:prompt], 251))


def test_a_history_that_has_not_changed_is_not_served_again() -> None:
    engine = Counting()
    tried = trials(engine)
    assert tried.seems_to_fork(candidate(300, 100, 200))
    assert engine.evaluated() == [301, 100, 100, 101], "recompute, both warm-up requests, cached"
    assert tried.seems_to_fork(candidate(290, 100, 200))
    assert engine.evaluated() == [291, 91], "recompute, cached: restored after both"
    assert tried.seems_to_fork(candidate(290, 100))
    assert engine.evaluated() == [191], "the recompute answer is known, and the state after the first request"


def test_whole_chunks_before_the_last_are_not_evaluated_again() -> None:
    engine = Counting()
    tried = trials(engine)
    assert tried.seems_to_fork(candidate(600, 550))
    assert engine.evaluated() == [512, 89, 38, 51], "the first chunk, then the rest of each prompt"
    assert tried.seems_to_fork(candidate(590, 540))
    assert engine.evaluated() == [79, 28, 51]


@pytest.mark.parametrize("capability", ["snapshot", "rebuild"])
def test_where_snapshots_and_chunks_are_not_ours_everything_is_asked_again(capability: str) -> None:
    engine = Counting(**{capability: False})
    tried = trials(engine)
    for prompt in (600, 590):
        assert tried.seems_to_fork(candidate(prompt, 100, 550))
        assert engine.evaluated() == [prompt + 1, 100, 450, prompt + 1 - 550]


def test_what_counts_is_run_from_scratch() -> None:
    engine = Counting()
    tried = trials(engine)
    tried.seems_to_fork(candidate(600, 550))
    engine.evaluated()
    playing = tried.forks(candidate(600, 550))
    assert playing is not None
    assert engine.evaluated() == [51, 550, 51, 601, 550], "the try; the cached path; the recompute path"
    assert {path: [len(p.prompt_ids) for p in played] for path, played in playing.items()} == {
        Path.CACHED: [550, 601],
        Path.RECOMPUTE: [550, 601],
    }
    assert [played.report.cached_tokens for side in playing.values() for played in side] == [0, 550, 0, 0]


def test_a_warm_up_request_is_run_alone_once_unless_all_is_run_anew() -> None:
    """On the recompute path; it is no part of the fork there."""
    engine = Counting()
    tried = trials(engine)
    assert tried.play(candidate(300, 100, 200)) and engine.evaluated() == [100, 100, 101, 301, 100, 200]
    assert tried.play(candidate(290, 100, 200)) and engine.evaluated() == [100, 100, 91, 291]
    assert tried.play(candidate(290, 100, 200), anew=True)
    assert engine.evaluated() == [100, 100, 91, 291, 100, 200]


def test_a_fork_in_the_history_does_not_count() -> None:
    class Forking(Counting):
        def _answer(self, prompt: IdArray, cached: int) -> list[Step]:
            super()._answer(prompt, cached)
            return steps_of("so" if cached else "no")

    engine = Forking()
    tried = trials(engine, replace(TARGET, step=0))
    assert tried.play(candidate(300, 200)) is not None
    assert tried.play(candidate(300, 100, 200)) is None, "its second warm-up request forks"


def test_other_tokens_are_another_fork() -> None:
    with closing(Counting()) as engine:
        assert trials(engine, replace(TARGET, cached_token=ord("x"))).forks(candidate(300, 100)) is None
        assert trials(engine, replace(TARGET, step=4)).forks(candidate(300, 100)) is None


def test_an_answer_ends_once_the_paths_have_parted() -> None:
    def answer(_: IdArray, cached: int) -> list[Step]:
        return steps_of(("Yes, so" if cached else "Yes, no") + " it goes on and on, n")

    with closing(ScriptedEngine(answer, mishaps=[Mishap(2, 12, "error")])) as engine:
        assert trials(engine, replace(TARGET, step=60)).seems_to_fork(candidate(300, 100))


def test_a_stop_ends_a_try() -> None:
    with closing(Counting()) as engine:
        stopped = asking(engine)
        stopped.stop.set()
        with pytest.raises(Stopped):
            Trials(stopped, engine.describe(), TARGET).forks(candidate(300, 100))


def test_a_shelf_holds_no_more_than_its_size() -> None:
    shelf = Shelf(25)
    snapshots = {name: Snapshot(as_ids(()), bytes(10)) for name in "abc"}
    shelf.put("a", snapshots["a"])
    shelf.put("b", snapshots["b"])
    assert shelf.get("a") is snapshots["a"]
    shelf.put("c", snapshots["c"])
    assert (shelf.get("a"), shelf.get("b"), shelf.get("c")) == (snapshots["a"], None, snapshots["c"])
    shelf.put("huge", Snapshot(as_ids(()), bytes(100)))
    assert [shelf.get(name) for name in (*"abc", "huge")] == [None] * 4


@pytest.fixture(scope="module")
def engine() -> Iterator[EmbeddedEngine]:
    """The real model with small chunks, so that prompts have several."""
    engine = EmbeddedEngine(default_model(), EmbeddedSettings(threads=1, n_ctx=1024, n_ubatch=32))
    yield engine
    engine.close()


@pytest.mark.model
def test_a_restored_head_gives_the_bits_of_a_whole_evaluation(engine: EmbeddedEngine) -> None:
    with closing(engine.open_state()) as state:
        answers = converse(engine, state)
    prompt = tuple(next_prompt(engine, answers[-1], "Say it once more."))
    head = len(prompt) - (len(prompt) % 32 or 32)
    assert head >= 3 * 32
    tried = asking(engine)
    states = WarmStates(tried, engine.describe())
    counts: list[int | None] = []
    blocks: list[StepBlock] = []
    for begin in (lambda _: engine.open_state(), states.begun, states.begun):
        with closing(begin(prompt)) as began:
            items = list(tried.items(began, Asked(prompt, 8), 5))
        report = items.pop()
        assert isinstance(report, RequestReport)
        counts.append(report.cached_tokens)
        blocks.append(StepBlock.pack([item for item in items if isinstance(item, Step)]))
    assert counts == [0, head, head]
    for block in blocks[1:]:
        assert np.array_equal(block.rival_ids, blocks[0].rival_ids)
        assert block.rival_logprobs.tobytes() == blocks[0].rival_logprobs.tobytes()


@pytest.mark.model
def test_a_restored_history_gives_the_bits_of_one_that_is_served(engine: EmbeddedEngine) -> None:
    with closing(engine.open_state()) as state:
        answers = converse(engine, state)
    history = tuple(Asked(tuple(answer.prompt), len(answer.steps)) for answer in answers[:2])
    tried = asking(engine)
    states = WarmStates(tried, engine.describe())
    blocks = []
    for _ in range(2):
        with closing(states.after(history)) as served:
            items = list(tried.items(served, Asked(tuple(answers[2].prompt), 8), 5))
        blocks.append(StepBlock.pack([item for item in items if isinstance(item, Step)]))
    recorded = StepBlock.pack(answers[2].steps[:8])
    for block in blocks:
        assert block.token_ids.tolist() == recorded.token_ids.tolist()
        assert block.logprobs.tobytes() == recorded.logprobs.tobytes()
