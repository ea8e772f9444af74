"""The OpenAI-compatible engine against a server that spoils its answers on order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.engine.base import Gap, GenerateRequest, Sampling, Snapshot
from app.engine.http.server import Server
from app.engine.openai.engine import OpenAIEngine
from app.engine.openai.probe import SENTINELS
from app.engine.piece_ids import OWN_IDS
from app.engine.server_settings import ServerSettings
from app.errors import ContextOverflow, EngineDied, EngineError, ServerRefused, SettingsError
from app.trajectory.step import Step, as_ids
from app.trajectory.trajectory import RequestReport, Span
from tests.unit.engine.broken_server import BrokenServer, answer, hang, reset
from tests.unit.engine.completions import TOKENS, Completions, Edit
from tests.unit.engine.conversation import Answer, ask


@contextmanager
def engine_at(completions: Completions, settings: ServerSettings | None = None) -> Iterator[OpenAIEngine]:
    settings = settings or ServerSettings()
    with BrokenServer(completions) as broken:
        server = Server(broken.url, settings)
        try:
            engine = OpenAIEngine(server, settings)
            completions.asked.clear()
            yield engine
        finally:
            server.close()


def asked(engine: OpenAIEngine, prompt: str, state: Any = None, max_tokens: int = 4) -> Answer:
    return ask(state or engine.open_state(), engine.tokenize(prompt, special=True), max_tokens)


def choice(raw: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = raw["choices"][0]
    return found


# The probe


def test_a_server_that_tells_everything_it_can_has_few_gaps() -> None:
    with engine_at(Completions(counts=True)) as engine:
        info = engine.describe()
        assert (info.level, info.name, info.model["name"], info.states_at_once) == (
            "text",
            "OpenAI-compatible",
            "made",
            1,
        )
        assert (info.capabilities.rivals, info.capabilities.cached_counts, info.capabilities.recompute) == (True,) * 3
        assert {gap.field for gap in info.gaps} == {"prompt", "choices[0].token_ids", "chat_template"}


def beyond(raw: dict[str, Any]) -> None:
    choice(raw)["logprobs"]["token_logprobs"][1] = 0.5


def lowest(raw: dict[str, Any]) -> None:
    choice(raw)["logprobs"]["token_logprobs"][0] = -3.4028234663852886e38


def fewer(raw: dict[str, Any]) -> None:
    for values in choice(raw)["logprobs"].values():
        values.pop()
    choice(raw)["text"] = "".join(choice(raw)["logprobs"]["tokens"])


def unequal(raw: dict[str, Any]) -> None:
    choice(raw)["logprobs"]["token_logprobs"].pop()


def shifted(raw: dict[str, Any]) -> None:
    tops = choice(raw)["logprobs"]["top_logprobs"]
    for top in tops:
        top["elsewhere"] = -0.01


def other_text(raw: dict[str, Any]) -> None:
    choice(raw)["text"] = "something else"


def few_rivals(raw: dict[str, Any]) -> None:
    for top in choice(raw)["logprobs"]["top_logprobs"]:
        for token in list(top)[2:]:
            del top[token]


@pytest.mark.parametrize(
    ("edit", "field", "found"),
    [
        (beyond, "choices[0].logprobs.token_logprobs", "no logprob"),
        (lowest, "choices[0].logprobs.token_logprobs", "no logprob"),
        (fewer, "choices[0].logprobs", "3 entries of 4 tokens"),
        (unequal, "choices[0].logprobs", "unequal length"),
        (shifted, "choices[0].logprobs.top_logprobs", "not the most probable"),
        (other_text, "choices[0].logprobs.tokens", "do not rebuild"),
        (few_rivals, "choices[0].logprobs.top_logprobs", "2 of 5"),
        (lambda raw: choice(raw).update(logprobs=None), "choices[0].logprobs", "absent"),
        (lambda raw: choice(raw).update(finish_reason=None), "choices[0].finish_reason", "''"),
        (lambda raw: raw.pop("usage"), "usage", "absent"),
        (lambda raw: raw.pop("usage"), "usage.prompt_tokens_details.cached_tokens", "absent"),
    ],
)  # fmt: skip
def test_a_field_that_is_missing_or_nonsense_is_named_with_what_it_makes_impossible(
    edit: Edit, field: str, found: str
) -> None:
    with engine_at(Completions(edit)) as engine:
        gaps: list[Gap] = [gap for gap in engine.describe().gaps if gap.field == field and found in gap.found]
        assert len(gaps) == 1
        assert gaps[0].impossible


def test_a_server_that_refuses_logprobs_is_asked_without_them() -> None:
    completions = Completions(refuse=("logprobs",))
    with engine_at(completions) as engine:
        info = engine.describe()
        assert info.capabilities.rivals is False
        assert any(gap.field == "logprobs" and "unknown field logprobs" in gap.found for gap in info.gaps)
        answered = asked(engine, "one, two, three,")
        assert [step.piece for step in answered.steps] == [b" four", b",", b" five", b","]
        assert all(step.logprob is None and step.rivals == () and step.margin is None for step in answered.steps)
        assert "the steps are words" in str(answered.report.note)
        assert completions.asked[-1]["repeat_penalty"] == 1.0 and "logprobs" not in completions.asked[-1]


def test_a_server_that_refuses_what_openai_does_not_know_is_asked_without_it() -> None:
    completions = Completions(refuse=("repeat_penalty", "top_k"))
    with engine_at(completions) as engine:
        assert "repeat_penalty" in {gap.field for gap in engine.describe().gaps}
        sampling = Sampling(temperature=0.8, top_k=20, top_p=0.9, seed=7)
        ask(engine.open_state(), engine.tokenize("one, two", special=True), 2, sampling)
        sent = completions.asked[-1]
        assert (sent["temperature"], sent["top_p"], sent["seed"], sent["logprobs"]) == (0.8, 0.9, 7, 5)
        assert "top_k" not in sent


def test_ids_and_bytes_in_the_entries_raise_the_level() -> None:
    def with_ids(raw: dict[str, Any]) -> None:
        tokens = choice(raw)["logprobs"]["tokens"]
        choice(raw)["logprobs"] = {
            "content": [
                {"id": 70 + TOKENS.index(token), "token": token, "bytes": list(token.encode()), "logprob": -0.25}
                for token in tokens
            ]
        }

    def with_bytes(raw: dict[str, Any]) -> None:
        with_ids(raw)
        for entry in choice(raw)["logprobs"]["content"]:
            del entry["id"]

    with engine_at(Completions(with_ids)) as engine:
        assert engine.describe().level == "ids"
        state = engine.open_state()
        answered = asked(engine, "one,", state)
        assert answered.ids == [70, 71, 72, 71]
        assert all(token_id >= OWN_IDS for token_id in answered.prompt)
        again = ask(state, answered.prompt + answered.ids + engine.tokenize(" six", special=True), 2)
        assert json.loads(str(again.report.raw_request))["prompt"] == "one, four, five, six"

    def with_wild_ids(raw: dict[str, Any]) -> None:
        with_ids(raw)
        choice(raw)["logprobs"]["content"][1]["id"] = 2**21

    with engine_at(Completions(with_wild_ids)) as engine:
        assert engine.describe().level == "bytes"
        assert any("2097152, beyond the vocabulary" in gap.found for gap in engine.describe().gaps)
    with engine_at(Completions(with_bytes)) as engine:
        assert engine.describe().level == "bytes"
        assert engine.describe().capabilities.piece_bytes is True


def test_a_sentinel_that_does_not_help_makes_recompute_impossible() -> None:
    def always(raw: dict[str, Any]) -> None:
        raw["usage"]["prompt_tokens_details"] = {"cached_tokens": 5}

    with engine_at(Completions(always)) as engine:
        assert engine.describe().capabilities.recompute is False
        assert engine.describe().recompute_by == ""


def test_a_cache_that_is_off_is_not_taken_for_a_proof() -> None:
    completions = Completions(counts=True)
    completions.keeps = False
    with engine_at(completions) as engine:
        assert engine.describe().capabilities.recompute is None


def test_one_of_several_models_must_be_chosen() -> None:
    completions = Completions()
    completions.models = [{"id": "one"}, {"id": "two"}]
    with pytest.raises(SettingsError, match=r"serves 'one', 'two'.*--served-model"), engine_at(completions):
        pass
    third = ServerSettings(model="three")
    with pytest.raises(SettingsError, match=r"not serve 'three', but 'one', 'two'"), engine_at(completions, third):
        pass
    with engine_at(completions, ServerSettings(model="two")) as engine:
        asked(engine, "one,")
        assert completions.asked[-1]["model"] == "two"


def test_a_server_of_chats_alone_is_refused_in_a_sentence() -> None:
    def chat(raw: dict[str, Any]) -> None:
        choice(raw)["message"] = {"content": choice(raw).pop("text")}

    with pytest.raises(EngineError, match="no choices with a text"), engine_at(Completions(chat)):
        pass


def test_a_template_of_ones_own_is_used(tmp_path: Path) -> None:
    file = tmp_path / "template.jinja"
    file.write_text("{{ messages }}")
    with engine_at(Completions(), ServerSettings(template=file)) as engine:
        assert engine.describe().model["chat_template"] == "{{ messages }}"
        assert "chat_template" not in {gap.field for gap in engine.describe().gaps}


# The state


def test_only_the_first_request_of_a_state_follows_a_sentinel() -> None:
    completions = Completions(counts=True)
    with engine_at(completions) as engine:
        state = engine.open_state()
        first = asked(engine, "one two three", state)
        second = asked(engine, "one two three four five", state)
        assert [body["prompt"] in SENTINELS for body in completions.asked] == [True, False, False]
        assert (first.report.cached_tokens, first.report.evaluated_tokens) == (0, 3)
        assert (second.report.cached_tokens, second.report.evaluated_tokens) == (3, 2)
        assert first.report.problem is second.report.problem is None
        assert first.report.checks == {"prompt_tokens": 3, "completion_tokens": 4}


def test_a_sentinel_shares_no_beginning_with_the_prompt() -> None:
    completions = Completions()
    with engine_at(completions) as engine:
        for prompt in ("0 is nothing", "# a title", "<|im_start|>user"):
            asked(engine, prompt)
            assert completions.asked[-2]["prompt"][0] != prompt[0]


def test_counts_that_are_not_reported_stay_unknown() -> None:
    with engine_at(Completions()) as engine:
        report = asked(engine, "one two").report
        assert report.cached_tokens is report.evaluated_tokens is None
        assert engine.describe().capabilities.recompute is None


def test_a_first_request_that_met_a_cache_is_a_problem() -> None:
    completions = Completions(counts=True)
    with engine_at(completions) as engine:
        completions.edit = lambda raw: raw["usage"].update(prompt_tokens_details={"cached_tokens": 2})
        assert "yet 2 tokens came from it" in str(asked(engine, "one two three").report.problem)


def test_states_that_take_turns_are_a_problem() -> None:
    with engine_at(Completions()) as engine:
        first, second = engine.open_state(), engine.open_state()
        asked(engine, "one", first)
        assert asked(engine, "two", second).report.problem is None
        assert "another state was served in between" in str(asked(engine, "one two", first).report.problem)
        assert asked(engine, "one two three", first).report.problem is None


def test_a_prompt_that_the_server_cuts_is_a_problem() -> None:
    completions = Completions()
    with engine_at(completions) as engine:
        state = engine.open_state()
        asked(engine, "one two three four", state)
        completions.edit = lambda raw: raw["usage"].update(prompt_tokens=3)
        assert "it was cut" in str(asked(engine, "one two three four five", state).report.problem)


def test_a_server_that_restarts_with_another_model_is_a_problem() -> None:
    completions = Completions()
    completions.headers = {"Connection": "close"}
    with engine_at(completions) as engine:
        state = engine.open_state()
        assert asked(engine, "one", state).report.problem is None
        completions.models = [{"id": "other"}]
        assert "another model: made -> 'other'" in str(asked(engine, "one two", state).report.problem)


def test_entries_that_do_not_rebuild_an_answer_leave_words_without_logprobs_and_the_raw_answer() -> None:
    completions = Completions()
    with engine_at(completions) as engine:
        completions.edit = other_text
        answered = asked(engine, "one two")
        assert [step.piece for step in answered.steps] == [b"something", b" else"]
        assert all(step.logprob is None and step.rivals == () for step in answered.steps)
        assert "do not rebuild" in str(answered.report.note)
        assert "token_logprobs" in str(answered.report.raw_response)


def test_a_stored_answer_leaves_out_what_its_steps_hold() -> None:
    with engine_at(Completions()) as engine:
        report = asked(engine, "one two").report
        assert "logprobs" not in json.loads(str(report.raw_response))["choices"][0]
        assert json.loads(str(report.raw_request))["prompt"] == "one two"


@pytest.mark.parametrize(
    "error",
    [
        {"message": "This model's maximum context length is 1024 tokens, however you requested 1617 tokens"},
        {"message": "too long", "code": "context_length_exceeded"},
        {"message": "the request is too large", "type": "exceed_context_size_error"},
    ],
)
def test_a_prompt_that_does_not_fit_is_an_overflow(error: Mapping[str, str]) -> None:
    completions = Completions()
    with engine_at(completions) as engine:
        completions.serve = answer({"error": error}, "400 Bad Request")
        with pytest.raises(ContextOverflow, match="does not fit"):
            asked(engine, "one two")


def test_other_refusals_stay_refusals_and_the_engine_goes_on() -> None:
    completions = Completions()
    with engine_at(completions) as engine:
        state = engine.open_state()
        completions.serve = answer({"error": "busy"}, "503 Service Unavailable")
        with pytest.raises(ServerRefused, match="busy"):
            asked(engine, "one two", state)
        completions.serve = None
        assert len(asked(engine, "one two", state).steps) == 4


def test_a_stop_ends_an_answer_as_cancelled_and_the_next_request_follows_a_sentinel_again() -> None:
    completions = Completions()
    with engine_at(completions) as engine:
        state = engine.open_state()
        asked(engine, "one two", state)
        completions.serve = hang()
        stop = threading.Event()
        threading.Timer(0.2, stop.set).start()
        items = list(state.generate(GenerateRequest(as_ids(engine.tokenize("one two", special=True)), 4), stop))
        assert not any(isinstance(item, Step) for item in items)
        assert isinstance(items[-1], RequestReport) and items[-1].finish_reason == "cancelled"
        completions.serve = None
        completions.asked.clear()
        assert len(asked(engine, "one two three", state).steps) == 4
        assert [body["prompt"] in SENTINELS for body in completions.asked] == [True, False]


def test_a_server_that_dies_during_an_answer_is_an_engine_that_died() -> None:
    completions = Completions()
    with engine_at(completions) as engine:
        completions.serve = reset(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{")
        with pytest.raises(EngineDied, match="broke while the answer came"):
            asked(engine, "one two")


def test_what_the_protocol_has_not_is_refused_in_sentences() -> None:
    with engine_at(Completions()) as engine:
        state = engine.open_state()
        for refused in (
            state.snapshot,
            lambda: state.rebuild(as_ids([1]), [Span(0, 1, "decode", "made r1")]),
            lambda: engine.restore(Snapshot(as_ids([1]), b"")),
            lambda: asked(engine, "", state),
            lambda: ask(state, [12345]),
        ):
            with pytest.raises(EngineError):
                refused()
