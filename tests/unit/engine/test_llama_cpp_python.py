"""The OpenAI-compatible engine against llama-cpp-python's own server, a real process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.http.server import Server
from app.engine.openai.engine import OpenAIEngine
from app.engine.server_settings import ServerSettings
from app.errors import ContextOverflow, EngineDied
from tests.unit.engine.conversation import ask, converse, first_prompt
from tests.unit.engine.real_servers import N_CTX, llama_cpp_python, llama_cpp_python_server

__all__ = ["llama_cpp_python_server"]

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def real(llama_cpp_python_server: str) -> Iterator[OpenAIEngine]:
    server = Server(llama_cpp_python_server, ServerSettings())
    yield OpenAIEngine(server, ServerSettings())
    server.close()


def test_it_tells_texts_and_rivals_but_no_ids_and_no_counts(real: OpenAIEngine) -> None:
    info = real.describe()
    assert info.level == "text"
    assert "llama.cpp" in str(info.build["title"])
    assert info.model["architecture"] == "llama" and info.model["chat_template"]
    assert (info.capabilities.rivals, info.capabilities.cached_counts, info.capabilities.recompute) == (
        True,
        False,
        None,
    )
    assert {gap.field for gap in info.gaps} == {
        "usage.prompt_tokens_details.cached_tokens",
        "prompt",
        "choices[0].token_ids",
    }


def test_it_answers_in_steps_with_rivals(real: OpenAIEngine) -> None:
    answered = ask(real.open_state(), first_prompt(real), 12)
    assert (len(answered.steps), answered.report.finish_reason, answered.report.note) == (12, "length", None)
    for step in answered.steps:
        assert len(step.rivals) == 5
        assert step.rivals[0].token_id == step.token_id and step.rivals[0].logprob == step.logprob
        assert step.margin is not None and step.margin >= 0


def test_it_repeats_a_conversation_exactly_from_fresh_states(real: OpenAIEngine) -> None:
    prompts = [answered.prompt for answered in converse(real, real.open_state(), 10)]
    first, second = ([ask(real.open_state(), prompt, 10) for prompt in prompts] for _ in range(2))
    assert all(a.same_as(b) for a, b in zip(first, second, strict=True))


def test_it_pieces_rebuild_answers_beyond_ascii(real: OpenAIEngine) -> None:
    answered = ask(real.open_state(), real.tokenize("Repeat: 🦊🦊🦊🦊 🦊🦊🦊", special=True), 12)
    said = json.loads(str(answered.report.raw_response))["choices"][0]["text"]
    assert b"".join(step.piece for step in answered.steps).decode() == said
    assert not said.isascii()


def test_it_says_when_a_prompt_does_not_fit(real: OpenAIEngine) -> None:
    with pytest.raises(ContextOverflow, match=f"maximum context length is {N_CTX}"):
        ask(real.open_state(), real.tokenize("hello world " * N_CTX, special=True))
    assert len(ask(real.open_state(), first_prompt(real), 2).steps) == 2


def test_without_logits_all_gives_words(model_path: Path, tmp_path: Path) -> None:
    with llama_cpp_python(model_path, tmp_path / "log.txt", "--logits_all", "false") as url:
        server = Server(url, ServerSettings())
        engine = OpenAIEngine(server, ServerSettings())
        assert any("logits_all=False" in gap.found for gap in engine.describe().gaps)
        answered = ask(engine.open_state(), first_prompt(engine), 5)
        server.close()
    assert answered.steps and all(step.logprob is None for step in answered.steps)


def test_a_real_server_that_is_killed_is_an_engine_that_died(model_path: Path, tmp_path: Path) -> None:
    with llama_cpp_python(model_path, tmp_path / "log.txt") as url:
        server = Server(url, ServerSettings())
        engine = OpenAIEngine(server, ServerSettings())
        state = engine.open_state()
        ask(state, first_prompt(engine), 2)
    with pytest.raises(EngineDied, match="Nothing listens"):
        ask(state, first_prompt(engine), 2)
    server.close()
