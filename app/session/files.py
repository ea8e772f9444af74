"""What is done with files beside running and reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path as FilePath


def check_model(path: FilePath) -> Mapping[str, object]:
    """What a GGUF file really holds: name, size, architecture, tensor types. Raises ModelFileError."""
    from app.engine.gguf import inspect

    return asdict(inspect(path))


def quantise(source: FilePath, target: FilePath, type_name: str) -> None:
    """Requantise a GGUF file with llama.cpp's quantiser. Raises ModelFileError or EngineError."""
    from app.engine.embedded.quantise import quantise as requantise

    requantise(source, target, type_name)


def unpack(source: FilePath, target: FilePath) -> None:
    """Write plain row-per-step tables of a file. Raises StoreError."""
    from app.store.unpack import unpack as write_plain

    write_plain(source, target)
