"""How far a run is, in words. Knows no Qt."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.trajectory.events import Estimate, Event, PairCompared, RunStarted, TrajectoryStarted


def time_left(seconds: float | None) -> str:
    """An honest estimate: as coarse as it is uncertain, and no word of it while there is nothing to go by."""
    if seconds is None:
        return ""
    if seconds < 45:
        return "under a minute left"
    if seconds < 90 * 60:
        return f"about {max(1, round(seconds / 60))} min left"
    return f"about {seconds / 3600:.1f} h left"


@dataclass
class RunProgress:
    """Counts what the events say. `fraction` is of all trajectories, repeats included; None until known.

    A run that ends at the first fork has no estimate, only `at_most_s`.
    """

    at_most_s: float | None = None
    episodes: int = 0
    repeats: int = 1
    repeat: int = 1
    compared: set[str] = field(default_factory=set)
    estimate: Estimate | None = None

    def take(self, event: Event) -> bool:
        """Take an event; whether it changed anything."""
        match event:
            case RunStarted():
                self.episodes, self.repeats = event.episodes, event.repeats
            case TrajectoryStarted():
                self.repeat = event.repeat
            case PairCompared():
                self.compared.add(event.row.episode_id)
            case Estimate():
                self.estimate = event
            case _:
                return False
        return True

    @property
    def fraction(self) -> float | None:
        """0 to 1."""
        if self.at_most_s is not None or self.estimate is None or not self.estimate.total:
            return None
        return self.estimate.done / self.estimate.total

    @property
    def text(self) -> str:
        """E.g. "47 of 80 episodes · about 21 min left"."""
        if not self.episodes:
            return ""
        if self.at_most_s is not None:
            done = f"{len(self.compared)} without a fork · " if self.compared else ""
            return f"{done}ends within {self.at_most_s / 60:.0f} min"
        parts = [f"{len(self.compared)} of {self.episodes} episodes"]
        if self.repeat > 1:
            parts.append(f"repeat {self.repeat} of {self.repeats}")
        left = time_left(self.estimate.seconds_left if self.estimate else None)
        return " · ".join([*parts, left] if left else parts)
