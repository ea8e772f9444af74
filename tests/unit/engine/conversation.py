"""Real conversations with an engine: what the tests of bits and counts ask."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.base import Engine, GenerateRequest, Progress, Sampling, State
from app.trajectory.step import Step, as_ids
from app.trajectory.trajectory import RequestReport

OPENING = "<|im_start|>system\nYou help with a calendar.<|im_end|>\n"
TURNS = (
    "List five animals and say one thing about each.",
    "Now sort them by size, the largest first.",
    "Which of them can swim? Explain in two sentences.",
)


@dataclass(frozen=True, eq=False)
class Answer:
    prompt: list[int]
    steps: list[Step]
    progress: list[Progress]
    report: RequestReport

    @property
    def ids(self) -> list[int]:
        return [step.token_id for step in self.steps]

    @property
    def bits(self) -> NDArray[np.uint32]:
        """Every logprob of the answer, rivals included, as raw float32 bits."""
        values = [value for step in self.steps for value in (step.logprob, *(rival.logprob for rival in step.rivals))]
        return np.asarray(values, np.float32).view(np.uint32)

    def same_as(self, other: Answer) -> bool:
        return self.ids == other.ids and np.array_equal(self.bits, other.bits)


def ask(state: State, prompt: Sequence[int], max_tokens: int = 24, sampling: Sampling | None = None) -> Answer:
    request = GenerateRequest(as_ids(prompt), max_tokens, sampling or Sampling())
    items = list(state.generate(request, threading.Event()))
    report = items[-1]
    assert isinstance(report, RequestReport)
    return Answer(
        list(prompt),
        [item for item in items if isinstance(item, Step)],
        [item for item in items if isinstance(item, Progress)],
        report,
    )


def first_prompt(engine: Engine, turn: str = TURNS[0]) -> list[int]:
    return engine.tokenize(f"{OPENING}<|im_start|>user\n{turn}<|im_end|>\n<|im_start|>assistant\n", special=True)


def next_prompt(engine: Engine, answer: Answer, turn: str) -> list[int]:
    """Tokens in, tokens out: the last prompt, the sampled ids, and the template's suffix."""
    end = "" if answer.ids[-1] in engine.describe().eog_ids else "<|im_end|>"
    suffix = f"{end}\n<|im_start|>user\n{turn}<|im_end|>\n<|im_start|>assistant\n"
    return answer.prompt + answer.ids + engine.tokenize(suffix, special=True)


def converse(engine: Engine, state: State, max_tokens: int = 24) -> list[Answer]:
    """All turns on one state: the cached path."""
    answers: list[Answer] = []
    for turn in TURNS:
        prompt = next_prompt(engine, answers[-1], turn) if answers else first_prompt(engine, turn)
        answers.append(ask(state, prompt, max_tokens))
    return answers
