"""The SGLang engine against answers in the shapes that its documentation gives; no live server was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.engine.base import Sampling
from app.engine.http.server import Server
from app.engine.server_settings import ServerSettings
from app.engine.sglang.engine import SglangEngine
from app.errors import ContextOverflow, EngineError
from tests.unit.engine.block_servers import SAID, FakeSglang, prompt_of, refused
from tests.unit.engine.conversation import TURNS, ask, first_prompt, next_prompt

ALLOWED = ServerSettings(allow_reset=True)
Engines = Callable[..., SglangEngine]


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Engines:
    def opened(fake: FakeSglang, settings: ServerSettings = ALLOWED) -> SglangEngine:
        engine = SglangEngine(Server("http://sglang", settings, transport=fake.transport), settings)
        request.addfinalizer(engine.close)
        return engine

    return opened


def fields(engine: SglangEngine) -> list[str]:
    return [gap.field for gap in engine.describe().gaps]


def test_what_the_server_tells_and_the_probe_finds_is_described(connect: Engines) -> None:
    info = connect(FakeSglang()).describe()
    assert (info.name, info.n_ctx, info.level, info.eog_ids) == ("sglang", 400, "ids", frozenset({257}))
    assert (info.model["name"], info.model["eos_token"], info.build["version"]) == ("tiny-1", "<|im_end|>", "0.5.2")
    assert (info.settings["page_size"], info.settings["dtype"], info.states_at_once) == (1, "bfloat16", 1)
    assert [gap.field for gap in info.gaps] == ["/detokenize", "chat_template"]


def test_an_answer_becomes_steps_with_ids_rivals_and_the_end_token(connect: Engines) -> None:
    answer = ask(connect(FakeSglang()).open_state(), prompt_of(20))
    assert answer.ids == [*SAID.encode(), 257] and answer.steps[-1].piece == b"<|im_end|>"
    assert all(len(step.rivals) == 5 and step.rivals[0].token_id == step.token_id for step in answer.steps)
    assert (answer.steps[0].margin, answer.report.finish_reason, answer.report.problem) == (0.5, "stop", None)


def test_ids_go_in_and_only_the_answers_logprobs_are_asked_for(connect: Engines) -> None:
    fake = FakeSglang()
    state = connect(fake).open_state()
    ask(state, prompt_of(20), 7)
    ask(state, prompt_of(20), sampling=Sampling(0.7, top_k=3, top_p=0.5, seed=9))
    greedy, random = fake.bodies("/generate")[-2:]
    assert (greedy["input_ids"], greedy["logprob_start_len"], greedy["stream"]) == (prompt_of(20), -1, False)
    assert greedy["sampling_params"]["temperature"] == 0 and greedy["sampling_params"]["max_new_tokens"] == 7
    assert greedy["sampling_params"]["repetition_penalty"] == 1.0
    assert random["sampling_params"]["sampling_seed"] == 9 and random["sampling_params"]["top_k"] == 3


def test_a_state_is_the_cache_after_a_flush(connect: Engines) -> None:
    fake = FakeSglang()
    engine = connect(fake)
    flushes = len(fake.bodies("/flush_cache"))
    state = engine.open_state()
    first = ask(state, first_prompt(engine))
    second = ask(state, next_prompt(engine, first, TURNS[1]))
    assert first.report.cached_tokens == 0
    assert second.report.cached_tokens == len(first.prompt) + len(first.steps) - 1
    assert second.report.evaluated_tokens == len(second.prompt) - second.report.cached_tokens
    fresh = ask(engine.open_state(), second.prompt)
    assert (fresh.report.cached_tokens, fresh.report.problem) == (0, None)
    assert len(fake.bodies("/flush_cache")) == flushes + 2


def test_without_leave_nothing_is_flushed_and_a_recompute_is_impossible(connect: Engines) -> None:
    fake = FakeSglang()
    engine = connect(fake, ServerSettings())
    ask(engine.open_state(), prompt_of(20))
    info = engine.describe()
    assert (info.recompute_by, info.capabilities.recompute) == ("", False)
    assert "POST /flush_cache" in fields(engine) and not fake.bodies("/flush_cache")


def test_a_flush_that_is_refused_is_an_error_that_says_so(connect: Engines) -> None:
    fake = FakeSglang()
    state = connect(fake).open_state()
    fake.flushes = False
    with pytest.raises(EngineError, match="did not flush its cache"):
        ask(state, prompt_of(20))


def test_a_server_without_a_radix_cache_recomputes_by_itself(connect: Engines) -> None:
    fake = FakeSglang(caching=False)
    engine = connect(fake, ServerSettings())
    assert engine.describe().recompute_by == "the server itself: it keeps no prefixes"
    assert engine.describe().capabilities.recompute is True
    assert ask(engine.open_state(), prompt_of(20)).report.cached_tokens == 0


def test_counts_that_are_not_reported_are_not_zero(connect: Engines) -> None:
    engine = connect(FakeSglang(counts=False))
    info = engine.describe()
    assert ask(engine.open_state(), prompt_of(20)).report.cached_tokens is None
    assert (info.capabilities.cached_counts, info.capabilities.recompute) == (False, None)
    assert info.recompute_by.endswith("unproven") and "meta_info.cached_tokens" in fields(engine)


def test_hits_of_somebody_else_are_a_problem(connect: Engines) -> None:
    fake = FakeSglang()
    state = connect(fake).open_state()
    fake.broken = lambda answer: answer["meta_info"].update(cached_tokens=12)
    problem = ask(state, prompt_of(20)).report.problem
    assert problem is not None and "12 prompt tokens came from the cache, which can have held 0" in problem


def test_ids_are_read_from_the_logprobs_where_output_ids_are_missing(connect: Engines) -> None:
    fake = FakeSglang()
    fake.broken = lambda answer: answer.pop("output_ids")
    answer = ask(connect(fake).open_state(), prompt_of(20))
    assert answer.ids == [*SAID.encode(), 257]
    fake.broken = lambda answer: (answer.pop("output_ids"), answer["meta_info"].pop("output_token_logprobs"))
    with pytest.raises(EngineError, match="does not return the ids"):
        connect(fake)


def test_what_is_missing_is_named_with_what_it_makes_impossible(connect: Engines) -> None:
    fake = FakeSglang(biases=False)

    def strip(answer: dict[str, Any]) -> None:
        for name in ("output_token_logprobs", "output_top_logprobs", "completion_tokens"):
            answer["meta_info"].pop(name)

    fake.broken = strip
    engine = connect(fake)
    assert {"meta_info.output_token_logprobs", "meta_info.completion_tokens", "logit_bias"} <= set(fields(engine))
    assert engine.describe().eog_ids == frozenset() and engine.describe().capabilities.rivals is False


def test_another_model_at_a_new_connection_is_a_problem(connect: Engines) -> None:
    fake = FakeSglang()
    engine = connect(fake)
    state = engine.open_state()
    fake.version = "0.6.0"
    engine._connections -= 1  # a transport in memory makes none of its own
    problem = ask(state, prompt_of(20)).report.problem
    assert problem == "another server answers: tiny-1 on SGLang 0.5.2 became tiny-1 on SGLang 0.6.0."


def test_a_prompt_beyond_the_context_is_an_overflow_by_our_count_or_by_the_servers_words(connect: Engines) -> None:
    fake = FakeSglang()
    state = connect(fake).open_state()
    with pytest.raises(ContextOverflow, match="400"):
        ask(state, prompt_of(400))
    fake.routes["/generate"] = lambda _: refused("The input (399 tokens) is longer than the model's context length")
    with pytest.raises(ContextOverflow, match="longer than the model"):
        ask(state, prompt_of(399))


def test_bodies_are_recorded_without_what_the_steps_hold(connect: Engines) -> None:
    report = ask(connect(FakeSglang()).open_state(), prompt_of(20)).report
    assert "input_ids" not in json.loads(report.raw_request or "")
    response = json.loads(report.raw_response or "")
    assert "output_ids" not in response and "output_token_logprobs" not in response["meta_info"]
    assert response["meta_info"]["finish_reason"] == {"type": "stop", "matched": 257}


def test_a_server_of_another_kind_is_told_apart(connect: Engines) -> None:
    fake = FakeSglang()
    del fake.routes["/get_model_info"]
    with pytest.raises(EngineError, match="is no SGLang"):
        connect(fake)
