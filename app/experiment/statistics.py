"""What many pairs say together, with how sure that is (STUDY: Words). Invalid and unfinished pairs are left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from app.trajectory.compare import margin_changes, shared_mask
from app.trajectory.pair import ForkKind, Pair
from app.trajectory.step import MarginArray
from app.trajectory.trajectory import Status

MARGIN_BINS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, float("inf"))
"""Edges of the recompute-margin bins in nats; a bin holds its lower edge (STUDY: Flip hazard)."""

LEAST_BIN_STEPS = 20
"""An interval is quoted only where a bin has so many steps."""

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """Clopper-Pearson interval of a share, 95 %."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class HazardBin:
    """Flips among the shared steps whose recompute margin lies in [low, high) nats."""

    low: float
    high: float
    flips: int
    steps: int
    interval: Interval | None

    @property
    def hazard(self) -> float | None:
        """Flips per step; None where the bin is empty."""
        return self.flips / self.steps if self.steps else None


@dataclass(frozen=True)
class Summary:
    """`pairs` were counted, `left_out` were invalid, unproven or unfinished.

    `interval` is the two-sided one of the share that forked, `upper_bound` the one-sided 95 % bound, given where none
    forked (STUDY: Run-to-run divergence). Medians are in nats: of the recompute margin at token forks, and of the
    change of margin at shared, non-flip steps. `below_01` and `below_05` are the shares of shared steps with recompute
    margin < 0.1 and < 0.5 nats. None where there is nothing to count.
    """

    pairs: int
    left_out: int
    forked: int
    interval: Interval | None
    upper_bound: float | None
    shared_steps: int
    flips: int
    hazard: tuple[HazardBin, ...]
    median_margin_at_forks: float | None
    median_margin_change: float | None
    below_01: float | None
    below_05: float | None

    @property
    def share(self) -> float | None:
        """Share of the counted pairs that forked."""
        return self.forked / self.pairs if self.pairs else None


def summarise(pairs: Iterable[Pair]) -> Summary:
    """Count and measure; takes the pairs one by one, so that a generator may load them."""
    counted = left_out = forked = 0
    margins, changes, flipped, at_forks = [np.empty(0)], [np.empty(0)], [np.empty(0)], list[float]()
    for pair in pairs:
        if not _counts(pair):
            left_out += 1
            continue
        counted += 1
        fork = pair.comparison.fork
        forked += fork is not None
        shared = shared_mask(pair.cached, pair.recompute)
        margins.append(pair.recompute.margins[: len(shared)][shared])
        changes.append(margin_changes(pair.cached, pair.recompute)[shared])
        if fork is not None and fork.kind is ForkKind.TOKEN:
            flipped.append(margins[-1][-1:] if shared[-1] else np.empty(0))
            if fork.recompute is not None and fork.recompute.margin is not None:
                at_forks.append(fork.recompute.margin)
    steps, flips = np.concatenate(margins), np.concatenate(flipped)
    return Summary(
        pairs=counted,
        left_out=left_out,
        forked=forked,
        interval=share_interval(forked, counted),
        upper_bound=upper_bound(counted) if counted and not forked else None,
        shared_steps=len(steps),
        flips=len(flips),
        hazard=_hazard(steps, flips),
        median_margin_at_forks=_median(np.asarray(at_forks)),
        median_margin_change=_median(np.concatenate(changes)),
        below_01=_share_below(steps, 0.1),
        below_05=_share_below(steps, 0.5),
    )


def share_interval(count: int, of: int) -> Interval | None:
    """Two-sided 95 % Clopper-Pearson interval of count / of; None of nothing."""
    if not of:
        return None
    from scipy.stats import binomtest  # takes a third of a second to import: not at start-up

    found = binomtest(count, of).proportion_ci(CONFIDENCE, method="exact")
    return Interval(float(found.low), float(found.high))


def upper_bound(of: int) -> float:
    """One-sided 95 % Clopper-Pearson bound of a share of which 0 of `of` were seen (0 of 800: 0.37 %)."""
    from scipy.stats import binomtest

    return float(binomtest(0, of, alternative="less").proportion_ci(CONFIDENCE, method="exact").high)


def _counts(pair: Pair) -> bool:
    finished = pair.cached.status is Status.DONE and pair.recompute.status is Status.DONE
    return finished and pair.comparison.valid


def _hazard(steps: MarginArray, flips: MarginArray) -> tuple[HazardBin, ...]:
    """Steps of unknown margin are in no bin."""
    bins = []
    for low, high in pairwise(MARGIN_BINS):
        total, flipped = (int(((values >= low) & (values < high)).sum()) for values in (steps, flips))
        interval = share_interval(flipped, total) if total >= LEAST_BIN_STEPS else None
        bins.append(HazardBin(low, high, flipped, total, interval))
    return tuple(bins)


def _median(values: MarginArray) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None


def _share_below(margins: MarginArray, nats: float) -> float | None:
    known = margins[~np.isnan(margins)]
    return float((known < nats).mean()) if len(known) else None
