"""Another weight format of the same model, by llama.cpp's own quantiser."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine.embedded.engine import EmbeddedEngine
from app.engine.embedded.quantise import quantise
from app.engine.gguf import inspect
from app.errors import EngineError, ModelFileError, SettingsError
from tests.unit.engine.conftest import SETTINGS
from tests.unit.engine.conversation import ask, first_prompt
from tests.unit.engine.tiny_models import write_sliding_window_model


@pytest.mark.model
def test_the_f16_expansion_of_the_default_model_holds_f16_and_speaks(model_path: Path, tmp_path: Path) -> None:
    target = tmp_path / "f16.gguf"
    made = quantise(model_path, target, "f16", threads=1)
    assert made.tensor_types == {"F16": 211, "F32": 61}
    assert made == inspect(target)
    assert made.tokenizer_hash == inspect(model_path).tokenizer_hash
    assert made.chat_template == inspect(model_path).chat_template
    assert list(tmp_path.iterdir()) == [target]
    engine = EmbeddedEngine(target, SETTINGS)
    state = engine.open_state()
    assert len(ask(state, first_prompt(engine), 4).steps) == 4
    engine.close()


@pytest.mark.model
def test_what_a_file_really_holds_is_counted_tensor_by_tensor(tmp_path: Path) -> None:
    source = write_sliding_window_model(tmp_path / "tiny.gguf")
    assert quantise(source, tmp_path / "q8.gguf", "Q8_0", threads=1).tensor_types == {"Q8_0": 43, "F32": 37}


@pytest.mark.model
def test_a_format_that_llama_cpp_refuses_leaves_no_file(tmp_path: Path) -> None:
    source = write_sliding_window_model(tmp_path / "unknown.gguf")
    source.write_bytes(source.read_bytes().replace(b"gemma3", b"gemma0"))
    with pytest.raises(EngineError, match="cannot write"):
        quantise(source, tmp_path / "q8.gguf", "Q8_0", threads=1)
    assert list(tmp_path.iterdir()) == [source]


def test_an_unknown_format_an_existing_target_and_a_bad_source_are_sentences(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(b"no model at all, but more than 24 bytes")
    with pytest.raises(SettingsError, match="no weight format"):
        quantise(source, tmp_path / "a.gguf", "Q99")
    with pytest.raises(SettingsError, match="exists already"):
        quantise(source, source, "F16")
    with pytest.raises(ModelFileError):
        quantise(source, tmp_path / "a.gguf", "F16")
