"""The scripted engine does what it is told, mishaps included."""

from __future__ import annotations

import threading
import time

import pytest

from app.engine.base import Engine, GenerateRequest
from app.engine.opening import open_engine
from app.engine.scripted import IM_END, IM_START, Mishap, ScriptedEngine, piece, steps_of, tokenize
from app.errors import EngineDied, EngineError, SettingsError
from app.trajectory.step import IdArray, Step, as_ids
from tests.unit.engine.conversation import ask, first_prompt


def test_any_text_becomes_ids_and_comes_back() -> None:
    text = "<|im_start|>user\nGrüße, 3 × 4 🙂<|im_end|>"
    ids = tokenize(text, True)
    assert (ids[0], ids[-1]) == (IM_START, IM_END)
    assert b"".join(map(piece, ids)).decode() == text
    assert b"".join(map(piece, tokenize(text, False))).decode() == text
    assert piece(9999) == b""


def test_answers_are_played_in_order_with_their_margins() -> None:
    engine = ScriptedEngine([steps_of("ab", [0.04, 1.0]), steps_of("c")])
    state = engine.open_state()
    first, second, third = (ask(state, [1, 2, 3]) for _ in range(3))
    assert [step.piece for step in first.steps] == [b"a", b"b", b"<|im_end|>"]
    assert [step.margin for step in first.steps] == pytest.approx([0.04, 1.0, 2.0])
    assert first.report.finish_reason == "stop"
    assert len(second.steps) == 2 and third.ids == first.ids


def test_the_two_paths_can_be_made_to_fork() -> None:
    def answers(_prompt: IdArray, cached: int) -> list[Step]:
        return steps_of("same then one" if cached else "same then two")

    engine = ScriptedEngine(answers)
    state = engine.open_state()
    assert ask(state, [1, 2, 3]).ids != ask(state, [1, 2, 3]).ids


def test_a_death_ends_the_answer_and_the_engine() -> None:
    engine = ScriptedEngine([steps_of("abcdef")], mishaps=[Mishap(1, 3, "die")])
    state = engine.open_state()
    ask(state, [1, 2])
    taken: list[object] = []
    with pytest.raises(EngineDied):
        for item in state.generate(GenerateRequest(as_ids([1, 2]), 9), threading.Event()):
            taken.append(item)  # noqa: PERF402  extend would lose what came before the death
    assert sum(isinstance(item, Step) for item in taken) == 3
    with pytest.raises(EngineDied):
        engine.open_state()


def test_an_error_ends_the_answer_only() -> None:
    engine = ScriptedEngine([steps_of("abcdef")], mishaps=[Mishap(0, 2, "error")])
    state = engine.open_state()
    with pytest.raises(EngineError):
        ask(state, [1, 2])
    assert ask(state, [1, 2]).report.finish_reason == "stop"


def test_a_hang_lasts_until_the_stop() -> None:
    engine = ScriptedEngine([steps_of("abcdef")], mishaps=[Mishap(0, 2, "hang")])
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    begin = time.monotonic()
    items = list(engine.open_state().generate(GenerateRequest(as_ids([1, 2]), 9), stop))
    assert 0.05 < time.monotonic() - begin < 1
    assert sum(isinstance(item, Step) for item in items) == 2
    assert getattr(items[-1], "finish_reason", "") == "cancelled"


def test_counts_that_are_not_reported_are_none_and_not_zero() -> None:
    engine: Engine = ScriptedEngine(counts=False)
    report = ask(engine.open_state(), first_prompt(engine)).report
    assert report.cached_tokens is None and report.evaluated_tokens is None and report.chunks == ()
    assert engine.describe().capabilities.cached_counts is False


def test_the_scripted_engine_is_opened_only_where_it_is_allowed() -> None:
    with pytest.raises(SettingsError, match="no engine 'scripted'"):
        open_engine("scripted", None)
    with pytest.raises(SettingsError, match="no engine 'vllm'"):
        open_engine("vllm", None)
    assert open_engine("scripted", None, allow_scripted=True).describe().name == "scripted"
