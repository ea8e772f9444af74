"""What a GGUF file really holds, read without loading it: the part of the environment record that names the model."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader

from app.errors import ModelFileError

_TOKENIZER_PARTS = ("model", "pre", "tokens", "scores", "merges", "token_type", "add_space_prefix", "add_bos_token")
_RECURRENT_KEYS = (".ssm.", ".wkv.", ".shortconv.")
_WRONG_FILE = "Choose a GGUF file of a language model, complete and not split."


@dataclass(frozen=True)
class ModelFile:
    """A GGUF file. `tensor_types` counts tensors by ggml's type names, whatever the file's own name says.

    `tokenizer_hash` is a SHA-256 over the tokenizer's model, pre-tokenizer, tokens, scores, merges, token types and
    space and BOS rules. `n_swa` is the sliding window in tokens, 0 where there is none.
    """

    name: str
    size_bytes: int
    sha256: str
    architecture: str
    tensor_types: Mapping[str, int]
    tokenizer_hash: str
    chat_template: str | None
    chat_template_hash: str | None
    bos_token: str | None
    eos_token: str | None
    n_vocab: int
    n_ctx_train: int
    n_swa: int
    recurrent: bool


def inspect(path: Path) -> ModelFile:
    """Read the header and hash the file. Raises ModelFileError where it is missing, cut short or no model."""
    try:
        stat = path.stat()
        if not path.is_file():
            raise ModelFileError(f"{path.name} is not a file.", _WRONG_FILE)
        return _inspect(path.resolve(), stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise ModelFileError(f"{path.name} cannot be read: {error.strerror or error}.", "Check the path.") from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file as hexadecimal digits; not computed again while size and time of the file stay the same."""
    stat = path.stat()
    return _sha256(path.resolve(), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=8)
def _sha256(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=8)
def _inspect(path: Path, size: int, _mtime_ns: int) -> ModelFile:
    if size < 24:
        raise ModelFileError(f"{path.name} has only {size} bytes.", _WRONG_FILE)
    try:
        reader = _BoundedReader(path)
        return _describe(path, size, reader)
    except _CutShort as error:
        raise ModelFileError(
            f"{path.name} is cut short: it ends before what its header promises.", "Download or copy it again."
        ) from error
    # The library raises whatever its parsing of garbage leads to.
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        raise ModelFileError(f"{path.name} is no GGUF file that can be read ({error}).", _WRONG_FILE) from error


def _describe(path: Path, size: int, reader: _BoundedReader) -> ModelFile:
    architecture = reader.value("general.architecture")
    tokens = reader.fields.get("tokenizer.ggml.tokens")
    if not isinstance(architecture, str) or not reader.tensors or tokens is None:
        raise ModelFileError(f"{path.name} holds no language model.", _WRONG_FILE)
    template = reader.value("tokenizer.chat_template")

    def token_text(kind: str) -> str | None:
        token_id = reader.value(f"tokenizer.ggml.{kind}_token_id")
        return str(tokens.contents(token_id)) if isinstance(token_id, int) and token_id < len(tokens.data) else None

    window = reader.value(f"{architecture}.attention.sliding_window")
    return ModelFile(
        name=path.name,
        size_bytes=size,
        sha256=sha256_of(path),
        architecture=architecture,
        tensor_types=dict(Counter(tensor.tensor_type.name for tensor in reader.tensors).most_common()),
        tokenizer_hash=reader.tokenizer_hash(),
        chat_template=template,
        chat_template_hash=None if template is None else hashlib.sha256(template.encode()).hexdigest(),
        bos_token=token_text("bos"),
        eos_token=token_text("eos"),
        n_vocab=len(tokens.data),
        n_ctx_train=int(reader.value(f"{architecture}.context_length") or 0),
        n_swa=int(window or 0),
        recurrent=any(key in name for name in reader.fields for key in _RECURRENT_KEYS),
    )


class _CutShort(Exception):
    """Something in the header lies beyond the end of the file."""


class _BoundedReader(GGUFReader):  # type: ignore[misc]  # the library is untyped here
    """The library's reader, with every read checked against the file's end.

    Without the check a length beyond the end reads as empty, and a header of garbage counts to 2**60. Tensor data is
    read through `_get` too, so that this also proves each tensor's range to lie inside the file.
    """

    data: Any

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: str | None = None) -> Any:
        if isinstance(self.data, np.memmap):
            self.data = np.asarray(self.data)  # the same memory, without memmap's slow slicing
        kind = np.dtype(dtype)
        count = int(count)
        if offset + kind.itemsize * count > self.data.size:
            raise _CutShort
        order = override_order or self.byte_order
        array = self.data[offset : offset + kind.itemsize * count].view(kind)
        return array if order == "I" else array.view(kind.newbyteorder(order))

    def value(self, key: str) -> Any:
        """A field's value; None where the file lacks it."""
        field = self.fields.get(key)
        return None if field is None else field.contents()

    def tokenizer_hash(self) -> str:
        """SHA-256 over names, lengths and raw bytes of everything that decides how text becomes ids."""
        digest = hashlib.sha256()
        for part in _TOKENIZER_PARTS:
            field = self.fields.get(f"tokenizer.ggml.{part}")
            if field is not None:
                digest.update(f"{part} {len(field.data)}\n".encode())
                for index in field.data:
                    raw = field.parts[index].tobytes()
                    digest.update(len(raw).to_bytes(8, "little"))
                    digest.update(raw)
        return digest.hexdigest()
