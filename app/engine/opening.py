"""Open an engine by its name; an engine's code is imported when it is chosen."""

from __future__ import annotations

from pathlib import Path

from app.engine.base import Engine, StopFlag
from app.engine.server_settings import ManagedSettings, ServerSettings
from app.engine.settings import EmbeddedSettings
from app.errors import SettingsError


def open_engine(
    kind: str,
    model: Path | None,
    settings: EmbeddedSettings | None = None,
    *,
    server: ServerSettings | None = None,
    managed: ManagedSettings | None = None,
    stop: StopFlag | None = None,
    allow_scripted: bool = False,
) -> Engine:
    """The engine `kind`: "embedded", "managed" (a llama-server of our own), or the URL of a server that runs elsewhere.

    The first two take the default model where `model` is None; what kind of server answers at a URL is found out,
    unless "llama-server+", "vllm+", "sglang+" or "openai+" before it says so. "scripted" measures nothing and is
    refused unless `allow_scripted`. Raises SettingsError for an unknown kind, ModelFileError or EngineError where the
    engine cannot be opened. May take seconds; `stop` ends that (EngineDied).
    """
    if is_url(kind):
        from app.engine.detect import connect

        return connect(kind, server or ServerSettings(), stop=stop)
    if kind == "embedded":
        from app.engine.default_model import default_model
        from app.engine.embedded.engine import EmbeddedEngine

        return EmbeddedEngine(model or default_model(), settings, stop=stop)
    if kind == "managed":
        from app.engine.default_model import default_model
        from app.engine.llama_server.managed import ManagedEngine

        return ManagedEngine(model or default_model(), managed or ManagedSettings(), stop=stop)
    if kind == "scripted" and allow_scripted:
        from app.engine.scripted import ScriptedEngine

        return ScriptedEngine()
    known = "Known are: embedded, managed, and the URL of a server, such as http://127.0.0.1:8080."
    hint = "It plays made-up answers, for tests only." if kind == "scripted" else known
    raise SettingsError(f"There is no engine {kind!r} to run with.", hint)


def is_url(kind: str) -> bool:
    """Whether an engine is named by the URL of a server."""
    return "://" in kind
