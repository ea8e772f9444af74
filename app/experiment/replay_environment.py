"""A received environment record: what of it may be taken over for a replay, and how this machine differs from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path as FilePath
from typing import Any

from app.engine.base import EngineInfo
from app.engine.server_settings import ManagedSettings
from app.engine.settings import EmbeddedSettings
from app.errors import SettingsError
from app.trajectory.reproducer import Difference

MOST_CONTEXT = 2**18
"""Tokens; a received record that asks for more could take all of this machine's memory."""

_MODEL_FACTS = ("sha256", "architecture", "tokenizer_hash", "n_vocab")

_SETTINGS = {
    "n_ctx": ("n_ctx", "ctx_size"),
    "n_batch": ("n_batch", "batch_size"),
    "n_ubatch": ("n_ubatch", "ubatch_size"),
    "threads": ("threads", "threads"),
    "type_k": ("type_k", "cache_type_k"),
    "type_v": ("type_v", "cache_type_v"),
    "flash_attention": ("flash_attention", "flash_attention"),
    "swa_full": ("swa_full", "swa_full"),
    "gpu_layers": ("gpu_layers", "gpu_layers"),
}
"""What may be taken over: the embedded engine's name, and the names in a record, llama-server's last."""

_SERVER = {name: (name,) for name in ("parallel", "cache_ram", "cache_reuse", "ctx_checkpoints", "cache_prompt")}
_ONE_SLOT = ManagedSettings(cache_ram=0, cache_reuse=0, ctx_checkpoints=0)


def replay_settings(environment: Mapping[str, Any], plan: Mapping[str, Any]) -> EmbeddedSettings:
    """The embedded engine's settings out of a received environment record, or else the plan.

    An allow-list: numbers, switches and names of KV types, by the embedded engine's names or llama-server's; paths,
    commands and addresses are never looked at. What is absent is the default. Raises SettingsError for nonsense.
    """
    found = _allowed(_SETTINGS, EmbeddedSettings(), environment.get("settings"), plan.get("managed"))
    settings = EmbeddedSettings(**found)
    for name in ("n_ctx", "n_batch", "n_ubatch"):
        if getattr(settings, name) > MOST_CONTEXT:
            raise SettingsError(f"The recorded {name} of {getattr(settings, name):,} is beyond what a replay may take.")
    return settings


def replay_server(environment: Mapping[str, Any], plan: Mapping[str, Any], binary: FilePath | None) -> ManagedSettings:
    """The same for a llama-server of our own, started from `binary`. What the record does not say of its caches is as
    the embedded engine has it: one slot, no server-level prompt cache."""
    same = asdict(replay_settings(environment, plan))
    shared = {server: same[name] for name, (_, server) in _SETTINGS.items()}
    recorded = plan.get("managed") if plan.get("engine") == "managed" else None
    base = _ONE_SLOT if recorded is None else ManagedSettings()
    return replace(base, binary=binary, **shared, **_allowed(_SERVER, _ONE_SLOT, recorded))


def _allowed(names: Mapping[str, tuple[str, ...]], defaults: object, *records: object) -> dict[str, Any]:
    """The settings `names` that the records give, the first one first; each of its default's own type."""
    found: dict[str, Any] = {}
    for name, keys in names.items():
        kind = type(getattr(defaults, name))
        for value in (record.get(key) for record in records if isinstance(record, Mapping) for key in keys):
            if value is not None and type(value) is not kind:
                raise SettingsError(f"The recorded setting {name} is no {kind.__name__}.", "The record is damaged.")
            if value is not None:
                found.setdefault(name, value)
    return found


def differences(environment: Mapping[str, Any], info: EngineInfo) -> tuple[Difference, ...]:
    """What is not as recorded: the engine, its build, the model, the settings. Facts that one side lacks are left out,
    but the model's hash."""
    found = _differ("engine", environment.get("engine"), info.name)
    here: dict[str, Mapping[str, object]] = {"build": info.build, "model": info.model, "settings": info.settings}
    for part, own in here.items():
        recorded = environment.get(part)
        recorded = recorded if isinstance(recorded, Mapping) else {}
        for name in own if part != "model" else _MODEL_FACTS:
            if name == "sha256" or (recorded.get(name) is not None and own.get(name) is not None):
                found += _differ(f"{part} {name}", recorded.get(name), own.get(name))
    return tuple(found)


def _differ(name: str, recorded: object, here: object) -> list[Difference]:
    told = _told(recorded), _told(here)
    return [] if told[0] == told[1] else [Difference(name, *told)]


def _told(value: object) -> str:
    return "not told" if value in (None, "") else str(value)
