"""The vLLM engine against a server in memory: what it asks, what it makes of answers, and what it notices."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.engine.base import GenerateRequest, Sampling
from app.engine.http.server import Server
from app.engine.server_settings import ServerSettings
from app.engine.token_pieces import bytes_of_spelling
from app.engine.vllm.engine import VllmEngine
from app.engine.vllm.metrics import read_metrics
from app.errors import ContextOverflow, EngineError, SettingsError
from app.trajectory.step import Step, as_ids
from app.trajectory.trajectory import RequestReport
from tests.unit.engine.block_servers import SAID, FakeVllm, prompt_of
from tests.unit.engine.conversation import ask

PLAIN = ServerSettings()
Engines = Callable[..., VllmEngine]


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Engines:
    def opened(fake: FakeVllm, settings: ServerSettings = PLAIN, control: FakeVllm | None = None) -> VllmEngine:
        second = None if control is None else Server("http://control", settings, transport=control.transport)
        engine = VllmEngine(Server("http://vllm", settings, transport=fake.transport), settings, control=second)
        request.addfinalizer(engine.close)
        return engine

    return opened


def fields(engine: VllmEngine) -> list[str]:
    return [gap.field for gap in engine.describe().gaps]


def test_what_the_server_tells_and_the_probe_finds_is_described(connect: Engines) -> None:
    info = connect(FakeVllm()).describe()
    assert (info.name, info.n_ctx, info.level, info.eog_ids) == ("vllm", 400, "ids", frozenset({257}))
    assert (info.model["name"], info.model["n_vocab"], info.model["eos_token"]) == ("tiny (tiny-1)", 258, "<|im_end|>")
    assert (info.build["version"], info.settings["block_size"]) == ("0.32.0", "16")
    assert [gap.field for gap in info.gaps] == ["chat_template"]
    assert json.loads(json.dumps(dict(info.settings))) == dict(info.settings)


def test_steps_have_the_bytes_of_tokens_that_are_no_whole_character(connect: Engines) -> None:
    answer = ask(connect(FakeVllm()).open_state(), prompt_of(20))
    assert [step.piece for step in answer.steps] == [*(bytes([byte]) for byte in SAID.encode()), b"<|im_end|>"]
    assert all(len(step.rivals) == 5 and step.rivals[0].token_id == step.token_id for step in answer.steps)
    assert (answer.report.finish_reason, answer.report.note, answer.report.problem) == ("stop", None, None)


def test_tokens_become_bytes_in_one_request_and_once_only(connect: Engines) -> None:
    fake = FakeVllm()
    state = connect(fake).open_state()
    before = len(fake.bodies("/detokenize"))
    for _ in range(3):
        ask(state, prompt_of(20))
    assert len(fake.bodies("/detokenize")) == before + 1


def test_a_server_that_spells_nothing_shows_the_gap_and_keeps_its_own_signs(connect: Engines) -> None:
    fake = FakeVllm()
    spell = fake.routes["/tokenize"]

    def speechless(body: Any) -> Any:
        return spell({**body, "return_token_strs": False})

    fake.routes["/tokenize"] = speechless
    engine = connect(fake)
    answer = ask(engine.open_state(), prompt_of(20))
    assert "token_strs" in fields(engine) and engine.describe().capabilities.piece_bytes is False
    assert "\ufffd".encode() in {step.piece for step in answer.steps}
    assert answer.report.note == "The tokens' bytes do not rebuild the server's text."


def test_every_state_has_a_salt_of_its_own_for_its_life_and_it_is_recorded(connect: Engines) -> None:
    fake = FakeVllm()
    engine = connect(fake)
    asked = len(fake.bodies("/v1/completions"))
    one, other = engine.open_state(), engine.open_state()
    reports = [ask(state, prompt_of(20)).report for state in (one, one, other)]
    engine.begin_pass()
    ask(engine.open_state(), prompt_of(20))
    salts = [body["cache_salt"] for body in fake.bodies("/v1/completions")[asked:]]
    assert salts[0] == salts[1] and len(set(salts)) == 3
    assert [json.loads(report.raw_request or "")["cache_salt"] for report in reports] == salts[:3]
    assert [report.cached_tokens for report in reports] == [0, 16, 0]
    assert "prompt" not in json.loads(reports[0].raw_request or "")
    assert "logprobs" not in json.loads(reports[0].raw_response or "")["choices"][0]


def test_every_setting_that_the_model_could_bring_its_own_of_is_said(connect: Engines) -> None:
    fake = FakeVllm()
    state = connect(fake).open_state()
    ask(state, prompt_of(20))
    ask(state, prompt_of(20), sampling=Sampling(0.7, top_k=3, top_p=0.5, seed=9))
    greedy, random = fake.bodies("/v1/completions")[-2:]
    assert (greedy["temperature"], greedy["top_p"], greedy["top_k"], greedy["repetition_penalty"]) == (0.0, 1.0, 0, 1.0)
    assert (random["temperature"], random["top_p"], random["top_k"], random["seed"]) == (0.7, 0.5, 3, 9)


def test_without_counts_in_the_answers_the_metrics_are_read(connect: Engines) -> None:
    engine = connect(FakeVllm(counts=False))
    state = engine.open_state()
    reports = [ask(state, prompt_of(40)).report for _ in range(2)]
    assert [report.cached_tokens for report in reports] == [0, 32]
    assert reports[1].note == "Cached tokens are counted by /metrics."
    assert engine.describe().capabilities.recompute is True


def test_counters_that_others_moved_prove_nothing(connect: Engines) -> None:
    fake = FakeVllm(counts=False)
    state = connect(fake).open_state()

    def others_ask(_answer: dict[str, Any]) -> None:
        fake.queries += 7

    fake.broken = others_ask
    report = ask(state, prompt_of(40)).report
    assert report.cached_tokens is None and report.evaluated_tokens is None
    assert report.note is not None and "not known" in report.note


def test_where_nothing_counts_a_count_is_not_reported_rather_than_zero(connect: Engines) -> None:
    engine = connect(FakeVllm(counts=False, metrics=False))
    info = engine.describe()
    assert ask(engine.open_state(), prompt_of(40)).report.cached_tokens is None
    assert (info.capabilities.cached_counts, info.capabilities.recompute) == (False, None)
    assert "unproven" in info.recompute_by
    assert "usage.prompt_tokens_details.cached_tokens" in fields(engine)


def test_a_server_that_keeps_no_prefixes_has_no_cached_path(connect: Engines) -> None:
    engine = connect(FakeVllm(caching=False))
    assert engine.describe().recompute_by == "the server itself: it keeps no prefixes"
    assert "a cached path" in engine.describe().gaps[0].impossible


def test_a_server_that_ignores_salts_is_reset_where_that_is_allowed(connect: Engines) -> None:
    fake = FakeVllm(salts=False, dev=True)
    engine = connect(fake, ServerSettings(allow_reset=True))
    assert engine.describe().recompute_by.startswith("POST /reset_prefix_cache")
    assert engine.describe().states_at_once == 1
    resets = len(fake.bodies("/reset_prefix_cache"))
    state = engine.open_state()
    assert [ask(state, prompt_of(40)).report.cached_tokens for _ in range(2)] == [0, 32]
    assert ask(engine.open_state(), prompt_of(40)).report.cached_tokens == 0
    assert len(fake.bodies("/reset_prefix_cache")) == resets + 2


def test_a_reset_that_the_server_refuses_is_an_error_with_the_reason(connect: Engines) -> None:
    fake = FakeVllm(salts=False, dev=True)
    state = connect(fake, ServerSettings(allow_reset=True)).open_state()
    fake.is_busy = True
    with pytest.raises(EngineError, match="did not reset its prefix cache"):
        ask(state, prompt_of(40))


def test_else_a_second_server_without_caching_answers_a_states_first_request(connect: Engines) -> None:
    fake, control = FakeVllm(salts=False), FakeVllm(caching=False)
    engine = connect(fake, control=control)
    assert engine.describe().recompute_by.startswith("a second server without prefix caching, http://control")
    asked = len(control.bodies("/v1/completions"))
    state = engine.open_state()
    reports = [ask(state, prompt_of(40)).report for _ in range(2)]
    assert len(control.bodies("/v1/completions")) == asked + 1
    assert [(report.cached_tokens, report.problem) for report in reports] == [(0, None), (0, None)]


def test_a_second_server_that_caches_is_no_control(connect: Engines) -> None:
    engine = connect(FakeVllm(salts=False), control=FakeVllm(salts=False))
    assert engine.describe().recompute_by == ""


def test_where_no_way_is_left_a_recompute_is_impossible_and_nothing_was_reset(connect: Engines) -> None:
    fake = FakeVllm(salts=False, dev=True)
    engine = connect(fake)
    info = engine.describe()
    assert (info.recompute_by, info.capabilities.recompute, info.capabilities.salt) == ("", False, False)
    assert not fake.bodies("/reset_prefix_cache")
    assert any("--allow-reset" in gap.impossible for gap in info.gaps)


def test_hits_that_no_request_of_the_state_explains_are_a_problem(connect: Engines) -> None:
    fake = FakeVllm()
    state = connect(fake).open_state()
    fake.broken = lambda answer: answer["usage"]["prompt_tokens_details"].update(cached_tokens=16)
    problem = ask(state, prompt_of(40)).report.problem
    assert problem is not None and "16 prompt tokens came from the cache, which can have held 0" in problem


def test_blocks_that_were_evicted_are_noted(connect: Engines) -> None:
    fake = FakeVllm()
    state = connect(fake).open_state()
    ask(state, prompt_of(40))
    fake.blocks.known.clear()
    report = ask(state, prompt_of(40)).report
    assert report.problem is None
    assert report.note == "The cache gave 0 tokens of 32 that it had held: blocks were evicted."


def test_a_restart_or_another_model_at_a_new_connection_is_a_problem_from_then_on(connect: Engines) -> None:
    fake = FakeVllm()
    engine = connect(fake)
    state = engine.open_state()
    assert ask(state, prompt_of(20)).report.problem is None
    fake.started += 60
    engine._connections -= 1  # a transport in memory makes none of its own
    problems = [ask(state, prompt_of(20)).report.problem for _ in range(2)]
    assert problems == ["the server was restarted: what its cache held is gone."] * 2


def test_other_ids_than_were_sent_or_counted_are_problems(connect: Engines) -> None:
    fake = FakeVllm()
    state = connect(fake).open_state()

    def garble(answer: dict[str, Any]) -> None:
        answer["choices"][0]["prompt_token_ids"] = [1, 2]
        answer["usage"].update(prompt_tokens=2, completion_tokens=1)

    fake.broken = garble
    problem = ask(state, prompt_of(20)).report.problem or ""
    assert "other ids went in" in problem and "counted 2 prompt tokens" in problem and "counted 1 answer" in problem


def test_entries_of_other_positions_give_no_margin_and_nothing_shifts(connect: Engines) -> None:
    fake = FakeVllm()
    state = connect(fake).open_state()
    fake.broken = lambda answer: [column.pop(2) for column in answer["choices"][0]["logprobs"].values()]
    steps = ask(state, prompt_of(20)).steps
    assert [step.margin is None for step in steps[:2]] == [False, False]
    assert all(step.logprob is None and not step.rivals for step in steps[2:])


def test_what_the_answers_lack_at_connect_is_named_with_what_it_makes_impossible(connect: Engines) -> None:
    fake = FakeVllm()
    fake.broken = lambda answer: answer["choices"][0].pop("logprobs")
    engine = connect(fake)
    assert "logprobs.tokens" in fields(engine) and engine.describe().capabilities.rivals is False
    fake.broken = lambda answer: answer["choices"][0].pop("token_ids")
    with pytest.raises(EngineError, match="does not return the ids"):
        connect(fake)


def test_no_more_is_asked_for_than_the_context_holds(connect: Engines) -> None:
    fake = FakeVllm()
    state = connect(fake).open_state()
    assert len(ask(state, prompt_of(397), 100).steps) == 3
    with pytest.raises(ContextOverflow, match="400"):
        ask(state, prompt_of(400))
    with pytest.raises(EngineError, match="The prompt is empty"):
        ask(state, [])


def test_a_stop_between_the_steps_ends_with_cancelled(connect: Engines) -> None:
    stop = threading.Event()
    taken = 0
    for item in connect(FakeVllm()).open_state().generate(GenerateRequest(as_ids(prompt_of(20)), 9), stop):
        taken += isinstance(item, Step)
        if taken == 2:
            stop.set()
    assert isinstance(item, RequestReport)
    assert (taken, item.finish_reason) == (2, "cancelled")


def test_a_model_that_is_not_served_or_not_named_is_a_setting_to_mend(connect: Engines) -> None:
    fake = FakeVllm()
    with pytest.raises(SettingsError, match="no model 'huge'"):
        connect(fake, ServerSettings(model="huge"))
    listed = [{"id": name, "max_model_len": 400} for name in ("tiny", "huge")]
    fake.routes["/v1/models"] = lambda _: httpx.Response(200, json={"data": listed})
    with pytest.raises(SettingsError, match="more than one model"):
        connect(fake)


def test_the_template_comes_from_its_file(connect: Engines, tmp_path: Path) -> None:
    file = tmp_path / "chat_template.jinja"
    with pytest.raises(SettingsError, match="cannot be read"):
        connect(FakeVllm(), ServerSettings(template=file))
    file.write_text("{{ messages }}")
    engine = connect(FakeVllm(), ServerSettings(template=file))
    assert engine.describe().model["chat_template"] == "{{ messages }}" and not engine.describe().gaps


def test_control_tokens_are_parsed_only_where_asked_for(connect: Engines) -> None:
    engine = connect(FakeVllm())
    assert engine.tokenize("a<|im_end|>b", special=True) == [97, 257, 98]
    assert engine.tokenize("a<|im_end|>b", special=False) == list(b"a<|im_end|>b")
    assert engine.tokenize("", special=True) == []


def test_states_cannot_be_saved_restored_or_rebuilt(connect: Engines) -> None:
    engine = connect(FakeVllm())
    state = engine.open_state()
    with pytest.raises(EngineError, match="cannot be saved"):
        state.snapshot()
    with pytest.raises(EngineError, match="cannot be filled"):
        state.rebuild(as_ids([]), [])


@pytest.mark.parametrize(
    ("spelling", "text", "piece"),
    [
        ("ðŁĺ", "\ufffd", b"\xf0\x9f\x98"),
        ("Ġâ", " \ufffd", b" \xe2"),
        ("<0xE2>", "\ufffd", b"\xe2"),
        ("<0xE2>", "other", None),
        ("▁word", " word", None),
        ("", "\ufffd", None),
    ],
)
def test_a_spelling_gives_bytes_only_where_they_are_what_the_server_shows(
    spelling: str, text: str, piece: bytes | None
) -> None:
    assert bytes_of_spelling(spelling, text) == piece


def test_metrics_are_summed_over_engines_and_other_models_left_out() -> None:
    text = (
        'vllm:prefix_cache_queries_total{engine="0",model_name="a"} 10.0\n'
        'vllm:prefix_cache_queries_total{engine="1",model_name="a"} 5.0\n'
        'vllm:prefix_cache_queries_total{engine="0",model_name="b"} 1e3\n'
        'vllm:prefix_cache_hits_total{engine="0",model_name="a"} 2.0\n'
    )
    counters = read_metrics(text, "a")
    assert (counters.queries, counters.hits, counters.block_size, counters.caching) == (15, 2, 1, None)
