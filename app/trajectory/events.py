"""What a run tells whoever watches it. Plain values: they cross from the runner's thread to the window's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.trajectory.episode import Outcome, ToolCall, ToolResult
from app.trajectory.pair import PairRow
from app.trajectory.reproducer import ReplayResult
from app.trajectory.step import Step
from app.trajectory.trajectory import Path, Prompt, RequestReport, Span, Status


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The experiment has a row on disk; `episodes` pairs will be run, `repeats` times.

    `kind` is "pair", both paths each time, or "repeat", the cached path again and again in one server history;
    "shrink" searches for a smaller pair and records that alone.
    """

    experiment_id: int
    title: str
    episodes: int
    repeats: int
    kind: str = "pair"


@dataclass(frozen=True, slots=True)
class EngineLoading:
    """The engine is being made ready; `sentence` says with what."""

    sentence: str


@dataclass(frozen=True, slots=True)
class TrajectoryStarted:
    """A trajectory has begun. `repeat` counts from 1."""

    trajectory_id: int
    episode_id: str
    family: str
    path: Path
    repeat: int


@dataclass(frozen=True, slots=True)
class RequestStarted:
    """A request goes to the engine; `index` counts from 0 in the trajectory."""

    trajectory_id: int
    index: int
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """`done` of `total` prompt tokens are in the state, `cached` of them came from the cache."""

    trajectory_id: int
    index: int
    done: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class StepsTaken:
    """Steps that are on disk by now, in order."""

    trajectory_id: int
    index: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class RequestFinished:
    """The request's row is on disk."""

    trajectory_id: int
    index: int
    report: RequestReport
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    spans: Sequence[Span]


@dataclass(frozen=True, slots=True)
class TrajectoryFinished:
    """The trajectory has ended."""

    trajectory_id: int
    status: Status
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class PairCompared:
    """Both paths of an episode are on disk and compared."""

    row: PairRow


@dataclass(frozen=True, slots=True)
class PassFinished:
    """A pass was accepted or not, by STUDY's acceptance checks."""

    pass_id: int
    path: Path
    repeat: int
    valid: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """`done` of `total` trajectories; `seconds_left` is None until there is something to estimate from."""

    done: int
    total: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person must know while the run goes on, e.g. that a cached pass starts over."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Again:
    """One path answered the forked request again; `identical` is None while it is being answered."""

    path: Path
    sentence: str
    identical: bool | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recorded fork was asked again on an engine of this machine; `place` is where it was recorded, in words."""

    place: str
    result: ReplayResult


@dataclass(frozen=True, slots=True)
class Shrunk:
    """How far *Shrink* has come: `sentence` says it in words, what is tried now or how it ended included.

    `requests_before` and `requests_now` count the history's and the one that forks; `tokens_before` and `tokens_now`
    are those of all their prompts and of the history's answers. `is_minimal`: no single unit can go any more.
    `engine_seconds` of the `seconds` since the search began were spent waiting for the engine.
    """

    tries: int
    requests_before: int
    requests_now: int
    tokens_before: int
    tokens_now: int
    sentence: str
    is_minimal: bool = False
    seconds: float = 0.0
    engine_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over. `reason`: "complete", "stopped", "forked" or "no fork" (--until-fork), "again", "replayed",
    "shrunk"."""

    experiment_id: int
    reason: str
    episode_id: str | None = None


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The run ended in an error; what was recorded stays."""

    experiment_id: int | None
    message: str
    hint: str


Event = (
    RunStarted
    | EngineLoading
    | TrajectoryStarted
    | RequestStarted
    | PrefillProgress
    | StepsTaken
    | RequestFinished
    | TrajectoryFinished
    | PairCompared
    | PassFinished
    | Estimate
    | Notice
    | Again
    | Replayed
    | Shrunk
    | RunEnded
    | RunFailed
)
