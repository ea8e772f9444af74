"""What every engine owes the runner; an engine joins by a line in subjects.py."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable

import pytest

from app.engine.base import Engine, GenerateRequest, Progress
from app.errors import ContextOverflow, EngineError
from app.trajectory.step import Step, as_ids
from app.trajectory.trajectory import RequestReport, Span
from tests.unit.engine.conversation import TURNS, ask, converse, first_prompt, next_prompt
from tests.unit.engine.subjects import Subject


def test_progress_comes_first_and_the_report_last(any_engine: Engine) -> None:
    state = any_engine.open_state()
    prompt = first_prompt(any_engine)
    items = list(state.generate(GenerateRequest(as_ids(prompt), 5), threading.Event()))
    kinds = [kind for kind, _ in itertools.groupby(type(item) for item in items)]
    assert kinds == [Progress, Step, RequestReport]
    assert items[0] == Progress(0, len(prompt), 0)
    assert [item for item in items if isinstance(item, Progress)][-1] == Progress(len(prompt), len(prompt), 0)
    state.close()


def test_max_tokens_ends_an_answer_with_length(any_engine: Engine) -> None:
    state = any_engine.open_state()
    answer = ask(state, first_prompt(any_engine), 7)
    assert len(answer.steps) == 7
    assert answer.report.finish_reason == "length"
    state.close()


def test_rivals_fall_and_a_greedy_step_is_the_first_of_them(any_engine: Engine) -> None:
    state = any_engine.open_state()
    for step in ask(state, first_prompt(any_engine), 7).steps:
        assert len(step.rivals) == 5
        assert step.rivals[0].token_id == step.token_id
        assert step.rivals[0].logprob == step.logprob
        assert step.rivals[0].piece == step.piece
        values = [rival.logprob for rival in step.rivals]
        assert values == sorted(values, reverse=True)
        assert step.margin is not None and step.margin >= 0
    state.close()


def test_the_next_request_keeps_prompt_and_evaluated_answer(subject: Subject) -> None:
    any_engine = subject.engine
    state = any_engine.open_state()
    first, second, third = converse(any_engine, state, 10)
    assert first.report.cached_tokens == 0
    for before, after in ((first, second), (second, third)):
        assert after.report.cached_tokens == len(before.prompt) + len(before.steps) - 1
        assert after.report.held_before == after.report.cached_tokens
        assert after.report.evaluated_tokens == len(after.prompt) - after.report.cached_tokens
        assert sum(after.report.chunks) == (after.report.evaluated_tokens if subject.tells_chunks else 0)
        assert after.report.problem is None
    state.close()


def test_the_same_prompt_again_evaluates_its_last_token(any_engine: Engine) -> None:
    state = any_engine.open_state()
    prompt = first_prompt(any_engine)
    ask(state, prompt, 3)
    again = ask(state, prompt, 3)
    assert (again.report.cached_tokens, again.report.evaluated_tokens) == (len(prompt) - 1, 1)
    state.close()


def test_a_prompt_that_parts_early_keeps_only_the_shared_part(any_engine: Engine) -> None:
    state = any_engine.open_state()
    first = ask(state, first_prompt(any_engine, TURNS[0]), 3)
    second = ask(state, first_prompt(any_engine, TURNS[1]), 3)
    shared = next(n for n, (a, b) in enumerate(zip(first.prompt, second.prompt, strict=False)) if a != b)
    assert second.report.cached_tokens == shared
    state.close()


def test_an_empty_state_gives_the_same_answer_every_time(any_engine: Engine) -> None:
    answers = []
    for _ in range(2):
        state = any_engine.open_state()
        answers.append(ask(state, first_prompt(any_engine), 12))
        state.close()
    assert answers[0].same_as(answers[1])


def test_a_prompt_beyond_the_context_is_an_overflow_and_the_state_lives_on(any_engine: Engine) -> None:
    state = any_engine.open_state()
    prompt = first_prompt(any_engine)
    too_long = (prompt * 100)[: any_engine.describe().n_ctx]
    with pytest.raises(ContextOverflow, match="context"):
        ask(state, too_long)
    assert len(ask(state, prompt, 3).steps) == 3
    state.close()


def test_an_answer_that_reaches_the_end_of_the_context_ends_with_length(subject: Subject) -> None:
    state = subject.engine.open_state()
    prompt = (first_prompt(subject.engine) * 100)[: subject.engine.describe().n_ctx - 3]
    answer = ask(state, prompt, 100)
    assert (len(answer.steps), answer.report.finish_reason) == (subject.last_steps, "length")
    assert answer.report.problem is None
    state.close()


def test_an_empty_prompt_is_refused_with_a_sentence(any_engine: Engine) -> None:
    state = any_engine.open_state()
    with pytest.raises(EngineError, match="The prompt is empty"):
        ask(state, [])
    state.close()


def test_a_stop_during_an_answer_ends_within_a_second_and_the_state_can_go_on(subject: Subject) -> None:
    state = subject.engine.open_state()
    stop, prompt = threading.Event(), first_prompt(subject.engine)
    timer = threading.Timer(0.5, stop.set)
    taken: list[int] = []
    begin = time.monotonic()
    if not subject.streams:
        timer.start()
    for item in state.generate(GenerateRequest(as_ids(prompt), 1000), stop):
        if isinstance(item, Step):
            taken.append(item.token_id)
            if len(taken) == 3:
                stop.set()
                begin = time.monotonic()
        report = item
    timer.cancel()
    assert time.monotonic() - begin < 1.5
    assert isinstance(report, RequestReport) and report.finish_reason == "cancelled"
    assert bool(taken) == subject.streams
    again = ask(state, prompt, 3)
    assert again.report.cached_tokens == (len(prompt) - 1 if subject.streams else 0)
    assert again.report.problem is None
    state.close()


def test_an_answer_left_half_way_does_not_spill_into_the_next(any_engine: Engine) -> None:
    state = any_engine.open_state()
    prompt = first_prompt(any_engine)
    answering = state.generate(GenerateRequest(as_ids(prompt), 100), threading.Event())
    next(item for item in answering if isinstance(item, Step))
    answering.close()  # type: ignore[attr-defined]
    fresh = any_engine.open_state()
    whole = ask(fresh, prompt, 5)
    assert len(whole.steps) == 5 and whole.report.cached_tokens == 0
    state.close()
    fresh.close()


def test_a_restored_snapshot_answers_as_its_original_would(any_engine: Engine) -> None:
    state = any_engine.open_state()
    answers = converse(any_engine, state, 8)
    if not any_engine.describe().capabilities.snapshot:
        with pytest.raises(EngineError, match="saved"):
            state.snapshot()
        return
    snapshot = state.snapshot()
    assert snapshot.ids.tolist() == answers[-1].prompt + answers[-1].ids[:-1]
    prompt = next_prompt(any_engine, answers[-1], "And the smallest?")
    original = ask(state, prompt, 8)
    state.close()
    restored = any_engine.restore(snapshot)
    copy = ask(restored, prompt, 8)
    assert copy.report.cached_tokens == original.report.cached_tokens == len(snapshot.ids)
    assert copy.report.problem is None
    assert copy.same_as(original)
    restored.close()


def test_only_an_empty_state_is_rebuilt_and_only_from_spans_that_cover_it(any_engine: Engine) -> None:
    state = any_engine.open_state()
    ids = as_ids(first_prompt(any_engine))
    whole = [Span(0, len(ids), "prefill", "r1", len(ids))]
    if not any_engine.describe().capabilities.rebuild:
        with pytest.raises(EngineError, match="cannot be filled entry by entry"):
            state.rebuild(ids, whole)
        return
    with pytest.raises(EngineError, match="does not say how each entry was written"):
        state.rebuild(ids, [Span(0, 3, "prefill", "r1", 3)])
    state.rebuild(ids, whole)
    with pytest.raises(EngineError, match="Only an empty state"):
        state.rebuild(ids, whole)
    state.close()


def test_a_new_pass_finds_nothing_of_the_one_before(any_engine: Engine) -> None:
    prompt = first_prompt(any_engine)
    answers = []
    for _ in range(2):
        any_engine.begin_pass()
        state = any_engine.open_state()
        answers.append(ask(state, prompt, 6))
        state.close()
    assert [answer.report.cached_tokens for answer in answers] == [0, 0]
    assert answers[0].same_as(answers[1])


def test_control_tokens_are_parsed_only_where_asked_for(any_engine: Engine) -> None:
    (parsed,) = any_engine.tokenize("<|im_end|>", special=True)
    assert parsed in any_engine.describe().eog_ids
    assert len(any_engine.tokenize("<|im_end|>", special=False)) > 1
    assert any_engine.tokenize("", special=True) == []


def test_what_the_engine_is_can_be_sealed_as_json(any_engine: Engine) -> None:
    info = any_engine.describe()
    assert any_engine.describe() is info
    for part in (info.build, info.model, info.settings):
        assert json.loads(json.dumps(dict(part))) == dict(part)
    assert {"name", "sha256", "tensor_types", "tokenizer_hash", "chat_template", "n_swa", "recurrent"} <= set(
        info.model
    )


def test_closing_twice_is_harmless_in_any_order(any_engine: Engine) -> None:
    state = any_engine.open_state()
    close: Callable[[], None] = state.close
    close()
    close()
