"""Open an engine by its name; an engine's code is imported when it is chosen."""

from __future__ import annotations

from pathlib import Path

from app.engine.base import Engine, StopFlag
from app.engine.settings import EmbeddedSettings
from app.errors import SettingsError


def open_engine(
    kind: str,
    model: Path | None,
    settings: EmbeddedSettings | None = None,
    *,
    stop: StopFlag | None = None,
    allow_scripted: bool = False,
) -> Engine:
    """The engine `kind`: "embedded", with the default model where `model` is None.

    "scripted" measures nothing and is refused unless `allow_scripted`. Raises SettingsError for an unknown kind,
    ModelFileError or EngineError where the engine cannot be opened. May take seconds; `stop` ends that (EngineDied).
    """
    if kind == "embedded":
        from app.engine.default_model import default_model
        from app.engine.embedded import EmbeddedEngine

        return EmbeddedEngine(model or default_model(), settings, stop=stop)
    if kind == "scripted" and allow_scripted:
        from app.engine.scripted import ScriptedEngine

        return ScriptedEngine()
    hint = "It plays made-up answers, for tests only." if kind == "scripted" else "Known is: embedded."
    raise SettingsError(f"There is no engine {kind!r} to run with.", hint)
