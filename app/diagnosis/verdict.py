"""The verdict on a pair: a cause class of REPORTS 1 where one is proven, and the rule that gave it.

Two thresholds, both in nats, decide what a fork's margins mean:

    reach   what drift can turn: 2 x max(noise floor, drift before the fork), because either rival may drift by it.
            While the noise floor is unknown, at least the near-tie threshold.
    far     5 x reach, at least the near-tie threshold: beyond it nobody would speak of drift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.diagnosis.wording import detail, headline, met, nats
from app.trajectory.compare import drift
from app.trajectory.pair import Comparison, Fork, ForkKind, NoiseFloor, Verdict
from app.trajectory.provenance import expected_cached
from app.trajectory.trajectory import Status, Trajectory

FAR = 5
"""How many times `reach` a margin must exceed to be far above drift."""


def judge(
    comparison: Comparison, cached: Trajectory, recompute: Trajectory, noise: NoiseFloor, *, near_tie: float
) -> Verdict:
    """Judge a compared pair; `near_tie` in nats. Everything said stands in what was recorded; nothing is run."""
    code, rule = _Case(comparison, cached, recompute, noise, near_tie).classify()
    return Verdict(
        code,
        headline(code, comparison, cached, recompute, near_tie),
        detail(code, comparison, cached, recompute, noise),
        rule,
    )


@dataclass(frozen=True)
class _Case:
    comparison: Comparison
    cached: Trajectory
    recompute: Trajectory
    noise: NoiseFloor
    near_tie: float

    def classify(self) -> tuple[str, str]:
        """(code, rule) of the first rule that applies."""
        comparison = self.comparison
        if self.cached.status is not Status.DONE or self.recompute.status is not Status.DONE:
            sides = zip(comparison.names, (self.cached, self.recompute), strict=True)
            return "open", f"A side is not finished: {', '.join(f'{name} {side.status}' for name, side in sides)}."
        if comparison.problems:
            return "invalid", f"A pair counts only where nothing is wrong; here: {'; '.join(comparison.problems)}."
        if comparison.unproven:
            return "unproven", f"A pair counts only where its paths are proven; here: {'; '.join(comparison.unproven)}."
        if comparison.fork is None:
            return self._without_fork()
        match comparison.fork.kind:
            case ForkKind.PROMPT:
                return "P", self._prompts(comparison.fork)
            case ForkKind.TOKEN:
                return self._token(comparison.fork)
            case _:
                return (
                    "O",
                    "O, observation: one side has no token at the fork, so there are no two margins to judge by.",
                )

    def _without_fork(self) -> tuple[str, str]:
        comparison, steps = self.comparison, self.comparison.aligned_steps
        if comparison.logprobs_equal and steps:
            return "equal", f"All {steps:,} tokens agree, and their logprobs and rivals bit for bit."
        unknown = int(np.isnan(drift(self.cached, self.recompute)).sum())
        if not comparison.drift_max and (unknown or not steps):
            return "unproven", f"All {steps:,} tokens agree, but {unknown:,} of them lack a logprob to compare."
        largest = nats(comparison.drift_max or 0.0)
        return "drift", f"All {steps:,} tokens agree, their logprobs or rivals do not; largest drift {largest} nats."

    def _prompts(self, fork: Fork) -> str:
        rewritten = [
            f"{name}'s prompt leaves its own history at token {mismatch + 1}"
            for name, side in zip(self.comparison.sides, (self.cached, self.recompute), strict=True)
            if (mismatch := side.requests[fork.request].prompt.mismatch) is not None
        ]
        why = "; ".join(rewritten) or "both continue their own histories, so what was added differs"
        return f"P, prompts: the prompts of request {fork.request + 1} are not the same ids; {why}."

    def _token(self, fork: Fork) -> tuple[str, str]:
        assert fork.cached is not None and fork.recompute is not None
        accounting = self._accounting(fork.request)
        if accounting:
            return "A", f"A, accounting: {accounting}."
        margin = fork.recompute.margin
        if margin is None:
            return "O", f"O, observation: {self.comparison.sides[1]}'s margin at the fork was not reported."
        if not (_is_greedy(self.cached, fork) and _is_greedy(self.recompute, fork)):
            return "fork", "The token at the fork was drawn, not the most probable one: its margin decides nothing."
        return self._by_margin(margin, max(margin, fork.cached.margin or 0.0))

    def _by_margin(self, margin: float, widest: float) -> tuple[str, str]:
        """Decide between numeric and state by the recompute margin and the wider one of both paths."""
        exact = {path: r.exact for path, r in self.comparison.repeats.items()}
        against = self.comparison.names[1]
        reach, source = self._reach()
        far = max(FAR * reach, self.near_tie)
        if exact.get("recompute") is False:
            return (
                "fork",
                "The recompute path does not repeat itself, so a difference between the paths proves nothing.",
            )
        if widest > far:
            return (
                "S",
                f"S, state: a margin of {nats(widest)} nats at the fork is far above {nats(far)} ({FAR} x {source}).",
            )
        within = f"{against} margin {nats(margin)} nats against {nats(reach)} ({source})"
        if margin > reach:
            return "fork", f"Neither numeric nor state: {within} is more than drift turns, yet not {FAR} times that."
        if self.comparison.is_run_to_run:
            return "fork", (
                f"Drift can turn it ({within}), and both runs took the cached path: "
                f"what differed is the cache that they met. {met(self.cached, self.recompute, self.comparison.names)}"
            )
        if exact.get("recompute") and exact.get("cached"):
            return "N", f"N, numeric: both paths repeat exactly, and drift can turn the fork: {within}."
        why = "the cached path does not repeat itself" if exact.get("cached") is False else "it is not repeated yet"
        return "fork", f"It looks numeric ({within}), but {why}: N needs both paths to repeat exactly."

    def _reach(self) -> tuple[float, str]:
        seen, floor = self.comparison.drift_max or 0.0, self.noise.nats
        if floor is None:
            source = (
                f"larger of near tie {nats(self.near_tie)} and 2 x drift {nats(seen)}, the noise floor being unknown"
            )
            return max(self.near_tie, 2 * seen), source
        return 2 * max(floor, seen), f"2 x larger of noise floor {nats(floor)} and drift {nats(seen)}"

    def _accounting(self, index: int) -> str:
        """How the cached path's count at this request contradicts the prefix that its state can share; "" else."""
        request = self.cached.requests[index]
        reported = request.report.cached_tokens if request.report else None
        if index == 0 or reported is None:
            return ""
        expected = expected_cached(self.cached.requests[index - 1], request)
        if reported > expected and self.comparison.is_run_to_run:
            return ""  # what the first run left behind may well serve the next
        if reported > expected or (reported == 0 and expected):
            return f"request {index + 1} reports {reported:,} cached tokens, its state can share {expected:,}"
        return ""


def _is_greedy(side: Trajectory, fork: Fork) -> bool:
    """Whether the token at the fork is the most probable one of its path (or as probable, in an exact tie)."""
    assert fork.step is not None
    steps = side.requests[fork.request].steps
    return not (steps.rival_logprobs[fork.step, :1] > steps.logprobs[fork.step]).any()
