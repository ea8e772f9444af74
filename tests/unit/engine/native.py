"""llama.cpp in the test's own process, where a test must reach behind the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from app.engine.base import GenerateRequest
from app.engine.embedded.llama_model import LlamaModel
from app.engine.embedded.llama_state import LlamaState
from app.engine.settings import EmbeddedSettings
from app.trajectory.step import as_ids
from app.trajectory.trajectory import RequestReport

SETTINGS = EmbeddedSettings(n_ctx=512, threads=1)


@contextmanager
def native_state(path: Path, settings: EmbeddedSettings = SETTINGS) -> Iterator[LlamaState]:
    model = LlamaModel(path, settings)
    state = LlamaState(model)
    yield state
    state.close()
    model.close()


def answer(state: LlamaState, ids: list[int], max_tokens: int = 4) -> tuple[list[tuple[int, float]], RequestReport]:
    """The answer's (id, logprob) pairs and its report."""
    items = list(state.generate(GenerateRequest(as_ids(ids), max_tokens), lambda: False))
    assert isinstance(items[-1], RequestReport)
    return [(item[0], item[1]) for item in items if isinstance(item, tuple)], items[-1]


def logits(state: LlamaState) -> NDArray[np.float32]:
    count = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(llama_cpp.llama_get_model(state.context)))
    return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(state.context, -1), (count,)).copy()


def first_logits_of_the_state(
    path: Path, ids: list[int], n_batch: int, n_ubatch: int
) -> tuple[NDArray[np.float32], tuple[int, ...]]:
    with native_state(path, replace(SETTINGS, n_batch=n_batch, n_ubatch=n_ubatch)) as state:
        _, report = answer(state, ids, max_tokens=1)
        return logits(state), tuple(report.chunks)


def first_logits_of_one_call(path: Path, ids: list[int], n_batch: int, n_ubatch: int) -> NDArray[np.float32]:
    with native_state(path, replace(SETTINGS, n_batch=n_batch, n_ubatch=n_ubatch)) as state:
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        assert llama_cpp.llama_decode(state.context, llama_cpp.llama_batch_get_one(tokens, len(ids))) == 0
        return logits(state)
