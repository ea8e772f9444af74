"""How long a run still takes."""

from __future__ import annotations

import time
from collections.abc import Mapping

from app.trajectory.events import Estimate
from app.trajectory.trajectory import Path


class Clock:
    """An estimate from the mean time of the trajectories that this run has played, path by path.

    `expected` is how many trajectories each path will have.
    """

    def __init__(self, expected: Mapping[Path, int]) -> None:
        self._expected = expected
        self._done: dict[Path, int] = {Path.CACHED: 0, Path.RECOMPUTE: 0}
        self._seconds: dict[Path, list[float]] = {Path.CACHED: [], Path.RECOMPUTE: []}
        self._began = 0.0

    def begin(self) -> None:
        """A trajectory begins."""
        self._began = time.monotonic()

    def end(self, path: Path, skipped: bool) -> None:
        """It has ended; one that was on disk already says nothing of speed."""
        self._done[path] += 1
        if not skipped:
            self._seconds[path].append(time.monotonic() - self._began)

    def estimate(self) -> Estimate:
        """Done, total, and the seconds left once every path with something left to play has been timed."""
        done, total = sum(self._done.values()), sum(self._expected.values())
        left = 0.0
        for path, expected in self._expected.items():
            to_do, seconds = expected - self._done[path], self._seconds[path]
            if to_do and not seconds:
                return Estimate(done, total, None)
            left += to_do * sum(seconds) / max(1, len(seconds))
        return Estimate(done, total, left)
