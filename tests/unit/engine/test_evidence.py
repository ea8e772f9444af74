"""Counts are evidence: a state that was tampered with is found out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.base import GenerateRequest
from app.engine.embedded.evidence import Counters, Tally, chunk_sizes, rewind_is_honoured
from app.engine.embedded.llama_state import LlamaState
from app.errors import EngineError
from app.trajectory.step import as_ids
from app.trajectory.trajectory import RequestReport
from tests.unit.engine.native import answer, native_state
from tests.unit.engine.tiny_models import write_sliding_window_model

PROMPT = list(range(10, 110))


@settings(deadline=None)
@given(total=st.integers(1, 3000), n_batch=st.integers(1, 2048), n_ubatch=st.integers(1, 512))
def test_chunks_add_up_and_none_is_larger_than_a_ubatch(total: int, n_batch: int, n_ubatch: int) -> None:
    sizes = chunk_sizes(total, n_batch, n_ubatch)
    assert sum(sizes) == total
    assert all(0 < size <= min(n_batch, n_ubatch) for size in sizes)


def test_a_batch_ends_a_chunk() -> None:
    assert chunk_sizes(1500, 700, 512) == [512, 188, 512, 188, 100]


@pytest.mark.parametrize(
    ("pos_min", "keep", "n_swa", "honoured"),
    [
        (0, 1, 0, True),  # a full memory
        (0, 900, 512, True),  # a window that has dropped nothing yet
        (100, 132, 32, True),
        (101, 132, 32, False),
        (502, 503, 0, True),  # a recurrent state that goes on
        (502, 502, 0, False),  # one that would have to go back
        (-1, 5, 0, False),  # a memory that holds nothing
    ],
)
def test_a_rewind_is_honoured_only_where_the_window_before_it_is_held(
    pos_min: int, keep: int, n_swa: int, honoured: bool
) -> None:
    assert rewind_is_honoured(pos_min, keep, n_swa) is honoured


def test_counts_that_agree_make_no_problem() -> None:
    tally = Tally(held_before=7, begin=1.0, cached=7, chunks=[512, 1], decoded=3, prefilled=2.0, first_step=2.5)
    report = tally.report("stop", 523, Counters(n_p_eval=512, n_eval=4, pos_max=522), end=3.0)
    assert report.problem is None
    assert (report.evaluated_tokens, report.chunks, report.cached_tokens) == (513, (512, 1), 7)
    assert (report.prefill_ms, report.first_token_ms, report.decode_ms) == (1000.0, 1500.0, 500.0)
    assert report.checks == {"n_p_eval": 512, "n_eval": 4, "pos_max": 522}


@pytest.mark.parametrize("counters", [Counters(513, 4, 522), Counters(512, 5, 522), Counters(512, 4, 523)])
def test_any_counter_that_disagrees_is_a_problem(counters: Counters) -> None:
    tally = Tally(held_before=7, begin=1.0, cached=7, chunks=[512, 1], decoded=3)
    assert tally.report("stop", 523, counters, end=3.0).problem


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sliding_window_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture
def state(tiny: Path) -> Iterator[LlamaState]:
    with native_state(tiny) as state:
        answer(state, PROMPT)
        yield state


@pytest.mark.model
def test_an_untouched_state_has_no_problem(state: LlamaState) -> None:
    assert answer(state, [*state.held, 5, 6])[1].problem is None


@pytest.mark.model
def test_tokens_evaluated_behind_the_state_s_back_are_found_out(state: LlamaState) -> None:
    stolen = (llama_cpp.llama_token * 2)(40, 41)
    assert llama_cpp.llama_decode(state.context, llama_cpp.llama_batch_get_one(stolen, 2)) == 0
    _, report = answer(state, [*PROMPT, 200, 201])
    assert report.problem and "ends at position 104 before the request, 102 was expected" in report.problem


@pytest.mark.model
def test_a_memory_cleared_behind_the_state_s_back_is_never_answered_from(state: LlamaState) -> None:
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(state.context), True)
    _, report = answer(state, [*PROMPT, 200, 201])
    assert report.problem and "ends at position -1" in report.problem
    assert report.cached_tokens == 0


@pytest.mark.model
def test_a_tail_removed_behind_the_state_s_back_is_never_answered_from(state: LlamaState) -> None:
    llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(state.context), 0, 50, -1)
    with pytest.raises(EngineError, match="could not evaluate"):
        answer(state, [*state.held, 200, 201])
    assert len(state.held) == 50


@pytest.mark.model
def test_work_done_during_the_answer_is_found_out_by_llama_cpp_s_own_count(state: LlamaState) -> None:
    report = None
    for number, item in enumerate(state.generate(GenerateRequest(as_ids(PROMPT), 5), lambda: False)):
        if number == 3:  # one token more than the state knows of, taken back so that the positions agree
            one = (llama_cpp.llama_token * 1)(40)
            assert llama_cpp.llama_decode(state.context, llama_cpp.llama_batch_get_one(one, 1)) == 0
            llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(state.context), 0, len(state.held), -1)
        report = item
    assert isinstance(report, RequestReport)
    assert report.problem and "n_eval" in report.problem
