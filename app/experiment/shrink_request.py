"""What *Shrink* is asked: a recorded fork, how long to search, where the result goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from app.diagnosis.minimise import Asked, Candidate
from app.engine.base import Sampling
from app.experiment.plans import SHRINK
from app.experiment.trial import Target
from app.trajectory.reproducer import Reproducer
from app.trajectory.trajectory import ExperimentInfo


@dataclass(frozen=True)
class ShrinkRequest:
    """What to shrink, for how long, and where the result goes.

    `reproducer` is that of a pair of `experiment`; `family` and `repeat` are its trajectories'. No try begins
    later than `budget_s` seconds after the recorded fork has shown again. `near_tie` is in nats.
    """

    reproducer: Reproducer
    experiment: ExperimentInfo
    family: str
    repeat: int
    budget_s: float
    out: FilePath
    near_tie: float

    @property
    def candidate(self) -> Candidate:
        """Where the search starts: what was recorded."""
        reproducer = self.reproducer
        history = [Asked(tuple(warm_up.prompt_ids.tolist()), warm_up.max_tokens) for warm_up in reproducer.history]
        return Candidate(tuple(history), tuple(reproducer.prompt_ids.tolist()))

    @property
    def target(self) -> Target:
        """The fork that a smaller pair must show too."""
        reproducer, fork = self.reproducer, self.reproducer.fork
        assert fork.step is not None and fork.cached and fork.recompute  # a reproducer's fork is at a token
        return Target(
            reproducer.episode_id, fork.cached.token_id, fork.recompute.token_id, fork.step, reproducer.rivals
        )

    @property
    def sampling(self) -> Sampling:
        """How tokens were chosen."""
        reproducer = self.reproducer
        return Sampling(reproducer.temperature, reproducer.top_k, reproducer.top_p, reproducer.seed)

    def plan(self) -> dict[str, Any]:
        """The experiment's plan with this one pair; "source" names the pair, in another file too."""
        source = {
            "experiment": self.experiment.id,
            "created": self.experiment.created,
            "episode_id": self.reproducer.episode_id,
            "family": self.family,
            "repeat": self.repeat,
        }
        return dict(self.experiment.plan) | {
            "kind": SHRINK,
            "source": source,
            "episode_ids": [self.reproducer.episode_id],
            "repeat": 2,
            "repeat_first": None,
            "max_tokens": self.target.step + 1,
            "out": str(self.out),
        }
