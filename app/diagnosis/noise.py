"""How much the numbers of an experiment move without anything flipping."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from app.trajectory.pair import NoiseFloor
from app.trajectory.step import LogprobArray, MarginArray

LEAST_STEPS = 100
"""Below so many steps a 99th percentile says nothing (DESIGN 2)."""


def noise_floor(drifts: Iterable[MarginArray | LogprobArray]) -> NoiseFloor:
    """99th percentile of drift over an experiment's shared, non-flip steps; unknown (None) below 100 of them.

    `drifts` are in nats, one array a pair; NaN is left out. Source: DESIGN 2.
    """
    every = np.concatenate([np.empty(0), *drifts])
    known = every[np.isfinite(every)]
    floor = float(np.percentile(known, 99)) if len(known) >= LEAST_STEPS else None
    return NoiseFloor(floor, len(known))
