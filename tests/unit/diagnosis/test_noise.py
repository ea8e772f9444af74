"""The noise floor is measured or unknown, never guessed."""

from __future__ import annotations

import numpy as np
import pytest

from app.diagnosis.noise import noise_floor
from app.trajectory.pair import NoiseFloor


def test_the_floor_is_the_99th_percentile_over_all_pairs() -> None:
    floor = noise_floor([np.linspace(0, 0.5, 51), np.linspace(0.51, 1.0, 50)])
    assert floor.steps == 101
    assert floor.nats == pytest.approx(0.99)


def test_below_100_known_steps_the_floor_is_unknown() -> None:
    drifts = np.full(100, 0.25)
    assert noise_floor([drifts]) == NoiseFloor(0.25, 100)
    drifts[7] = np.nan
    assert noise_floor([drifts]) == NoiseFloor(None, 99)
    assert noise_floor([]) == NoiseFloor(None, 0)
