"""What can be set on a server: how it is reached, and how a llama-server that Forkpoint starts is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.engine.settings import MOST_THREADS
from app.errors import SettingsError

KEY_VARIABLE = "FORKPOINT_API_KEY"
"""The environment variable that holds the API key; the key itself is never stored, logged or exported."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server that runs elsewhere is reached.

    `key_file` holds the API key and must be readable by its owner only (0600); without it KEY_VARIABLE is looked at.
    `allow_reset` permits what evicts other people's cache (erase, flush, reset, the doctor). `allow_insecure` permits a
    key over plain HTTP to a public address. `model` is the served name, "" where the server has one model only.
    `template` is a chat template file where the server does not tell its own. Times are seconds; a stop never waits for
    them. `control_url` is a second server without prefix caching, for the recompute path of servers that have no other.
    """

    key_file: Path | None = None
    allow_reset: bool = False
    allow_insecure: bool = False
    model: str = ""
    template: Path | None = None
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 600.0
    control_url: str = ""

    def __post_init__(self) -> None:
        """Raise SettingsError for a time that is no time."""
        for name in ("connect_timeout_s", "read_timeout_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise SettingsError(f"{name} is {getattr(self, name)}.", "It must be above 0 seconds.")


CACHE_TYPES = ("f16", "f32", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""KV cache types that llama-server knows, by ggml's names; quantised values need flash attention."""

_LEAST = {
    "ctx_size": 0,
    "batch_size": 1,
    "ubatch_size": 1,
    "threads": 0,
    "parallel": 1,
    "cache_ram": -1,
    "cache_reuse": 0,
    "ctx_checkpoints": 0,
    "gpu_layers": 0,
}

_REFUSED = frozenset((
    "-m", "--model", "-mu", "--model-url", "-dr", "--docker-repo", "-hf", "-hfr", "--hf-repo", "-hff", "--hf-file",
    "-hfd", "-hfrd", "--hf-repo-draft", "--spec-draft-hf", "-mmu", "--mmproj-url",
    "-hft", "--hf-token", "--models-dir", "--models-preset", "--host", "--port", "--reuse-port", "--api-prefix",
    "--path", "--api-key", "--api-key-file", "--ssl-key-file", "--ssl-cert-file", "-a", "--alias", "--slot-save-path",
    "--log-file", "--log-disable", "--embedding", "--embeddings", "--rerank", "--reranking",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class ManagedSettings:
    """A llama-server of our own, named by its own flags; None leaves the server's default alone.

    `binary` None is the llama-server beside Python or on PATH. `ctx_size` is shared by `parallel` slots (0: what the
    model was trained on). `cache_ram` is MiB of host memory for the server's own prompt cache: 0 is off, -1 without a
    limit. `arguments` are further flags, as one types them; those that Forkpoint sets itself, that fetch a model or
    that carry a secret are refused.
    """

    binary: Path | None = None
    ctx_size: int = 4096
    batch_size: int = 2048
    ubatch_size: int = 512
    threads: int = 0  # 0: as the embedded engine's
    parallel: int = 1
    cache_ram: int | None = None
    cache_reuse: int | None = None
    ctx_checkpoints: int | None = None
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    flash_attention: bool = False
    swa_full: bool = True
    cache_prompt: bool = True
    gpu_layers: int = 0
    slot_save: bool = True
    arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise SettingsError for what the server would refuse, or what would make the record untrue."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise SettingsError(f"{name} is {value}.", f"It must be at least {least}.")
        if self.threads > MOST_THREADS:
            raise SettingsError(f"threads is {self.threads:,}.", f"It must be at most {MOST_THREADS}.")
        for name in ("cache_type_k", "cache_type_v"):
            if getattr(self, name) not in CACHE_TYPES:
                known = ", ".join(CACHE_TYPES)
                raise SettingsError(f"{name} {getattr(self, name)!r} is unknown.", f"Known are {known}.")
        refused = sorted({flag for word in self.arguments if (flag := _flag(word)) in _REFUSED})
        if refused:
            raise SettingsError(
                f"{', '.join(refused)} cannot be given as a further flag.",
                "Forkpoint starts the server on this machine with the chosen model, without a key.",
            )


def _flag(word: str) -> str:
    """A flag as llama-server reads it: `--api_key` means `--api-key` to it."""
    name = word.split("=")[0]
    return name.replace("_", "-") if name.startswith("--") else name
