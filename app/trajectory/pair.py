"""Two trajectories of one episode, and what comparing them says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from app.trajectory.trajectory import Trajectory

NEAR_TIE_NATS = 0.1
"""Recompute margin below which a step counts as a near tie, unless a setting says otherwise (DESIGN 2)."""


Names = tuple[str, str]
"""What the two sides of a pair are called; the second is the one that margins are taken from."""

PATH_NAMES: Names = ("cached", "recompute")

_ORDINALS = ("first", "second", "third")


def run_names(runs: int) -> Names:
    """The sides of a pair of runs of one path: the last of `runs` (at least 2), and the first as the reference."""
    last = f"{_ORDINALS[runs - 1]} run" if runs <= len(_ORDINALS) else f"run {runs}"
    return last, "first run"


class ForkKind(StrEnum):
    """What differed first (STUDY: Episode diverged)."""

    PROMPT = "prompt"
    TOKEN = "token"
    LENGTH = "length"
    REQUESTS = "requests"


@dataclass(frozen=True, slots=True)
class ForkSide:
    """The step of one path at the fork. `margin` in nats, None where not reported."""

    token_id: int
    piece: bytes
    logprob: float | None
    margin: float | None


@dataclass(frozen=True, slots=True)
class Fork:
    """The first difference of two trajectories.

    `request` and `step` are indices from 0; a person reads them from 1. `step` is the prompt position where kind is
    PROMPT, None where kind is REQUESTS. A side is None where that path has no step there.
    """

    kind: ForkKind
    request: int
    step: int | None
    cached: ForkSide | None
    recompute: ForkSide | None

    @property
    def label(self) -> str:
        """request:token as a person counts them, e.g. "3:17"; "3" where there is no step."""
        return f"{self.request + 1}" if self.step is None else f"{self.request + 1}:{self.step + 1}"

    @property
    def place(self) -> str:
        """The same in words, e.g. "request 3, token 17"; a prompt's token is said to be one."""
        what = "prompt token" if self.kind is ForkKind.PROMPT else "token"
        return f"request {self.request + 1}" + ("" if self.step is None else f", {what} {self.step + 1}")


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often one path was run again and how often it reproduced its first run bit for bit (ids and logprobs).

    `runs` counts all runs, the first included; `exact` is None where there is only one.
    """

    runs: int
    exact: bool | None
    first_difference: str = ""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """99th percentile of drift in nats over an experiment's shared, non-flip steps; `nats` is None below 100 steps."""

    nats: float | None
    steps: int


@dataclass(frozen=True)
class Comparison:
    """What comparing a pair says, by STUDY's definitions. Margins and drift are in nats.

    `shared_steps` counts steps with identical prompt ids and preceding answer ids in requests that hit the cache on
    the cached path. `drift_max` is the largest |change of logprob of the same token| before the fork over all aligned
    steps; `margin_change_median` the median |margin_cached - margin_recompute| at shared, non-flip steps. Both are None
    where nothing could be compared. `near_ties` counts steps before and at the fork with recompute margin below the
    threshold. `logprobs_equal` is True where every aligned logprob is bit-identical. `problems` are the reasons why
    the pair is invalid; `unproven` why it is not known whether the paths were what they claim to be.

    A pair of experiment `repeat` has `names` other than PATH_NAMES: `cached` is then a later run of the same path in
    the same server history, `recompute` its first run. `level` is what the sides were compared by: "ids", "bytes" or
    "text", where equal ids mean equal pieces of text and no more.
    """

    episode_id: str
    family: str
    fork: Fork | None
    logprobs_equal: bool
    shared_steps: int
    aligned_steps: int
    drift_max: float | None
    margin_change_median: float | None
    near_ties: int
    tool_calls_changed: bool
    outcome_changed: bool
    repeats: Mapping[str, Repeats] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    names: Names = PATH_NAMES
    level: str = "ids"

    @property
    def is_run_to_run(self) -> bool:
        """Whether one path was served twice, instead of two paths once each."""
        return self.names != PATH_NAMES

    @property
    def sides(self) -> Names:
        """The sides as a sentence names them, e.g. "the cached path" or "the second run"."""
        end = "" if self.is_run_to_run else " path"
        return f"the {self.names[0]}{end}", f"the {self.names[1]}{end}"

    @property
    def valid(self) -> bool:
        """Whether the pair may be counted: nothing wrong and nothing unproven."""
        return not self.problems and not self.unproven


@dataclass(frozen=True)
class Verdict:
    """The plain sentence over a pair.

    `code` is a cause class of the field (N numeric, S state, A accounting, P prompts, O observation), "fork" (forked,
    but nothing decides between the classes, e.g. not repeated yet) or "equal", "drift" (equal tokens, unequal
    logprobs), "invalid", "unproven", "open" (a side is not finished). `rule` prints the rule that gave the code, with
    the numbers that went in.
    """

    code: str
    headline: str
    detail: str
    rule: str


@dataclass(frozen=True, eq=False)
class Pair:
    """Two trajectories of one episode. `pieces` gives the raw bytes of every token id that either side mentions."""

    cached: Trajectory
    recompute: Trajectory
    comparison: Comparison
    verdict: Verdict
    noise_floor: NoiseFloor
    pieces: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        """What the two sides are called: PATH_NAMES, or those of two runs of one path."""
        return self.comparison.names


@dataclass(frozen=True, slots=True)
class PairRow:
    """One line of the pair table: everything a person filters and sorts by. Numbers count from 0 as in `Fork`."""

    experiment_id: int
    episode_id: str
    family: str
    repeat: int
    diverged: bool | None
    kind: str | None
    request: int | None
    step: int | None
    margin: float | None
    near_ties: int
    tool_calls_changed: bool
    outcome_changed: bool
    valid: bool | None
    code: str
    headline: str
    problems: tuple[str, ...] = ()
