"""The sealed environment record of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from app import __version__
from app.engine.base import EngineInfo
from app.workload.chat import ChatTemplate


def environment_of(info: EngineInfo, template: ChatTemplate) -> dict[str, Any]:
    """The sealed environment record: app, build, model, settings, and what the engine can prove, as JSON values."""
    return {
        "app": {"name": "forkpoint", "version": __version__},
        "engine": info.name,
        "build": _plain(info.build),
        "model": _plain(info.model),
        "settings": _plain(info.settings),
        "capabilities": asdict(info.capabilities),
        "level": info.level,
        "recompute_by": info.recompute_by,
        "gaps": [asdict(gap) for gap in info.gaps],
        "chat_template_note": template.note,
    }


def _plain(values: Mapping[str, object]) -> dict[str, Any]:
    """Mappings and tuples as JSON keeps them, so that a record compares equal to itself read back."""
    return {key: _plain(v) if isinstance(v, Mapping) else list(v) if isinstance(v, tuple) else v
            for key, v in values.items()}  # fmt: skip
