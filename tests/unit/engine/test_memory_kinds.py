"""Memories that cannot always go back: a sliding window, and a recurrent state. Tiny models, real llama.cpp."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from app.engine.embedded.llama_state import LlamaState
from app.engine.settings import EmbeddedSettings
from app.errors import EngineError
from app.trajectory.step import as_ids
from app.trajectory.trajectory import Span
from tests.unit.engine.native import answer, logits, native_state
from tests.unit.engine.tiny_models import write_recurrent_model, write_sliding_window_model

pytestmark = pytest.mark.model

WINDOWED = EmbeddedSettings(n_ctx=1024, n_ubatch=64, threads=1, swa_full=False)
LONG = [(index * 7) % 250 + 3 for index in range(500)]
REWOUND = [*LONG[:200], 5, 6, 7]


@pytest.fixture(scope="module")
def sliding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sliding_window_model(tmp_path_factory.mktemp("models") / "sliding.gguf")


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recurrent_model(tmp_path_factory.mktemp("models") / "recurrent.gguf")


def fresh_answer(path: Path, ids: list[int], settings: EmbeddedSettings = WINDOWED) -> list[tuple[int, float]]:
    with native_state(path, settings) as state:
        return answer(state, ids)[0]


def test_a_window_rewound_beyond_its_start_is_evaluated_in_full_and_says_so(sliding: Path) -> None:
    with native_state(sliding, WINDOWED) as state:
        answer(state, LONG)
        steps, report = answer(state, REWOUND)
    assert report.cached_tokens == 0 and report.evaluated_tokens == len(REWOUND)
    assert report.note and "cannot go back to 200 tokens" in report.note
    assert report.problem is None
    assert steps == fresh_answer(sliding, REWOUND)


def test_without_the_check_the_same_rewind_reports_success_and_answers_wrongly(sliding: Path) -> None:
    with native_state(sliding, WINDOWED) as state:
        answer(state, LONG)
        memory = llama_cpp.llama_get_memory(state.context)
        assert llama_cpp.llama_memory_seq_rm(memory, 0, 200, -1)
        state.held = state.held[:200]
        wrong, _ = answer(state, REWOUND)
    assert abs(wrong[0][1] - fresh_answer(sliding, REWOUND)[0][1]) > 0.01


def test_a_full_history_keeps_the_prefix_of_a_sliding_window_model(sliding: Path) -> None:
    with native_state(sliding, replace(WINDOWED, swa_full=True)) as state:
        answer(state, LONG)
        _, report = answer(state, REWOUND)
    assert (report.cached_tokens, report.note) == (200, None)


def test_every_rewind_that_is_honoured_computes_what_an_empty_state_computes(sliding: Path) -> None:
    kept: list[int] = []
    with native_state(sliding, WINDOWED) as state:
        for keep in range(100, 400, 20):
            state.clear()
            answer(state, LONG[:400])
            prompt = [*LONG[:keep], 9, 8]
            _, report = answer(state, prompt, max_tokens=1)
            rewound = logits(state)
            state.clear()
            answer(state, prompt, max_tokens=1)
            np.testing.assert_allclose(rewound, logits(state), atol=2e-3)
            kept.append(report.cached_tokens or 0)
    assert kept[0] == 0 and kept[-1] == 380
    assert kept == sorted(kept)


def test_a_windowed_snapshot_answers_with_the_same_bits(sliding: Path) -> None:
    with native_state(sliding, WINDOWED) as state, native_state(sliding, WINDOWED) as other:
        answer(state, LONG)
        other.restore(state.snapshot())
        longer = [*state.held, 4, 5, 6]
        assert answer(other, longer)[0] == answer(state, longer)[0]


def test_a_recurrent_state_goes_on_but_never_back(recurrent: Path) -> None:
    with native_state(recurrent, WINDOWED) as state:
        answer(state, LONG)
        _, onward = answer(state, [*state.held, 4, 5])
        assert (onward.cached_tokens, onward.note) == (503, None)
        steps, back = answer(state, REWOUND)
    assert back.cached_tokens == 0 and back.note and back.problem is None
    assert steps == fresh_answer(recurrent, REWOUND)


def test_a_recurrent_state_is_rebuilt_unless_a_chunk_was_cut(recurrent: Path) -> None:
    def rebuilt(state: LlamaState, last_chunk: int) -> None:
        state.clear()
        state.rebuild(as_ids(LONG[:80]), [Span(0, 64, "prefill", "r1", 64), Span(64, 16, "prefill", "r1", last_chunk)])

    with native_state(recurrent, WINDOWED) as state, native_state(recurrent, WINDOWED) as other:
        answer(other, LONG[:80], max_tokens=1)
        rebuilt(state, 16)
        assert state.snapshot().data == other.snapshot().data
        with pytest.raises(EngineError, match="cannot be cut"):
            rebuilt(state, 20)
