"""What can be set on the embedded engine; every field is recorded with the run."""

from __future__ import annotations

import os
from dataclasses import dataclass

from app.errors import SettingsError

KV_TYPES = ("f16", "f32", "bf16", "q8_0", "q4_0")
"""KV cache types by ggml's names."""


MOST_THREADS = 512
"""ggml's own limit (GGML_MAX_N_THREADS); beyond it the process crashes."""


def default_threads() -> int:
    """One core is left to the window and the disk; more than eight help little on models that run here."""
    return max(1, min(8, (os.cpu_count() or 2) - 1))


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """llama.cpp's own names; sizes are tokens. `flash_attention` is never left to AUTO, so that it can be recorded.

    `swa_full` keeps the whole KV history of sliding-window models (the bindings' default; llama-server's is False).
    """

    n_ctx: int = 4096  # 0: what the model was trained on
    n_batch: int = 2048
    n_ubatch: int = 512
    threads: int = 0  # 0: default_threads()
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attention: bool = False
    swa_full: bool = True
    gpu_layers: int = 0

    def __post_init__(self) -> None:
        """Raise SettingsError where llama.cpp would abort or quietly take something else."""
        for name, least in (("n_ctx", 0), ("n_batch", 1), ("n_ubatch", 1), ("threads", 0), ("gpu_layers", 0)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name} is {getattr(self, name)}.", f"It must be at least {least}.")
        if self.threads > MOST_THREADS:
            raise SettingsError(f"threads is {self.threads:,}.", f"It must be at most {MOST_THREADS}.")
        for name in ("type_k", "type_v"):
            if getattr(self, name) not in KV_TYPES:
                raise SettingsError(f"{name} {getattr(self, name)!r} is unknown.", f"Known are {', '.join(KV_TYPES)}.")
