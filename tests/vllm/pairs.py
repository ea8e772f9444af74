"""Conversations on both paths of a real server, and what they tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.engine.base import Engine, State
from tests.unit.engine.conversation import Answer, ask, first_prompt, next_prompt

TOKENS = 64
CONVERSATIONS = (
    (
        "List five animals and say one thing about each.",
        "Now sort them by size, the largest first.",
        "Which of them can swim? Explain in two sentences.",
        "Write a short story about the smallest of them.",
    ),
    (
        "What is the difference between a lake and a sea?",
        "Give three examples of each.",
        "Which of them would you visit in winter, and why?",
        "Plan a journey of two days to it.",
    ),
    (
        "Explain what a prime number is to a child.",
        "Which numbers below thirty are prime?",
        "Why is one not a prime number?",
        "Write a little poem about the number seven.",
    ),
)


def converse(engine: Engine, turns: tuple[str, ...], state_of: Callable[[], State]) -> list[Answer]:
    """All turns, each path from its own answers."""
    answers: list[Answer] = []
    for turn in turns:
        prompt = next_prompt(engine, answers[-1], turn) if answers else first_prompt(engine, turn)
        answers.append(ask(state_of(), prompt, TOKENS))
    return answers


@dataclass(frozen=True)
class Difference:
    """Where two runs of one conversation part, from 1 (None: nowhere), the recompute margin there and the largest drift
    in nats before it."""

    fork: tuple[int, int] | None
    margin: float | None
    drift: float


def difference(left: list[Answer], right: list[Answer]) -> Difference:
    """Step by step up to the fork; drift is the change of a shared token's logprob."""
    drift = 0.0
    for request, (one, other) in enumerate(zip(left, right, strict=True), start=1):
        for step, (a, b) in enumerate(zip(one.steps, other.steps, strict=False), start=1):
            if a.token_id != b.token_id:
                return Difference((request, step), b.margin, drift)
            assert a.logprob is not None and b.logprob is not None
            drift = max(drift, abs(a.logprob - b.logprob))
        if len(one.steps) != len(other.steps):
            return Difference((request, min(len(one.steps), len(other.steps)) + 1), None, drift)
    return Difference(None, None, drift)
