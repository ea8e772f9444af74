"""What the doctor asks an engine: one prompt around an unrelated one, and short conversations on both paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from app.engine.base import Engine, GenerateRequest, State, StopFlag
from app.errors import EngineDied, EngineError
from app.trajectory.compare import bit_identical, compare, drift
from app.trajectory.episode import Episode, Message
from app.trajectory.pair import Comparison
from app.trajectory.step import IdArray, MarginArray, Step, StepBlock, as_ids
from app.trajectory.trajectory import Path, Prompt, Request, RequestReport, Status, Trajectory
from app.workload import builtin
from app.workload.chat import ChatTemplate
from app.workload.dialogue import Dialogue

RIVALS = 5
MAX_TOKENS = 32
MOST_TRIES = 8
TILE = 16
"""Seen on llama.cpp: where a prompt fills whole tiles of its kernels, its last token gets the very bits that it gets
when it is evaluated alone. A multiple of this hides what every other length shows."""

LEAST_STEPS = 4
"""An answer to A of fewer tokens shows too little: another A is taken."""

LONG_TURNS = 20
"""How many users' words make A and X: some 200 tokens.

A server-level cache loads a conversation only where the prompt keeps a quarter of it, so they are long against an
answer of MAX_TOKENS; it is asked only where half of what the slot holds would be lost, so they share nothing
(ENGINES.md).
"""

_SYSTEM = "You are a careful assistant. Answer in two or three whole sentences."
_QUESTION = "Which of these requests is the most urgent one? Explain why."


@dataclass(frozen=True, eq=False)
class Asked:
    """One request and what came back."""

    prompt: IdArray
    steps: StepBlock
    report: RequestReport

    @property
    def cached(self) -> int | None:
        """Prompt tokens that the engine says came from the cache."""
        return self.report.cached_tokens

    @property
    def told(self) -> str:
        """How much came from the cache, e.g. "214 of 215 tokens from the cache"."""
        known = "an unreported number" if self.cached is None else f"{self.cached:,}"
        return f"{known} of {len(self.prompt):,} tokens from the cache"

    def as_trajectory(self, path: Path) -> Trajectory:
        """The request as an episode of its own, to be compared by the study's definitions."""
        request = Request(0, Prompt(self.prompt, 0, ()), self.steps, self.report)
        return Trajectory(0, 0, "probe", "probe", path, 1, Status.DONE, (request,))


def comparison(asked: Asked, reference: Asked) -> Comparison:
    """Two answers to one prompt compared; margins are the reference's."""
    return compare(asked.as_trajectory(Path.CACHED), reference.as_trajectory(Path.RECOMPUTE))


def difference(asked: Asked, reference: Asked) -> str:
    """Where an answer differs from another one to the same prompt; "" where ids and logprobs are the same bits."""
    return bit_identical(asked.as_trajectory(Path.CACHED), reference.as_trajectory(Path.CACHED))


@dataclass(frozen=True, eq=False)
class Around:
    """A prompt A: `cold`, `at_once` again, and again `after` an unrelated X."""

    cold: Asked
    at_once: Asked
    after: Asked


@dataclass(frozen=True, eq=False)
class Probe:
    """A conversation of two requests, served twice on both paths; an empty tuple where a path was not served.

    `opening` has the first request, recomputed each time. `cached` and `recompute` have the second: once from the cache
    that the first left, once without it.
    """

    name: str
    opening: tuple[Asked, ...]
    cached: tuple[Asked, ...]
    recompute: tuple[Asked, ...]

    @property
    def comparison(self) -> Comparison | None:
        """Cached against recompute; None where one of them was not served."""
        return comparison(self.cached[0], self.recompute[0]) if self.cached and self.recompute else None

    @property
    def difference(self) -> str:
        """Where cached first differs from recompute; "" where nothing differs, or one of them was not served."""
        return difference(self.cached[0], self.recompute[0]) if self.cached and self.recompute else ""

    @property
    def drift(self) -> MarginArray:
        """|change of logprob| at the steps that both paths share, nats."""
        if not (self.cached and self.recompute):
            return np.empty(0)
        found = drift(self.cached[0].as_trajectory(Path.CACHED), self.recompute[0].as_trajectory(Path.RECOMPUTE))
        known: MarginArray = found[~np.isnan(found)]
        return known


@dataclass
class Asker:
    """Asks `engine`, tells `tell` what it is at, and ends with EngineDied when `stop` is set."""

    engine: Engine
    tell: Callable[[str], None]
    stop: StopFlag
    everything: list[Asked] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start the renderer of the model's chat template."""
        model = self.engine.describe().model
        template = model.get("chat_template")
        ends = [str(model.get(name) or "") for name in ("bos_token", "eos_token")]
        self._template = ChatTemplate(str(template) if template else None, *ends)

    def close(self) -> None:
        """End the renderer's process; the engine is not ours."""
        self._template.close()

    def around(self, *, fresh: bool) -> Around:
        """A, A, X, A: on one State, or each on a `fresh` one, as an engine serves that takes nothing from its cache."""
        self.tell("Asking one prompt twice, an unrelated one, and the first again…")
        prompt, other = self._long_prompts()
        self.engine.begin_pass()
        cold, at_once, _, after = self._serve([prompt, prompt, other, prompt], fresh=fresh)
        return Around(cold, at_once, after)

    def probes(self, count: int, *, cached: bool, recompute: bool) -> Iterator[Probe]:
        """`count` conversations, on the paths that are asked for. Raises WorkloadError where the template fails."""
        self.engine.begin_pass()
        for number, episode in enumerate(_conversations(count), start=1):
            self.tell(f"Probe {number} of {count}…")
            yield self._probe(episode, cached=cached, recompute=recompute)

    def _probe(self, episode: Episode, *, cached: bool, recompute: bool) -> Probe:
        dialogue = self._dialogue(episode)
        first = _next(dialogue)
        state = self.engine.open_state()
        try:
            opening = [self._ask(state, first)]
            dialogue.take_answer(opening[0].steps.token_ids, opening[0].steps.text, opening[0].report.finish_reason)
            second = _next(dialogue)
            served = [self._ask(state, second)] if cached else []
        finally:
            state.close()
        fresh = self._serve([second, second] if recompute else [], fresh=True)
        again = self._serve([first, second] if cached else [first], fresh=False)
        return Probe(episode.id, (*opening, again[0]), (*served, *again[1:]), tuple(fresh))

    def _serve(self, prompts: Sequence[IdArray], *, fresh: bool) -> list[Asked]:
        """The prompts one after the other, on one State or each on a fresh one."""
        answers: list[Asked] = []
        state: State | None = None
        try:
            for prompt in prompts:
                if state is not None and fresh:
                    state.close()
                    state = None
                state = state or self.engine.open_state()
                answers.append(self._ask(state, prompt))
        finally:
            if state is not None:
                state.close()
        return answers

    def _ask(self, state: State, prompt: IdArray) -> Asked:
        items = list(state.generate(GenerateRequest(prompt, MAX_TOKENS, rivals=RIVALS), self.stop))
        if self.stop.is_set():
            raise EngineDied("The examination was stopped.", "Start it again.")
        report = items[-1] if items else None
        if not isinstance(report, RequestReport):
            raise EngineError("The engine ended its answer without a report.", "Start the examination again.")
        asked = Asked(prompt, StepBlock.pack([item for item in items if isinstance(item, Step)], RIVALS), report)
        self.everything.append(asked)
        return asked

    def _long_prompts(self) -> tuple[IdArray, IdArray]:
        """A, a question about much that users say, with an answer of some length; X, the same of others as plain text.

        They differ from the first token on.
        """
        turns = [turn for episode in builtin.episodes() for turn in episode.turns]
        for tried in range(MOST_TRIES):
            said = turns[tried * LONG_TURNS : (tried + 1) * LONG_TURNS]
            first = _next(self._dialogue(_conversation("a", "\n".join([*said, _QUESTION]))))
            if len(first) % TILE and len(self._serve([first], fresh=True)[0].steps) >= LEAST_STEPS:
                break
        for start in range(MOST_TRIES * LONG_TURNS, len(turns) - LONG_TURNS):
            text = "\n".join(turns[start : start + LONG_TURNS])
            other = as_ids(self.engine.tokenize(text, special=False))
            if other[0] != first[0]:
                return first, other
        raise EngineError("The engine's tokenizer gives every text the same first token.")

    def _dialogue(self, episode: Episode) -> Dialogue:
        engine = self.engine
        eog_ids = engine.describe().eog_ids
        return Dialogue(episode, self._template, lambda text, special: engine.tokenize(text, special=special), eog_ids)


def _conversations(count: int) -> Iterator[Episode]:
    """Two turns each of the built-in episodes, without their tools: short prompts, so that many fit into minutes."""
    for episode in builtin.episodes()[:count]:
        yield _conversation(episode.id, *episode.turns[:2])


def _conversation(name: str, *turns: str) -> Episode:
    return Episode(name, "probe", (Message("system", _SYSTEM),), turns)


def _next(dialogue: Dialogue) -> IdArray:
    prompt = dialogue.next_prompt()
    if prompt is None:
        raise EngineError("A probe's conversation ended early.")
    return prompt.ids
