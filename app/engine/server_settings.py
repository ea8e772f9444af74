"""What can be set on a server: how it is reached, and how a llama-server that Forkpoint starts is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class ManagedSettings:
    """A llama-server of our own, named by its own flags; None or -1 leaves the server's default alone.

    `binary` None is the llama-server beside Python or on PATH. `arguments` are further flags, as one types them.
    """

    binary: Path | None = None
    ctx_size: int = 4096
    batch_size: int = 2048
    ubatch_size: int = 512
    threads: int = 0  # 0: as the embedded engine's
    parallel: int = 1
    cache_ram: int | None = None  # MiB; 0 is off
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
