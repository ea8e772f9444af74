"""The conversation that a runner drives: which ids come next, and what an answer makes the tools do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import numpy as np

from app.trajectory.episode import Episode, Message, Outcome, ToolCall, ToolResult
from app.trajectory.step import IdArray, as_ids, shared_length
from app.trajectory.trajectory import Prompt
from app.workload import protocol
from app.workload.builtin import check, world_of
from app.workload.chat import ChatTemplate
from app.workload.speech import Speech
from app.workload.world import World

MAX_TOKENS: Final = 64
"""Most tokens of one answer (STUDY sets more; a small model says what it has to say in these)."""

REQUESTS_PER_TURN: Final = 3
"""A turn ends at an answer without a tool call, or after so many requests."""

PROMPT_LIMIT: Final = 1500
"""A built-in episode's prompts stay below so many tokens: near it a turn ends before it has had all its requests."""

TURN_RESERVE: Final = 170
"""Tokens kept free for each turn that is still to come: what the user says, one answer, what its tools say."""


class Dialogue:
    """One episode under way. Pure computation: `tokenize(text, special)` is the only thing it asks of an engine.

    History "tokens": the next prompt is the previous prompt's ids, every sampled id, and the ids of what the template
    puts after an answer, less the end-of-turn id where that was sampled (after finish reason "length" it is added).
    `Prompt.mismatch` then says where rendering the conversation afresh would give other ids, because the template
    rewrites history. History "chat": as a chat client would, everything is rendered and tokenised afresh from the
    decoded answers; `mismatch` is where that does not continue the previous prompt and answer.

    Everything is tokenised with control tokens recognised, as servers do: what a user or a tool says can therefore
    contain them. A BOS token is there where the template writes one, and nowhere else.

    Raises WorkloadError where the template cannot be rendered.
    """

    def __init__(
        self,
        episode: Episode,
        template: ChatTemplate,
        tokenize: Callable[[str, bool], list[int]],
        eog_ids: frozenset[int],
        *,
        history: Literal["tokens", "chat"] = "tokens",
    ) -> None:
        self._episode = episode
        self._speech = Speech(template, episode)
        self._tokenize = tokenize
        self._eog_ids = eog_ids
        self._history = history
        self._world: World | None = world_of(episode)
        self._messages: list[Message] = list(episode.opening)
        self._pending: list[Message] = []  # said since the last answer, not yet in a prompt
        self._turn = -1
        self._requests_in_turn = 0
        self._recorded: list[Message] = []
        self._calls: list[ToolCall] = []
        self._prompt: Prompt | None = None
        self._answered = as_ids(())  # previous prompt and every sampled id
        self._text = ""  # what those ids say, the end-of-turn token not included
        self._turn_is_over = True

    def next_prompt(self) -> Prompt | None:
        """What to ask next; None where the episode is over. Asking twice without an answer gives the same prompt."""
        if self._prompt is not None:
            return self._prompt
        if self._episode.raw_ids:
            self._turn += 1
            self._prompt = Prompt(as_ids(self._episode.raw_ids), 0, ()) if self._turn == 0 else None
            return self._prompt
        if self._turn_is_over or not self._room_for_another_request():
            if self._turn + 1 >= len(self._episode.turns):
                return None
            self._begin_turn()
        self._messages += self._pending
        added = tuple(self._pending) if len(self._answered) else tuple(self._messages)
        ids, mismatch = self._compose(added)
        self._prompt = Prompt(ids, self._turn, added, mismatch)
        self._requests_in_turn += 1
        self._pending = []
        return self._prompt

    def take_answer(
        self, ids: IdArray, text: str, finish_reason: str
    ) -> tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]:
        """What the answer calls and what the tools say to it.

        `ids` are all sampled ids, a sampled end-of-generation id included; `text` is what they say *without* that
        token's own piece. `finish_reason` is the engine's.
        """
        if self._prompt is None:
            raise ValueError("take_answer comes after next_prompt")
        self._answered = np.concatenate([self._prompt.ids, as_ids(ids)])
        self._prompt = None
        if self._episode.raw_ids:
            return (), ()
        self._text += text
        self._messages.append(Message("assistant", text))
        calls = protocol.read_calls(text, self._episode.tools)
        self._calls += calls
        results = tuple(self._execute(call) for call in calls)
        said = [Message("tool", each.text, each.name) for each in results] + self._recorded_that_follow(len(calls))
        self._pending += said
        self._turn_is_over = not said or self._requests_in_turn >= REQUESTS_PER_TURN or finish_reason == "cancelled"
        return calls, results

    def outcome(self) -> Outcome:
        """Whether the episode's goal is reached, by the world's state and what the calls returned."""
        if self._world is None:
            return Outcome("none")
        return check(self._episode, self._world)
