"""The options that choose and set an engine: embedded, a llama-server of our own, or a server that runs elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from app.cli.terminal import EXISTING
from app.errors import SettingsError
from app.session import KV_TYPES, EmbeddedSettings, ManagedSettings, ServerSettings

F = TypeVar("F", bound=Callable[..., Any])

_ELSEWHERE, _OURS = ServerSettings(), ManagedSettings()

_SERVER = (
    click.option("--allow-reset", is_flag=True, help="Permit what evicts other people's cache (erase, flush, reset)."),
    click.option("--key-file", type=EXISTING, help="The API key, in a file that only you can read (0600)."),
    click.option("--allow-insecure", is_flag=True, help="Permit a key over plain HTTP to a public address."),
    click.option("--served-model", default="", help="The model's name, where a server has several."),
    click.option("--template", type=EXISTING, help="A chat template file, where the server does not tell its own."),
    click.option("--control-url", default="", help="A second server without prefix caching, for the recompute path."),
    click.option("--read-timeout-s", default=_ELSEWHERE.read_timeout_s, show_default=True, help="Longest silence."),
)
_MANAGED = (
    click.option("--server-binary", type=EXISTING, help="The llama-server of --engine managed; else that on PATH."),
    click.option("--parallel", default=_OURS.parallel, show_default=True, help="Its slots."),
    click.option("--cache-ram", type=int, help="MiB of its server-level prompt cache, 0 is off; else its default."),
    click.option("--cache-reuse", type=int, help="Shortest chunk that it reuses by shifting; else its default."),
    click.option("--ctx-checkpoints", type=int, help="Checkpoints a slot keeps; else its default."),
    click.option("--server-args", default="", help='More of its flags, in quotes, e.g. "--no-cache-prompt".'),
)

_SAME_MEANING = {
    "ctx_size": "n_ctx",
    "batch_size": "n_batch",
    "ubatch_size": "n_ubatch",
    "threads": "threads",
    "cache_type_k": "type_k",
    "cache_type_v": "type_v",
    "flash_attention": "flash_attention",
    "swa_full": "swa_full",
    "gpu_layers": "gpu_layers",
}
"""Settings of a llama-server of our own -> those of the embedded engine that mean the same."""


def engine_options(command: F) -> F:
    """Every option that `take_engine` takes; the embedded engine's are named as llama.cpp names them."""
    for option in reversed((*_embedded(), *_SERVER, *_MANAGED)):
        command = option(command)
    return command


def take_engine(engine: str, options: dict[str, Any]) -> dict[str, Any]:
    """`engine` and its settings as RunRequest wants them; takes their options out of `options`.

    Raises SettingsError where a flag is given that this engine would not heed.
    """
    settings = EmbeddedSettings(**{f.name: options.pop(f.name) for f in fields(EmbeddedSettings)})
    names = ("allow_reset", "key_file", "allow_insecure", "template", "control_url", "read_timeout_s")
    server = ServerSettings(model=options.pop("served_model"), **{name: options.pop(name) for name in names})
    binary: Path | None = options.pop("server_binary")
    own = {name: options.pop(name) for name in ("parallel", "cache_ram", "cache_reuse", "ctx_checkpoints")}
    arguments = _words(options.pop("server_args"))
    shared = {name: getattr(settings, same) for name, same in _SAME_MEANING.items()}
    managed = ManagedSettings(binary=binary, arguments=arguments, **own, **shared)
    if engine != "managed" and (binary or arguments or any(own[name] != getattr(_OURS, name) for name in own)):
        raise SettingsError(
            "--server-binary, --parallel, --cache-ram, --cache-reuse, --ctx-checkpoints and --server-args are flags of "
            "a llama-server that Forkpoint starts.",
            "Add --engine managed.",
        )
    return {"engine": engine, "settings": settings, "server": server, "managed": managed}


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise SettingsError(f"--server-args cannot be read: {error}.", "Quote it as a shell would.") from error


def _embedded() -> list[Callable[[F], F]]:
    kinds: dict[str, Any] = {"type_k": click.Choice(KV_TYPES), "type_v": click.Choice(KV_TYPES)}
    options = []
    for setting in fields(EmbeddedSettings):
        flag = setting.name.replace("_", "-")
        is_switch = isinstance(setting.default, bool)
        option = click.option(
            f"--{flag}/--no-{flag}" if is_switch else f"--{flag}",
            type=None if is_switch else kinds.get(setting.name, type(setting.default)),
            default=setting.default,
            show_default=True,
        )
        options.append(option)
    return options
