from __future__ import annotations

from dataclasses import replace

import pytest

from app.engine.settings import EmbeddedSettings, default_threads
from app.errors import SettingsError


@pytest.mark.parametrize(
    "wrong", [{"n_ctx": -1}, {"n_batch": 0}, {"n_ubatch": 0}, {"threads": -2}, {"type_k": "f64"}, {"type_v": ""}]
)
def test_a_value_that_cannot_be_used_is_a_sentence(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))) as refused:
        replace(EmbeddedSettings(), **wrong)  # type: ignore[arg-type]
    assert refused.value.hint


def test_at_least_one_thread_is_used_everywhere() -> None:
    assert 1 <= default_threads() <= 8
