"""Why something cannot be done with what is shown, as a sentence for a tooltip; "" where it can. Knows no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.trajectory.pair import Pair
from app.trajectory.reproducer import why_no_reproducer

LEVELS = {"bytes": "the bytes of tokens", "text": "the words of the text"}


def why_no_ids(environment: Mapping[str, Any]) -> str:
    """Why token ids cannot be copied: below level "ids" the engine makes them up."""
    known = LEVELS.get(environment.get("level", "ids"))
    return f"This server gave no token ids; its answers were compared by {known}." if known else ""


def why_no_run_again(environment: Mapping[str, Any]) -> str:
    """Why both cannot be run again: the cached side needs a cache that can be filled as it was."""
    capabilities = environment.get("capabilities")
    engine = environment.get("engine", "embedded")
    rebuild = capabilities.get("rebuild") if isinstance(capabilities, Mapping) else engine == "embedded"
    if rebuild:
        return ""
    return f"It was run on {engine}, whose cache cannot be filled entry by entry as it was. Run the episode anew."


def why_not_on_server(pair: Pair | None, trouble: str) -> str:
    """Why a fork cannot be tried on a llama-server; `trouble` is why none can be started."""
    if pair is None:
        return "There is no pair."
    return why_no_reproducer(pair) or trouble
