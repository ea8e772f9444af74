"""The OpenAI-compatible engine against a llama-server, whose completions tell ids, bytes and cached counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.engine.detect import connect
from app.engine.llama_server.engine import LlamaServerEngine
from app.engine.llama_server.managed import ManagedServer
from app.engine.openai.engine import OpenAIEngine
from app.engine.server_settings import ServerSettings
from tests.unit.engine.conversation import ask, converse

pytestmark = pytest.mark.model

FOXES = "Repeat: 🦊🦊🦊🦊 🦊🦊🦊"


@pytest.fixture(scope="module")
def real(llama_server: ManagedServer) -> Iterator[OpenAIEngine]:
    engine = connect(f"openai+{llama_server.url}/v1", ServerSettings())
    assert isinstance(engine, OpenAIEngine)
    yield engine
    engine.close()


def test_a_llama_server_is_known_for_what_it_is_unless_another_kind_is_forced(llama_server: ManagedServer) -> None:
    engine = connect(llama_server.url, ServerSettings())
    assert isinstance(engine, LlamaServerEngine)
    engine.close()


def test_its_ids_bytes_and_counts_are_used(real: OpenAIEngine) -> None:
    info = real.describe()
    n_vocab = info.model["n_vocab"]
    assert (info.level, info.capabilities.cached_counts, info.capabilities.rivals) == ("ids", True, True)
    answers = converse(real, real.open_state(), 10)
    assert isinstance(n_vocab, int) and all(token_id < n_vocab for answer in answers for token_id in answer.ids)
    counts = [answer.report.cached_tokens for answer in answers]
    assert None not in counts and counts[1] and counts[2]
    assert all(answer.report.note is None for answer in answers)


def test_a_sentinel_keeps_the_next_request_from_the_cache_and_counts_prove_it(real: OpenAIEngine) -> None:
    assert real.describe().capabilities.recompute is True
    prompt = converse(real, real.open_state(), 10)[2].prompt
    report = ask(real.open_state(), prompt, 2).report
    assert (report.cached_tokens, report.problem) == (0, None)


def test_a_prompt_cache_in_host_memory_that_no_sentinel_empties_is_found_out(
    model_path: Path, start: Callable[..., ManagedServer]
) -> None:
    engine = connect(f"openai+{start(model_path).url}", ServerSettings())  # --cache-ram is on by default
    info = engine.describe()
    engine.close()
    assert (info.capabilities.recompute, info.recompute_by) == (False, "")


def test_tokens_that_it_folds_into_one_entry_have_no_logprob(real: OpenAIEngine) -> None:
    answered = ask(real.open_state(), real.tokenize(FOXES, special=True), 12)
    said = json.loads(str(answered.report.raw_response))["choices"][0]["text"]
    assert "🦊" in said
    assert b"".join(step.piece for step in answered.steps).decode("utf-8", errors="replace") == said
    folded = [step for step in answered.steps if step.piece == "🦊".encode()]
    assert folded and all(step.logprob is None and step.rivals == () for step in folded)
