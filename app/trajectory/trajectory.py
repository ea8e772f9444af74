"""One episode on one path: requests, what the engine reported of each, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from app.trajectory.episode import Message, Outcome, ToolCall, ToolResult
from app.trajectory.step import IdArray, MarginArray, StepBlock


class Path(StrEnum):
    """How the prompt's KV entries came about (STUDY: Path)."""

    CACHED = "cached"
    RECOMPUTE = "recompute"


class Status(StrEnum):
    """Where a pass or trajectory stands. RUNNING found at start-up becomes INTERRUPTED."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Span:
    """A run of prompt positions whose KV entries were written in the same way.

    `kind` is "prefill" (as part of a chunk of `chunk` tokens, 0: chunk sizes not reported), "decode" (one by one, as
    sampled answer tokens) or "unknown" (the engine did not report counts). `writer` names the request that wrote them,
    e.g. "calendar-02 r3", where r counts from 1; spans of one trajectory's own episode and of an earlier episode, or of
    an earlier run ("calendar-02 r3, run 2"), differ by it.
    """

    start: int
    length: int
    kind: str
    writer: str
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class RequestReport:
    """What the engine says of one request; the last thing that `State.generate` yields.

    Counts are tokens; None means "not reported", which is not 0. `chunks` are the sizes of the prefill batches as
    they were evaluated (at most n_ubatch each). `held_before` is how many tokens the state held when the request came.
    `checks` holds the engine's own counters that prove the counts (n_p_eval, n_eval, seq_pos_max); `problem` says
    where they contradict each other, `note` what else a reader must know (e.g. a rewind that became a full
    evaluation). Times are milliseconds by the monotonic clock.
    """

    cached_tokens: int | None
    evaluated_tokens: int | None
    chunks: Sequence[int]
    finish_reason: str  # "stop" | "length" | "cancelled"
    held_before: int | None = None
    slot: int | None = None
    first_token_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    checks: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None
    note: str | None = None
    raw_request: str | None = None
    raw_response: str | None = None


@dataclass(frozen=True, eq=False)
class Prompt:
    """What one request asks: the ids, and where they came from.

    `turn` counts from 0. `added` are the messages that are new since the previous request. `mismatch` is the first
    position where the ids do not continue the previous prompt + answer (None: they continue it, or there is no
    previous request); the model's chat template rewrote history there, or the mode is "chat".
    """

    ids: IdArray
    turn: int
    added: tuple[Message, ...]
    mismatch: int | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """One call to the engine: prompt, answer, report, and what the answer made the tools do.

    `report` is None while the request is open or was interrupted. `spans` say how every prompt position's KV entry
    was written, in order, covering the whole prompt.
    """

    index: int
    prompt: Prompt
    steps: StepBlock
    report: RequestReport | None = None
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    spans: Sequence[Span] = ()


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One episode in one pass. `repeat` counts from 1. `seed` and settings are the pass's."""

    id: int
    pass_id: int
    episode_id: str
    family: str
    path: Path
    repeat: int
    status: Status
    requests: tuple[Request, ...]
    outcome: Outcome = field(default_factory=lambda: Outcome("none"))

    @cached_property
    def step_starts(self) -> IdArray:
        """int32 [requests + 1]: at which step of the episode each request starts; the last entry is the total."""
        return np.concatenate(
            ([0], np.cumsum([len(request.steps) for request in self.requests], dtype=np.int32))
        ).astype(np.int32)

    @cached_property
    def margins(self) -> MarginArray:
        """Top-two margin of every step of the episode in nats, float64 [steps]; NaN where unknown."""
        if not self.requests:
            return np.empty(0)
        return np.concatenate([request.steps.margins for request in self.requests])

    @property
    def step_count(self) -> int:
        """Number of steps in all requests."""
        return int(self.step_starts[-1])


@dataclass(frozen=True)
class PassInfo:
    """One path served once over a list of episodes from one server history.

    `valid` is None while unknown (still running). `invalid_reasons` are sentences of the acceptance checks (STUDY).
    `settings` are the engine's settings on this path, as JSON values.
    """

    id: int
    experiment_id: int
    path: Path
    repeat: int
    status: Status
    episode_ids: tuple[str, ...]
    valid: bool | None = None
    invalid_reasons: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ExperimentInfo:
    """What a file holds under one experiment. `plan` and `environment` are JSON values, sealed when it began."""

    id: int
    title: str
    created: str  # ISO 8601, UTC
    status: Status
    plan: Mapping[str, Any]
    environment: Mapping[str, Any]
