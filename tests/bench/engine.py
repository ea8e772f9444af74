"""Decode and prefill through the product, engine to committed row, against a bare llama_decode loop.

Both run the same prompt with the same threads in alternating blocks; the figure is the median of ten ratios.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import tempfile
import time
from pathlib import Path as FilePath
from threading import Event

import llama_cpp
import numpy as np

from app.engine.default_model import default_model
from app.engine.opening import open_engine
from app.engine.settings import EmbeddedSettings
from app.experiment.pass_run import PassRun, Tools
from app.experiment.plans import RunRequest
from app.store.recorder import Recorder
from app.trajectory.episode import Episode
from app.trajectory.trajectory import Path
from app.workload.chat import ChatTemplate

THREADS = 1
BLOCKS = 10
DECODE = (16, 60)  # prompt tokens, steps; each asked twice
PREFILL = (512, 1)
BARS = {"decode": 0.95, "prefill": 0.97}


class BareLoop:
    """llama_decode and argmax, nothing else: the reference."""

    def __init__(self, model: FilePath) -> None:
        self._log = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(str(model).encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 4096, 2048, 512
        params.n_threads = params.n_threads_batch = THREADS
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        self._width = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))

    def run(self, ids: list[int], steps: int) -> float:
        """Seconds for the prompt and `steps` greedy steps, the last of them not evaluated."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)
        began = time.perf_counter()
        self._decode(ids)
        for number in range(steps):
            logits = llama_cpp.llama_get_logits_ith(self._context, -1)
            token = int(np.argmax(np.ctypeslib.as_array(logits, shape=(self._width,))))
            if number < steps - 1:
                self._decode([token])
        return time.perf_counter() - began

    def _decode(self, ids: list[int]) -> None:
        array = (llama_cpp.llama_token * len(ids))(*ids)
        assert llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(array, len(ids))) == 0

    def close(self) -> None:
        """Free the model."""
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)


class Product:
    """A pass of the product over raw ids, as `forkpoint run` plays it."""

    def __init__(self, model: FilePath, folder: FilePath) -> None:
        self._engine = open_engine("embedded", model, EmbeddedSettings(threads=THREADS))
        self._info = self._engine.describe()
        self._recorder = Recorder(folder / "bench.forkpoint")
        self._experiment = self._recorder.add_experiment("bench", {"episode_ids": []}, {})
        self.eog_ids = self._info.eog_ids

    def run(self, ids: list[int], steps: int) -> tuple[float, int]:
        """Seconds from the episode's beginning to its last committed row, and the steps that it took."""
        request = RunRequest(max_tokens=steps)
        taken = 0

        def count(event: object) -> None:
            nonlocal taken
            taken += len(getattr(event, "steps", ()))

        tools = Tools(self._engine, self._info, ChatTemplate(None, "", ""), self._recorder, request, count, Event())
        pass_id = self._recorder.add_pass(self._experiment, Path.RECOMPUTE, 1, ["bench"], {})
        run = PassRun(tools, pass_id, Path.RECOMPUTE, 1)
        began = time.perf_counter()
        run.play(Episode("bench", "bench", (), (), raw_ids=tuple(ids)))
        return time.perf_counter() - began, taken

    def close(self) -> None:
        """End the child and close the file."""
        self._recorder.close()
        self._engine.close()


def main() -> dict[str, float]:
    """Print and return the two ratios, product over bare (tokens a second)."""
    model = default_model()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        bare, product = BareLoop(model), Product(model, FilePath(folder))
        try:
            for name, (prompt, steps) in {"decode": DECODE, "prefill": PREFILL}.items():
                ids = np.random.default_rng(1).integers(1000, 40000, prompt).tolist()
                ratios = []
                for _ in range(BLOCKS):
                    bare_seconds = bare.run(ids, steps) + bare.run(ids, steps)  # an import is asked twice
                    seconds, taken = product.run(ids, steps)
                    assert taken == 2 * steps, f"the answer ended after {taken} steps: choose another prompt"
                    ratios.append(bare_seconds / seconds)
                found[name] = statistics.median(ratios)
                print(f"{name}: {found[name]:.3f} of the bare loop (bar {BARS[name]}), ratios "
                      f"{min(ratios):.3f} to {max(ratios):.3f}")  # fmt: skip
        finally:
            product.close()
            bare.close()
    return found


if __name__ == "__main__":
    sys.exit(any(ratio < BARS[name] for name, ratio in main().items()))
