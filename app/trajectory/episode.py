"""What an episode asks for: turns of a user, tools, and messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call read from an answer.

    `raw` is the text it was read from. `arguments` is None where `raw` is not a usable call; `problem` then says why,
    in the words that the model is given as the tool's error.
    """

    name: str
    arguments: dict[str, Any] | None
    raw: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the tool answered: `text` as it is shown to the model, `ok` False where it answered with an error."""

    name: str
    text: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, as the chat template gets it. `name` is the tool's, for role "tool"."""

    role: str
    content: str
    name: str | None = None


@dataclass(frozen=True)
class Episode:
    """A multi-turn tool-use episode: what is fixed about it before any model has answered.

    `opening` are the messages before the first turn (system text with the tools, few-shot examples); `turns` are what
    the user says, one after the other. `tools` are JSON-schema function descriptions, `world` is the family's initial
    state. An imported conversation carries its recorded tool results in `recorded`, one tuple a turn. `raw_ids` make an
    episode of one request with just these ids.
    """

    id: str
    family: str
    opening: tuple[Message, ...]
    turns: tuple[str, ...]
    tools: tuple[dict[str, Any], ...] = ()
    world: dict[str, Any] = field(default_factory=dict)
    recorded: tuple[tuple[Message, ...], ...] = ()
    raw_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended: "reached" or "missed" its goal, "error", "overflow" (context full), "none" (no check)."""

    kind: Literal["reached", "missed", "error", "overflow", "none"]
    detail: str = ""
