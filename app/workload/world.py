"""What the families of built-in episodes are made of: an in-memory world with tools, and drafts of episodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, TypeVar

from app.trajectory.episode import Message, ToolResult
from app.workload import protocol

Call = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""

Turn = tuple[str, tuple[Call, ...]]
"""What the user says, and the calls that do it."""

T = TypeVar("T")


class ToolFailure(Exception):
    """A tool cannot do what it was asked; the text is its answer to the model."""


class World:
    """A family's tools over its state. A tool is a method of its name that returns what is shown as JSON."""

    tools: ClassVar[tuple[dict[str, Any], ...]] = ()

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = copy.deepcopy(state)
        self.log: list[tuple[str, str]] = []

    def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool with arguments that fit its schema, and keep (name, answer) in `log` where it succeeded."""
        if name not in {each["name"] for each in self.tools}:
            raise KeyError(name)
        try:
            answer = protocol.result(name, getattr(self, name)(**arguments))
        except ToolFailure as failure:
            return protocol.result(name, {"error": str(failure)}, ok=False)
        self.log.append((name, answer.text))
        return answer


def turn(text: str, *calls: Call) -> Turn:
    """A turn; most need one call."""
    return text, calls


def call(name: str, /, **arguments: Any) -> Call:
    """A call of a tool."""
    return name, arguments


@dataclass(frozen=True)
class Draft:
    """An episode before it is rendered: the world's initial state, and the turns."""

    state: dict[str, Any]
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Family:
    """One family: its world, how the model is spoken to, and the shapes of its episodes.

    `examples` are few-shot turns: a user's text, the call that answers it, the tool's answer, the sentence after it.
    `shapes` each make a draft from a Deal; episode i of the family takes shape i modulo their number. `verbose` gives
    the model the tools' whole JSON schemas.
    """

    name: str
    world: type[World]
    role: str
    examples: tuple[tuple[str, Call, object, str], ...]
    shapes: tuple[Callable[[Deal], Draft], ...]
    verbose: bool = False

    def opening(self) -> tuple[Message, ...]:
        """System message and examples, as messages before the first turn."""
        messages = [Message("system", protocol.instructions(self.role, self.world.tools, verbose=self.verbose))]
        for text, (name, arguments), answer, sentence in self.examples:
            messages += [
                Message("user", text),
                Message("assistant", protocol.call_text(name, arguments)),
                Message("tool", protocol.result(name, answer).text, name),
                Message("assistant", sentence),
            ]
        return tuple(messages)


class Deal:
    """Deterministic choice. Uses only `Random.random`, the one method whose sequence Python promises to keep."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def one(self, table: Sequence[T]) -> T:
        """One entry."""
        return table[int(self._random.random() * len(table))]

    def some(self, table: Sequence[T], count: int) -> list[T]:
        """`count` different entries, in random order."""
        return [entry for _, _, entry in sorted((self._random.random(), i, entry) for i, entry in enumerate(table))][
            :count
        ]

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))
