"""A llama-server that runs elsewhere: what it proves, and what it cannot hide. Real processes throughout."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from app.engine.base import GenerateRequest, Sampling
from app.engine.embedded.engine import EmbeddedEngine
from app.engine.http.server import Server
from app.engine.llama_server.engine import LlamaServerEngine
from app.engine.llama_server.managed import ManagedServer
from app.engine.settings import EmbeddedSettings
from app.errors import EngineDied, EngineError
from app.trajectory.step import as_ids
from app.trajectory.trajectory import RequestReport
from tests.unit.engine.broken_server import BrokenServer, Received, answer
from tests.unit.engine.conversation import TURNS, Answer, ask, converse, first_prompt, next_prompt
from tests.unit.engine.llama_servers import REMOTE, remote
from tests.unit.engine.tiny_models import write_sliding_window_model

pytestmark = pytest.mark.model

Start = Callable[..., ManagedServer]

FOREIGN = {"prompt": "Somebody else asks something here.", "n_predict": 4, "id_slot": 0}


def _both_paths(engine: LlamaServerEngine | EmbeddedEngine) -> tuple[list[Answer], list[Answer]]:
    """The cached path's conversation, and each of its prompts again in a state of its own."""
    state = engine.open_state()
    cached = converse(engine, state)
    state.close()
    fresh = []
    for turn in cached:
        state = engine.open_state()
        fresh.append(ask(state, turn.prompt))
        state.close()
    return cached, fresh


def test_cached_counts_agree_with_the_embedded_engine_request_by_request(
    remote_engine: LlamaServerEngine, engine: EmbeddedEngine
) -> None:
    theirs, ours = _both_paths(remote_engine), _both_paths(engine)
    for name, server_path, embedded_path in zip(("cached", "recompute"), theirs, ours, strict=True):
        equal = total = 0
        for there, here in zip(server_path, embedded_path, strict=True):
            assert there.prompt == here.prompt
            assert there.report.cached_tokens == here.report.cached_tokens
            assert there.report.evaluated_tokens == here.report.evaluated_tokens
            assert there.report.problem is None and there.report.note is None
            equal += sum(a == b for a, b in zip(there.ids, here.ids, strict=False))
            total += max(len(there.ids), len(here.ids))
            for one, other in zip(there.steps, here.steps, strict=True):
                assert one.piece == other.piece
                assert one.logprob == pytest.approx(other.logprob, abs=2e-3)
        print(f"{name} path: {equal} of {total} ids agree")
        assert equal == total


def test_recompute_repeats_itself_bit_for_bit(remote_engine: LlamaServerEngine) -> None:
    answers = [ask(remote_engine.open_state(), first_prompt(remote_engine)) for _ in range(2)]
    assert answers[0].same_as(answers[1])


def test_other_traffic_in_the_slot_is_found_by_the_counts(model_path: Path, start: Start) -> None:
    server = start(model_path, cache_ram=0)  # else the server may load back what the other traffic displaced
    with remote(server) as engine, contextlib.closing(Server(server.url, REMOTE)) as stranger:
        state = engine.open_state()
        first = ask(state, first_prompt(engine), 6)
        stranger.post("/completion", FOREIGN)
        report = ask(state, next_prompt(engine, first, TURNS[1]), 6).report
        assert report.problem is not None
        held = len(first.prompt) + len(first.steps) - 1
        assert f"of the {held} tokens that it should hold: other traffic used it" in report.problem
        after = ask(engine.open_state(), first.prompt, 6)
        assert after.same_as(first) and after.report.problem is None


def test_a_slot_that_is_busy_with_somebody_else_is_waited_for_and_named(model_path: Path, start: Start) -> None:
    server = start(model_path, cache_ram=0)
    with (
        remote(server) as engine,
        contextlib.closing(Server(server.url, REMOTE)) as stranger,
        contextlib.closing(Server(server.url, REMOTE)) as watcher,
    ):
        state = engine.open_state()
        first = ask(state, first_prompt(engine), 6)
        busy = threading.Thread(target=stranger.post, args=("/completion", {**FOREIGN, "n_predict": 100}))
        busy.start()
        while not any(slot["is_processing"] for slot in watcher.get("/slots").json()):
            assert busy.is_alive()
        answer = ask(state, next_prompt(engine, first, TURNS[1]), 6)
        busy.join()
        assert len(answer.steps) == 6
        assert answer.report.problem is not None and "other traffic used it" in answer.report.problem


def test_a_request_that_the_server_lets_into_a_busy_slot_is_found_in_the_answer_that_it_spoils(
    model_path: Path, start: Start
) -> None:
    """With its prompt cache on, llama-server swaps the memory of a busy slot for a second request pinned to it."""
    server = start(model_path)
    with (
        remote(server) as engine,
        contextlib.closing(Server(server.url, REMOTE)) as stranger,
        contextlib.closing(Server(server.url, REMOTE)) as watcher,
    ):

        def intrude() -> None:
            while not any(slot["is_processing"] for slot in watcher.get("/slots").json()):
                pass
            stranger.post("/completion", FOREIGN)

        stranger.post("/completion", FOREIGN)  # its state is in the prompt cache when ours takes the slot
        intruder = threading.Thread(target=intrude)
        intruder.start()
        spoilt = ask(engine.open_state(), first_prompt(engine), 200).report
        intruder.join()
        assert spoilt.problem is not None and "another request was let into it meanwhile" in spoilt.problem
        assert ask(engine.open_state(), first_prompt(engine), 6).report.problem is None


def test_an_answer_that_is_under_way_for_somebody_else_is_not_spoilt_by_ours(model_path: Path, start: Start) -> None:
    server = start(model_path)
    with (
        remote(server) as engine,
        contextlib.closing(Server(server.url, REMOTE)) as stranger,
        contextlib.closing(Server(server.url, REMOTE)) as watcher,
    ):
        theirs = {**FOREIGN, "n_predict": 200, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        ask(engine.open_state(), first_prompt(engine), 6)
        alone = stranger.post("/completion", theirs).json()
        disturbed: list[dict[str, object]] = []
        work = threading.Thread(target=lambda: disturbed.append(stranger.post("/completion", theirs).json()))
        work.start()
        while not any(slot["is_processing"] for slot in watcher.get("/slots").json()):
            assert work.is_alive()
        ours = ask(engine.open_state(), first_prompt(engine), 6)
        work.join()
        assert disturbed[0]["content"] == alone["content"]
        assert disturbed[0]["tokens_cached"] == alone["tokens_cached"]
        assert ours.report.problem is None


def test_tokens_from_the_server_s_own_prompt_cache_are_noted(model_path: Path, start: Start) -> None:
    with remote(start(model_path, cache_ram=64)) as engine:
        state = engine.open_state()
        long = ask(state, first_prompt(engine), 40)
        other = engine.tokenize("Water boils at a hundred degrees. Ice melts at zero. " * 8, special=False)
        ask(state, other, 4)
        back = ask(state, next_prompt(engine, long, TURNS[1]), 4).report
        assert back.cached_tokens == len(long.prompt) + len(long.steps) - 1
        assert back.problem is None
        assert back.note is not None and "from its own prompt cache (--cache-ram)" in back.note


def test_without_a_prompt_cache_of_the_server_the_same_order_hits_nothing(model_path: Path, start: Start) -> None:
    with remote(start(model_path, cache_ram=0)) as engine:
        state = engine.open_state()
        long = ask(state, first_prompt(engine), 40)
        ask(state, engine.tokenize("Water boils at a hundred degrees. " * 8, special=False), 4)
        back = ask(state, next_prompt(engine, long, TURNS[1]), 4).report
        assert (back.cached_tokens, back.note, back.problem) == (0, None, None)


def test_what_a_server_was_started_without_is_found_at_connect(model_path: Path, start: Start) -> None:
    with remote(start(model_path, cache_prompt=False, slot_save=False)) as engine:
        info = engine.describe()
        assert (info.capabilities.caching, info.capabilities.snapshot, info.capabilities.reset) == (False, False, False)
        assert info.capabilities.cached_counts and info.capabilities.recompute
        assert [gap.field for gap in info.gaps] == ["POST /slots/0"]
        with pytest.raises(EngineError, match="does not let its cache be saved"):
            engine.open_state().snapshot()


def test_a_default_server_lacks_nothing(remote_engine: LlamaServerEngine) -> None:
    info = remote_engine.describe()
    assert info.gaps == ()
    assert info.name == "llama-server" and info.states_at_once == 1 and info.level == "ids"
    assert info.capabilities.caching and info.capabilities.slots and info.capabilities.rivals
    assert info.capabilities.reset is False  # somebody else's server: only with --allow-reset
    assert info.recompute_by


def test_end_tokens_are_the_embedded_engine_s(remote_engine: LlamaServerEngine, engine: EmbeddedEngine) -> None:
    assert remote_engine.describe().eog_ids == engine.describe().eog_ids


def test_a_slot_is_erased_only_where_that_is_allowed(llama_server: ManagedServer) -> None:
    with remote(llama_server, replace(REMOTE, allow_reset=True)) as engine:
        assert engine.describe().capabilities.reset
        state = engine.open_state()
        prompt = first_prompt(engine)
        ask(state, prompt, 3)
        engine.begin_pass()
        report = ask(state, prompt, 3).report
        assert report.cached_tokens == 0
        assert report.problem is not None and "kept 0 of the" in report.problem


def test_a_remote_snapshot_that_a_later_one_replaced_is_refused(remote_engine: LlamaServerEngine) -> None:
    state = remote_engine.open_state()
    first = ask(state, first_prompt(remote_engine), 6)
    early = state.snapshot()
    ask(state, next_prompt(remote_engine, first, TURNS[1]), 6)
    late = state.snapshot()
    assert early.data == late.data  # the file's name on the server
    with pytest.raises(EngineError, match=f"restored {len(late.ids)} tokens instead of {len(early.ids)}"):
        remote_engine.restore(early)
    for wrong in ("../forkpoint-0123456789abcdef.bin", "forkpoint-0123456789abcdef.bin"):
        with pytest.raises(EngineError):
            remote_engine.restore(replace(late, meta={**late.meta, "filename": wrong}))
    with pytest.raises(EngineError, match="another model or build"):
        remote_engine.restore(replace(late, meta={**late.meta, "build": "b0"}))


def test_a_seed_repeats_and_a_token_outside_the_rivals_has_its_logprob(remote_engine: LlamaServerEngine) -> None:
    hot = Sampling(temperature=1.5, top_k=200, top_p=1.0, seed=7)
    prompt = first_prompt(remote_engine)
    one, same = (ask(remote_engine.open_state(), prompt, 30, hot) for _ in range(2))
    assert one.same_as(same)
    outside = [s for s in one.steps if s.token_id not in [r.token_id for r in s.rivals]]
    assert outside
    assert all(s.logprob is not None and s.logprob <= s.rivals[-1].logprob and s.piece for s in outside)


def test_steps_inside_a_character_have_their_bytes_but_no_logprob(tmp_path: Path, start: Start) -> None:
    """The random model speaks half characters; the embedded engine has the bytes and logprobs of all of them."""
    model = write_sliding_window_model(tmp_path / "tiny.gguf")
    prompts = [[(index * 7 + first) % 250 + 3 for index in range(60)] for first in range(40)]
    embedded = EmbeddedEngine(model, EmbeddedSettings(threads=1, n_ctx=256))
    answers = (ask(embedded.open_state(), prompt, 60) for prompt in prompts)
    expected = next(answer for answer in answers if any(b"\xc2" <= step.piece <= b"\xf4" for step in answer.steps))
    embedded.close()
    with remote(start(model, ctx_size=256)) as engine:
        answer = ask(engine.open_state(), expected.prompt, 60)
    assert answer.ids == expected.ids
    assert [step.piece for step in answer.steps] == [step.piece for step in expected.steps]
    known = [(a, b) for a, b in zip(answer.steps, expected.steps, strict=True) if a.logprob is not None]
    assert 0 < len(known) < len(answer.steps)
    for there, here in known:
        assert there.logprob == pytest.approx(here.logprob, abs=1e-3)
        assert [rival.piece for rival in there.rivals] == [rival.piece for rival in here.rivals]
    assert all(step.rivals == () for step in answer.steps if step.logprob is None)
    assert answer.report.note == f"{60 - len(known)} of 60 steps came without logprobs."


def test_a_server_killed_before_during_and_after_an_answer_is_an_event(model_path: Path, start: Start) -> None:
    server = start(model_path)
    with remote(server) as engine:
        state = engine.open_state()
        prompt = first_prompt(engine)
        ask(state, prompt, 3)
        threading.Timer(0.5, os.kill, (server.pid, signal.SIGKILL)).start()
        begin = time.monotonic()
        with pytest.raises(EngineDied):
            ask(state, prompt, 900)
        assert time.monotonic() - begin < 2
        for _ in range(2):
            with pytest.raises(EngineDied, match=r"Nothing listens|broke before an answer came"):
                ask(engine.open_state(), prompt, 3)
        with pytest.raises(EngineDied):
            remote(server).__enter__()


def test_a_restart_with_the_same_model_is_seen_by_the_counts_and_a_new_state_goes_on(
    model_path: Path, start: Start
) -> None:
    server = start(model_path)
    with remote(server) as engine:
        state = engine.open_state()
        first = ask(state, first_prompt(engine), 6)
        server.close()
        start(model_path, port=int(server.url.rpartition(":")[2]))
        report = ask(state, next_prompt(engine, first, TURNS[1]), 6).report
        assert report.problem is not None and "the server restarted" in report.problem
        assert ask(engine.open_state(), first.prompt, 6).same_as(first)


def test_a_restart_with_another_model_makes_the_request_a_problem_that_names_both(
    model_path: Path, tmp_path: Path, start: Start
) -> None:
    server = start(model_path)
    with remote(server) as engine:
        first = ask(engine.open_state(), first_prompt(engine), 6)
        assert first.report.problem is None
        server.close()
        start(write_sliding_window_model(tmp_path / "other.gguf"), port=int(server.url.rpartition(":")[2]))
        report = ask(engine.open_state(), list(range(3, 30)), 3).report
        assert report.problem is not None
        assert "restarted with another model" in report.problem
        assert f"{model_path.name} -> other.gguf" in report.problem


def test_another_model_behind_a_gateway_that_keeps_the_connection_is_a_problem(
    model_path: Path, tmp_path: Path, start: Start
) -> None:
    backend = start(model_path)

    def gateway(connection: socket.socket, request: Received) -> None:
        passed = httpx.request(
            request.method, backend.url + request.target, content=request.body, timeout=60, trust_env=False
        )
        answer(passed.content, f"{passed.status_code} {passed.reason_phrase}")(connection, request)

    with BrokenServer(gateway) as front:
        engine = LlamaServerEngine(Server(front.url, REMOTE), REMOTE)
        first = ask(engine.open_state(), first_prompt(engine), 6)
        backend = start(write_sliding_window_model(tmp_path / "other.gguf"))
        later = [ask(engine.open_state(), list(range(3, 30)), 3).report.problem for _ in range(2)]
        engine.close()
    assert first.report.problem is None
    for problem in later:  # each of them, not only the one that met the change
        assert problem is not None and f"{model_path.name} -> other.gguf" in problem


def test_a_stop_reaches_the_server_which_is_free_at_once(remote_engine: LlamaServerEngine) -> None:
    state, stop = remote_engine.open_state(), threading.Event()
    prompt = first_prompt(remote_engine)
    threading.Timer(0.4, stop.set).start()
    *_, report = state.generate(GenerateRequest(as_ids(prompt), 900), stop)
    assert isinstance(report, RequestReport) and report.finish_reason == "cancelled"
    begin = time.monotonic()
    with pytest.raises(EngineError, match="after a stop is not known"):
        state.snapshot()
    again = ask(state, prompt, 3)
    assert time.monotonic() - begin < 2  # not behind the 900 tokens that nobody waits for
    assert (again.report.cached_tokens, again.report.held_before, again.report.problem) == (0, None, None)


def test_raw_bodies_are_kept_without_what_the_steps_hold(remote_engine: LlamaServerEngine) -> None:
    report = ask(remote_engine.open_state(), first_prompt(remote_engine), 4).report
    assert report.raw_request is not None and '"cache_prompt":false' in report.raw_request
    assert '"prompt"' not in report.raw_request
    assert report.raw_response is not None and '"timings"' in report.raw_response
    for left_out in ('"tokens"', '"completion_probabilities"', '"model"'):
        assert left_out not in report.raw_response
    assert report.slot == 0 and report.prefill_ms and report.decode_ms
