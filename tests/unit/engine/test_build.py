"""The environment record names the native build and the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine.embedded.build import compile_flags, cpu_name
from app.engine.embedded.engine import EmbeddedEngine
from app.engine.opening import open_engine
from tests.unit.engine.conftest import SETTINGS


@pytest.mark.model
def test_the_record_names_bindings_commit_and_what_the_cpu_can_do(engine: EmbeddedEngine) -> None:
    build = engine.describe().build
    assert str(build["bindings"]).startswith("llama-cpp-python 0.")
    assert build["ggml_commit"] and build["ggml_version"]
    assert "CPU" in str(build["system_info"])
    assert "GGML_NATIVE=ON" in str(build["compile_flags"])
    assert build["cpu"] and build["os"] and build["python"]


@pytest.mark.model
def test_the_record_holds_settings_as_they_became(engine: EmbeddedEngine) -> None:
    info = engine.describe()
    assert info.settings == {
        "n_ctx": 1024,
        "n_batch": 1024,  # asked for 2048; llama.cpp cuts it to the context
        "n_ubatch": 512,
        "threads": 1,
        "type_k": "f16",
        "type_v": "f16",
        "flash_attention": False,
        "swa_full": True,
        "gpu_layers": 0,
    }
    assert info.n_ctx == 1024 and info.eog_ids == {0, 2, 4}


@pytest.mark.model
def test_the_embedded_engine_opens_on_the_default_model() -> None:
    engine = open_engine("embedded", None, SETTINGS)
    assert engine.describe().model["name"] == "SmolLM2-135M-Instruct.Q4_1.gguf"
    engine.close()


def test_flags_of_what_was_not_built_are_left_out(tmp_path: Path) -> None:
    config = tmp_path / "lib" / "ggml-config.cmake"
    config.parent.mkdir()
    lines = ['set(GGML_CUDA "OFF")', 'set(GGML_CUDA_GRAPHS "ON")', 'set(GGML_OPENMP "ON")', 'set(GGML_BACKEND_DIR "")']
    config.write_text("\n".join(lines))
    assert compile_flags(tmp_path) == "GGML_OPENMP=ON"
    assert compile_flags(tmp_path / "none") == ""


def test_the_cpu_has_a_name() -> None:
    assert cpu_name()
