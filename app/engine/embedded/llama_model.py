"""A GGUF in llama.cpp's hands: its vocabulary, its contexts, its log. Imported in the child process only."""

from __future__ import annotations

import ctypes
from collections import deque
from pathlib import Path
from typing import Any

import llama_cpp

from app.engine.settings import EmbeddedSettings
from app.errors import EngineError, ModelFileError

_WARNING, _ERROR = 3, 4  # enum ggml_log_level (ggml.h; the bindings' comments have an older one)
_KV_TYPES = {
    "f16": llama_cpp.GGML_TYPE_F16,
    "f32": llama_cpp.GGML_TYPE_F32,
    "bf16": 30,  # GGML_TYPE_BF16; the bindings leave it out
    "q8_0": llama_cpp.GGML_TYPE_Q8_0,
    "q4_0": llama_cpp.GGML_TYPE_Q4_0,
}
_FLASH_ATTENTION = {False: 0, True: 1}  # enum llama_flash_attn_type; AUTO is -1


class NativeLog:
    """The last warnings and errors of llama.cpp, instead of its printing them."""

    def __init__(self, lines: int = 50) -> None:
        self._lines: deque[str] = deque(maxlen=lines)
        self._callback = llama_cpp.llama_log_callback(self._take)  # must live as long as llama.cpp may call it
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _take(self, level: int, text: bytes, _user_data: object) -> None:
        if level in (_WARNING, _ERROR) and text.strip():
            self._lines.append(text.decode(errors="replace").strip())

    def tail(self, lines: int = 3) -> str:
        """The last lines as one hint; empty where there are none."""
        last = list(self._lines)[-lines:]
        return f"llama.cpp says: {' | '.join(last)}" if last else ""


class LlamaModel:
    """A loaded model. Raises ModelFileError where llama.cpp cannot load the file."""

    def __init__(self, path: Path, settings: EmbeddedSettings) -> None:
        self.log = NativeLog()
        self.settings = settings
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = settings.gpu_layers
        self.pointer = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self.pointer:
            raise ModelFileError(f"{path.name} cannot be loaded by this build of llama.cpp.", self.log.tail())
        self._vocab = llama_cpp.llama_model_get_vocab(self.pointer)
        self.n_vocab = int(llama_cpp.llama_vocab_n_tokens(self._vocab))
        self.n_swa = int(llama_cpp.llama_model_n_swa(self.pointer))
        self.recurrent = bool(
            llama_cpp.llama_model_is_recurrent(self.pointer) or llama_cpp.llama_model_is_hybrid(self.pointer)
        )
        if not llama_cpp.llama_model_has_decoder(self.pointer) or llama_cpp.llama_model_has_encoder(self.pointer):
            raise ModelFileError(f"{path.name} is no decoder-only language model.", "Choose a chat model.")
        self.eog_ids = frozenset(
            token_id for token_id in range(self.n_vocab) if llama_cpp.llama_vocab_is_eog(self._vocab, token_id)
        )
        self._pieces: dict[int, bytes] = {}

    def new_context(self) -> Any:
        """A llama_context of its own, with the settings; raises EngineError where they do not go together."""
        settings = self.settings
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = settings.n_ctx, settings.n_batch, settings.n_ubatch
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = settings.threads
        params.type_k, params.type_v = _KV_TYPES[settings.type_k], _KV_TYPES[settings.type_v]
        params.flash_attn_type = _FLASH_ATTENTION[settings.flash_attention]
        params.swa_full = settings.swa_full
        params.no_perf = False  # its counters are the evidence for ours
        context = llama_cpp.llama_init_from_model(self.pointer, params)
        if not context:
            raise EngineError("llama.cpp cannot make a context with these settings.", self.log.tail())
        return context

    def tokenize(self, text: str, special: bool) -> list[int]:
        """Ids of `text`; no BOS is added. `special` parses control tokens written out in it."""
        raw = text.encode("utf-8", errors="surrogatepass")
        room = len(raw) + 8
        while True:
            ids = (llama_cpp.llama_token * room)()
            count = llama_cpp.llama_tokenize(self._vocab, raw, len(raw), ids, room, False, special)
            if count >= 0:
                return list(ids[:count])
            room = -count

    def piece(self, token_id: int) -> bytes:
        """The raw bytes of a token, control tokens written out; b"" for an id beyond the vocabulary."""
        if token_id not in self._pieces:
            self._pieces[token_id] = self._read_piece(token_id)
        return self._pieces[token_id]

    def _read_piece(self, token_id: int) -> bytes:
        if not 0 <= token_id < self.n_vocab:
            return b""
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = llama_cpp.llama_token_to_piece(self._vocab, token_id, buffer, room, 0, True)
            if count >= 0:
                return buffer.raw[:count]
            room = -count

    def close(self) -> None:
        """Free the model; every context of it must be gone. Closing twice is harmless."""
        if self.pointer:
            llama_cpp.llama_model_free(self.pointer)
            self.pointer = None
