"""Logits to logprobs and rivals, against a plain definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from app.engine.embedded.distribution import Distribution
from app.errors import EngineError

ROWS = arrays(
    np.float32,
    st.integers(1, 400),
    elements=st.floats(-50, 50, width=32) | st.sampled_from([0.0, 1.0, 1.5]),  # exact ties are common
)


@settings(deadline=None)
@given(logits=ROWS, k=st.integers(0, 12))
def test_the_largest_are_those_of_a_full_stable_sort(logits: NDArray[np.float32], k: int) -> None:
    expected = np.argsort(-logits, kind="stable")[:k].tolist()
    assert Distribution(logits).largest(k) == expected


@settings(deadline=None)
@given(logits=ROWS)
def test_logprobs_are_the_softmax_in_float64_to_float32_precision(logits: NDArray[np.float32]) -> None:
    wide = logits.astype(np.float64)
    exact = wide - np.log(np.exp(wide - wide.max()).sum()) - wide.max()
    distribution = Distribution(logits)
    np.testing.assert_allclose([distribution.logprob(i) for i in range(len(logits))], exact, rtol=3e-6, atol=1e-6)


def test_the_lower_id_wins_an_exact_tie() -> None:
    logits = np.zeros(5000, np.float32)
    logits[[70, 4000, 640]] = 3.0
    assert Distribution(logits).largest(3) == [70, 640, 4000]


def test_a_buffer_for_the_exponentials_changes_nothing() -> None:
    logits = np.random.default_rng(1).normal(0, 4, 49152).astype(np.float32)
    assert Distribution(logits, np.empty_like(logits)).logprob(7) == Distribution(logits).logprob(7)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_an_output_that_is_no_number_is_a_sentence(wrong: float) -> None:
    with pytest.raises(EngineError, match="not a number"):
        Distribution(np.array([0.0, wrong, 1.0], np.float32))


def test_an_impossible_token_has_a_logprob_of_minus_infinity() -> None:
    assert Distribution(np.array([0.0, -np.inf], np.float32)).logprob(1) == -np.inf
