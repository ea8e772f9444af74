"""The probe at connect against servers that answer in other shapes: each is a real answer with one thing changed."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.base import Gap
from app.engine.http.server import Server
from app.engine.llama_server.engine import LlamaServerEngine
from app.engine.llama_server.shape import align, count_of, logprob_of, read_completion
from app.engine.server_settings import ServerSettings
from app.errors import ContextOverflow, EngineError, ServerRefused
from app.trajectory.trajectory import RequestReport
from tests.unit.engine.conversation import ask

WORDS = [" are", " an", " AI", " assistant", "'re", ".", "!", "", " the", " a"]
N_VOCAB = len(WORDS)
END = 7
PROPS: dict[str, Any] = {
    "default_generation_settings": {"params": {"top_k": 40}, "n_ctx": 64},
    "total_slots": 1,
    "model_path": "/models/small.gguf",
    "chat_template": "{{ messages }}",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "build_info": "b1-0c1e570",
}
MODELS = {"data": [{"meta": {"n_vocab": N_VOCAB, "n_ctx_train": 128, "size": 1000}}]}
LOWEST = float(np.finfo(np.float32).min)

Change = Callable[[dict[str, Any]], object]


def _entry(token_id: int, count: int) -> dict[str, Any]:
    order = [token_id, *(other for other in range(N_VOCAB) if other != token_id)]
    top = [
        {"id": i, "token": WORDS[i], "bytes": list(WORDS[i].encode()), "logprob": -0.5 - rank}
        for rank, i in enumerate(order[:count])
    ]
    return {**top[0], "top_logprobs": top}


class FakeServer:
    """Answers as llama-server b1-0c1e570 did, each answer changed by `change`; keeps one slot's ids as it does."""

    def __init__(self, change: Change = len) -> None:
        self.change = change
        self.props = copy.deepcopy(PROPS)
        self.held: list[int] = []
        self.asked: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, json.loads(request.content or b"{}")
        answers: dict[str, Callable[[], Any]] = {
            "/health": lambda: {"status": "ok"},
            "/props": lambda: self.props,
            "/v1/models": lambda: MODELS,
            "/tokenize": lambda: {"tokens": [END] if body["content"] == "</s>" else [0, 1, 2, 3]},
            "/detokenize": lambda: {"content": "</s>"},
            "/completion": lambda: self._complete(body),
        }
        if path in answers:
            return httpx.Response(200, json=answers[path]())
        return httpx.Response(501, json={"error": {"code": 501, "message": "not supported"}})

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        prompt, ids = body["prompt"], [4, 5, END][: body["n_predict"]]
        shared = next((n for n, (a, b) in enumerate(zip(self.held, prompt, strict=False)) if a != b), len(self.held))
        cached = min(shared, len(prompt) - 1) if body.get("cache_prompt", True) else 0
        self.held = prompt + ids[:-1]
        used = {name: body.get(name) for name in ("seed", "temperature", "samplers", "post_sampling_probs")}
        bias = [{"token": END, "bias": None}] if body.get("ignore_eos") else []
        answer = {
            "tokens": ids,
            "id_slot": 0,
            "tokens_predicted": len(ids),
            "tokens_evaluated": len(prompt),
            "generation_settings": {**used, "logit_bias": bias},
            "stop_type": "eos" if ids[-1] == END else "limit",
            "timings": {"cache_n": cached, "prompt_n": len(prompt) - cached, "prompt_ms": 1.5, "predicted_ms": 2.5},
            "completion_probabilities": [_entry(i, min(body["n_probs"], N_VOCAB)) for i in ids],
        }
        self.change(answer)
        return answer


def connect(fake: FakeServer) -> LlamaServerEngine:
    settings = ServerSettings()
    return LlamaServerEngine(Server("http://127.0.0.1:1", settings, transport=httpx.MockTransport(fake)), settings)


def gaps(change: Change) -> dict[str, Gap]:
    found = connect(FakeServer(change)).describe().gaps
    return {gap.field: gap for gap in found if gap.field != "POST /slots/0"}


def test_a_whole_answer_has_no_gap() -> None:
    fake = FakeServer()
    engine = connect(fake)
    assert gaps(len) == {}
    info = engine.describe()
    assert info.eog_ids == {END} and info.n_ctx == 64 and info.model["name"] == "small.gguf"
    assert engine.piece(0) == b" are" and engine.piece(END) == b"</s>"
    assert [body.get("cache_prompt") for body in fake.asked] == [False, True, None]


def _delete(*path: str) -> Change:
    def change(answer: dict[str, Any]) -> None:
        *parents, last = path
        for name in parents:
            answer = answer[name]
        del answer[last]

    return change


def _each_entry(**values: object) -> Change:
    def change(answer: dict[str, Any]) -> None:
        for entry in answer["completion_probabilities"]:
            entry.update(values)

    return change


def _set(**values: object) -> Change:
    return lambda answer: answer.update(values)


def _timings(**values: object) -> Change:
    return lambda answer: answer["timings"].update(values)


@pytest.mark.parametrize(
    ("change", "field", "found"),
    [
        (_delete("tokens"), "tokens", "absent"),
        (_set(tokens=[]), "tokens", "absent"),
        (_set(tokens=[4, 5, 99]), "tokens", "id 99 of 10"),
        (_set(tokens_predicted=5), "tokens", "3 of 5 tokens"),
        (_delete("completion_probabilities"), "completion_probabilities", "absent"),
        (_set(completion_probabilities=[{"content": " are", "probs": []}]), "completion_probabilities", "absent"),
        (_each_entry(id=8), "completion_probabilities", "entries of other tokens"),
        (_each_entry(logprob=LOWEST), "completion_probabilities[].logprob", "no logprob"),
        (_each_entry(logprob=0.5), "completion_probabilities[].logprob", "no logprob"),
        (_each_entry(logprob=None), "completion_probabilities[].logprob", "no logprob"),
        (_each_entry(top_logprobs=[], logprob=0.0), "completion_probabilities[].logprob", "no logprob"),
        (_delete("id_slot"), "id_slot", "absent"),
        (_set(id_slot=3), "id_slot", "3"),
        (_delete("timings"), "timings.cache_n", "absent"),
        (_timings(cache_n=2), "cache_prompt", "false, yet 2 tokens"),
        (_timings(cache_n=0), "timings.cache_n", "0 where a repeated prompt of 4 should reuse 3"),
        (_timings(prompt_n=9), "timings.prompt_n", "9"),
        (_set(generation_settings={}), "generation_settings.seed", "absent"),
    ],
)  # fmt: skip
def test_what_is_missing_moved_or_nonsensical_is_named(change: Change, field: str, found: str) -> None:
    gap = gaps(change)[field]
    assert gap.found.startswith(found)
    assert gap.impossible


def test_capabilities_follow_from_the_probe() -> None:
    def capabilities(change: Change) -> Any:
        return connect(FakeServer(change)).describe().capabilities

    assert capabilities(_delete("tokens")).token_ids is False
    assert capabilities(_delete("completion_probabilities")).rivals is False
    assert capabilities(_delete("timings")).cached_counts is False
    assert capabilities(_delete("timings")).recompute is None
    assert capabilities(_timings(cache_n=2)).recompute is False
    assert capabilities(_timings(cache_n=0)).caching is False
    assert capabilities(_delete("id_slot")).slots is False
    assert connect(FakeServer(_timings(cache_n=2))).describe().recompute_by == ""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_timings(cache_n=1, prompt_n=3), "yet 1 tokens came from it"),
        (_timings(prompt_n=1), "0 cached and 1 evaluated tokens are not the prompt's 4"),
        (_set(tokens_evaluated=5), "the server saw a prompt of 5 tokens instead of 4"),
        (_set(tokens_predicted=2), "the server sampled 2 tokens and returned 3"),
        (_set(id_slot=1), "slot 1 answered instead of slot 0"),
        (_each_entry(id=8), "probability entries are of other tokens"),
        (_set(tokens=[4, 5, 6]), "ended at token 6, which is none of its end tokens"),
        (_set(tokens=[4] * 61, tokens_predicted=61), "longer than the context of 64 tokens"),
    ],
)  # fmt: skip
def test_what_contradicts_in_an_answer_is_a_problem(change: Change, problem: str) -> None:
    fake = FakeServer()
    engine = connect(fake)
    assert ask(engine.open_state(), [0, 1, 2, 3]).report.problem is None
    fake.change = change
    found = ask(engine.open_state(), [0, 1, 2, 3]).report.problem
    assert found is not None and problem in found


def test_an_answer_without_ids_is_an_error_and_not_reported_is_not_zero() -> None:
    fake = FakeServer()
    engine = connect(fake)
    fake.change = _delete("tokens")
    with pytest.raises(EngineError, match="no token ids"):
        ask(engine.open_state(), [0, 1])
    fake.change = _delete("timings")
    report = ask(engine.open_state(), [0, 1]).report
    assert (report.cached_tokens, report.evaluated_tokens, report.prefill_ms) == (None, None, None)
    assert isinstance(report, RequestReport) and report.problem is None


def test_the_server_s_own_refusal_of_a_long_prompt_is_an_overflow() -> None:
    told = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8, "message": "too long"}
    fake = FakeServer()
    engine = connect(fake)

    def refuse(_answer: dict[str, Any]) -> None:
        raise ServerRefused("The server refused.", status=400, body=json.dumps({"error": told}))

    fake.change = refuse
    with pytest.raises(ContextOverflow, match="9 tokens; the server's context holds 8"):
        ask(engine.open_state(), [0, 1])


def test_something_else_at_the_address_is_said() -> None:
    fake = FakeServer()
    fake.props = {"hello": "world"}
    with pytest.raises(EngineError, match="no llama-server"):
        connect(fake)


@given(st.lists(st.integers(0, 4), max_size=30), st.data())
def test_an_entry_is_never_laid_over_another_token(ids: list[int], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
    true_places = [place for place, keep in enumerate(kept) if keep]
    placed = align(ids, [ids[place] for place in true_places])
    assert placed is not None
    for place, index in enumerate(placed):
        assert index is None or true_places[index] == place
    if all(kept):
        assert placed == list(range(len(ids)))


def test_entries_that_are_no_part_of_the_ids_are_not_used() -> None:
    assert align([1, 2, 3], [2, 1]) is None
    assert align([1, 2, 3], [2]) == [None, 0, None]
    assert align([5, 5], [5]) == [None, None]  # which of the two it belongs to is not known


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
                        st.sampled_from(["tokens", "timings", "cache_n", "completion_probabilities", "id", "logprob",
                                         "top_logprobs", "bytes", "id_slot"]), inner, max_size=6)))  # fmt: skip
def test_no_answer_breaks_the_reader(raw: object) -> None:
    answer = read_completion(raw)
    assert len(answer.entries) == len(answer.ids)


def test_only_logprobs_are_logprobs_and_only_counts_are_counts() -> None:
    assert [logprob_of(v) for v in (-0.5, 0, LOWEST, 0.1, math.nan, -math.inf, "x", True)] == [-0.5, 0.0] + [None] * 6
    assert [count_of(v) for v in (3, 0, -1, 2.0, True, None)] == [3, 0] + [None] * 4


def test_a_refused_prompt_never_reaches_the_server() -> None:
    fake = FakeServer()
    engine = connect(fake)
    asked = len(fake.asked)
    for prompt, error, match in (
        ([], EngineError, "empty"),
        ([0] * 64, ContextOverflow, "64 tokens"),
        ([0, 99], EngineError, "holds id 99"),
    ):
        with pytest.raises(error, match=match):
            ask(engine.open_state(), prompt)
    assert len(fake.asked) == asked
