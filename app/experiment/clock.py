"""How long a run still takes."""

from __future__ import annotations

import time

from app.trajectory.events import Estimate
from app.trajectory.trajectory import Path


class Clock:
    """An estimate from the mean time of the trajectories that this run has played, path by path."""

    def __init__(self) -> None:
        self.total = 0
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
        done = sum(self._done.values())
        left = 0.0
        for path, seconds in self._seconds.items():
            to_do = self.total / 2 - self._done[path]
            if to_do and not seconds:
                return Estimate(done, self.total, None)
            left += to_do * sum(seconds) / max(1, len(seconds))
        return Estimate(done, self.total, left)
