"""The default model's own tokenizer, loaded without its weights."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import llama_cpp
import pytest

from app.engine.default_model import default_model


class Vocabulary:
    """tokenize(text, special) as the embedded engine answers it, and the model's chat template."""

    def __init__(self) -> None:
        self._log = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._log, ctypes.c_void_p(0))
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(default_model()).encode(), params)
        assert self._model
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.template: str = llama_cpp.llama_model_chat_template(self._model, None).decode()
        self.end_of_turn = int(llama_cpp.llama_vocab_eos(self._vocab))

    def __call__(self, text: str, special: bool) -> list[int]:
        data = text.encode()
        buffer = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(self._vocab, data, len(data), buffer, len(buffer), False, special)
        assert count >= 0
        return list(buffer[:count])

    def close(self) -> None:
        llama_cpp.llama_model_free(self._model)


@pytest.fixture(scope="session")
def vocabulary() -> Iterator[Vocabulary]:
    made = Vocabulary()
    yield made
    made.close()
