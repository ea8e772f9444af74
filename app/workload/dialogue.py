"""The conversation that a runner drives: which ids come next, and what an answer makes the tools do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from app.trajectory.episode import Episode, Message, Outcome, ToolCall, ToolResult
from app.trajectory.step import IdArray, as_ids, shared_length
from app.trajectory.trajectory import Prompt
from app.workload import builtin, protocol
from app.workload.chat import ChatTemplate
from app.workload.speech import Speech

MAX_TOKENS: Final = 64
"""Most tokens of one answer (STUDY sets more; a small model says what it has to say in these)."""

REQUESTS_PER_TURN: Final = 3
"""A turn ends at an answer without a tool call, or after so many requests."""

PROMPT_LIMIT: Final = 1500
"""Built-in prompts are kept below so many tokens: a turn ends before its third request where later turns need the room.

A test holds all 80 episodes to it, by the default model's tokenizer and with answers of MAX_TOKENS.
"""

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
        self._world = builtin.world_of(episode)
        self._messages = list(self._speech.opening)  # up to the last answer
        self._pending: list[Message] = []  # said since then
        self._recorded: list[Message] = []  # an import's tool results of this turn, not yet given
        self._turn = -1
        self._requests_in_turn = 0
        self._turn_is_over = True
        self._prompt: Prompt | None = None  # asked, not yet answered
        self._held = as_ids(())  # previous prompt and every sampled id
        self._text = ""  # what those ids say, the end-of-turn token not included
        self._answered: list[Prompt] = []
        self._is_asked_again = False

    def next_prompt(self) -> Prompt | None:
        """What to ask next; None where the episode is over. Asking twice without an answer gives the same prompt."""
        if self._prompt is None:
            raw = self._episode.raw_ids
            self._prompt = (self._raw_prompt() if raw else self._follow_up() or self._next_turn()) or self._once_more()
        return self._prompt

    def take_answer(
        self, ids: IdArray, text: str, finish_reason: str
    ) -> tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]:
        """What the answer calls and what the tools say to it.

        `ids` are all sampled ids, a sampled end-of-generation id included; `text` is what they say, with or without
        that token's own piece, such as <|im_end|>. `finish_reason` is "stop" or "length".
        """
        if self._prompt is None:
            raise ValueError("there is no prompt that this could be the answer to")
        self._held = np.concatenate([self._prompt.ids, as_ids(ids)])
        self._answered.append(self._prompt)
        self._prompt = None
        if self._episode.raw_ids or self._is_asked_again:
            return (), ()
        text = self._without_end(text, ids)
        self._text += text
        self._messages += [*self._pending, Message("assistant", text)]
        self._requests_in_turn += 1
        calls = protocol.read_calls(text, self._episode.tools, cut=finish_reason == "length")
        results = tuple(self._execute(call) for call in calls)
        self._pending = [Message("tool", each.text, each.name) for each in results]
        self._pending += self._recorded_that_follow(bool(calls))
        self._turn_is_over = not self._pending or self._requests_in_turn >= REQUESTS_PER_TURN
        return calls, results

    def outcome(self) -> Outcome:
        """Whether the episode's goal is reached, by the world's state and what the calls returned."""
        return Outcome("none") if self._world is None else builtin.check(self._episode, self._world)

    def _raw_prompt(self) -> Prompt | None:
        return None if self._answered else Prompt(as_ids(self._episode.raw_ids), 0, ())

    def _once_more(self) -> Prompt | None:
        """An import of one request is asked it twice: only then has the cached path something to reuse."""
        if len(self._answered) != 1 or self._world is not None:
            return None
        self._is_asked_again = True
        return replace(self._answered[0], added=())

    def _follow_up(self) -> Prompt | None:
        """The next request of the same turn; None where the turn is over or the prompt grows too long for one."""
        if self._turn_is_over:
            return None
        prompt, text = self._compose(self._turn)
        turns_left = len(self._episode.turns) - self._turn - 1
        if self._world is not None and len(prompt.ids) + turns_left * TURN_RESERVE > PROMPT_LIMIT:
            return None
        self._text = text
        return prompt

    def _next_turn(self) -> Prompt | None:
        if self._turn + 1 >= len(self._episode.turns):
            return None
        self._turn += 1
        self._requests_in_turn = 0
        self._recorded = list(self._episode.recorded[self._turn]) if self._episode.recorded else []
        self._pending.append(Message("user", self._episode.turns[self._turn]))
        prompt, self._text = self._compose(self._turn)
        return prompt

    def _compose(self, turn: int) -> tuple[Prompt, str]:
        """The prompt that `_pending` makes, and its text."""
        conversation = [*self._messages, *self._pending]
        fresh = self._speech.render(conversation)
        if not len(self._held):
            return Prompt(as_ids(self._tokenize(fresh, True)), turn, tuple(conversation)), fresh
        added = tuple(self._pending)
        if self._history == "chat":
            ids = as_ids(self._tokenize(fresh, True))
            shared = shared_length(ids, self._held)
            return Prompt(ids, turn, added, None if shared == len(self._held) else shared), fresh
        suffix = self._speech.after_answer(conversation)
        suffix_ids = self._tokenize(suffix, True)
        already = self._sampled_already(suffix_ids)
        ids = np.concatenate([self._held, as_ids(suffix_ids[already:])])
        text = self._text + suffix
        faithful = fresh == text and already <= 1
        mismatch = None if faithful else shared_length(ids, as_ids(self._tokenize(fresh, True)))
        return Prompt(ids, turn, added, mismatch), text

    def _without_end(self, text: str, ids: IdArray) -> str:
        """The answer less a sampled end token's own piece, which is not part of what was said."""
        if not len(ids) or int(ids[-1]) not in self._eog_ids:
            return text
        said, bracket, rest = text.rpartition("<")
        return said if bracket and self._tokenize(bracket + rest, True) == [int(ids[-1])] else text

    def _sampled_already(self, suffix: list[int]) -> int:
        """How many ids at the suffix's start the model has sampled itself: its end token, and what may precede it.

        Some templates put a space before the end token; the model does not, and a second end token must not follow.
        """
        end = int(self._held[-1])
        return suffix[:3].index(end) + 1 if end in self._eog_ids and end in suffix[:3] else 0

    def _execute(self, call: ToolCall) -> ToolResult:
        if call.arguments is None:
            return protocol.error_result(call)
        if self._world is not None:
            return self._world.call(call.name, call.arguments)
        for message in self._recorded:
            if message.name in (call.name, None):
                self._recorded.remove(message)
                return ToolResult(call.name, message.content, True)
        return protocol.result(call.name, {"error": "The recording has no further result of this tool."}, ok=False)

    def _recorded_that_follow(self, called: bool) -> list[Message]:
        """An import's results that are given though they were not asked for, so that later turns can refer to them."""
        if called and self._requests_in_turn < REQUESTS_PER_TURN - 1:
            return []
        following, self._recorded = self._recorded, []
        return following
