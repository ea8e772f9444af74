"""A run as it goes on: gathers events into trajectories that grow. Knows no Qt.

A request that has ended stays the same object for good, so that whoever lays it out can keep the layout; only the last,
open request of a trajectory is made anew as it grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from app.trajectory.compare import find_fork
from app.trajectory.episode import Outcome
from app.trajectory.events import (
    Event,
    PrefillProgress,
    RequestFinished,
    RequestStarted,
    RunStarted,
    StepsTaken,
    TrajectoryFinished,
    TrajectoryStarted,
)
from app.trajectory.pair import PATH_NAMES, Fork, Names, run_names
from app.trajectory.step import Step, StepBlock
from app.trajectory.trajectory import Path, Prompt, Request, Status, Trajectory

PairKey = tuple[str, int]
"""Episode id and repeat (from 1)."""


class GrowingSteps:
    """Arrays with room to grow: a block shows what is filled, and is never written to again."""

    def __init__(self) -> None:
        self._count = 0
        self._pieces = bytearray()
        self._columns: dict[str, NDArray[np.generic]] = {}

    def extend(self, steps: Sequence[Step]) -> None:
        """Add steps; the number of rival columns is that of the first ones."""
        width = self._columns["rival_ids"].shape[1] if self._columns else None
        packed = StepBlock.pack(steps, width)
        added = {
            "token_ids": packed.token_ids,
            "logprobs": packed.logprobs,
            "rival_ids": packed.rival_ids,
            "rival_logprobs": packed.rival_logprobs,
            "piece_ends": packed.piece_ends + np.int32(len(self._pieces)),
        }
        end = self._count + len(steps)
        for name, values in added.items():
            column = self._columns.get(name)
            if column is None or end > len(column):
                grown = np.empty((max(64, 2 * end), *values.shape[1:]), values.dtype)
                if column is not None:
                    grown[: self._count] = column[: self._count]
                self._columns[name] = column = grown
            column[self._count : end] = values
        self._pieces += packed.piece_bytes
        self._count = end

    def block(self) -> StepBlock:
        """All steps so far."""
        if not self._columns:
            return StepBlock.empty()
        filled = {name: column[: self._count] for name, column in self._columns.items()}
        return StepBlock(piece_bytes=bytes(self._pieces), **filled)  # type: ignore[arg-type]  # dtypes by name


class GrowingTrajectory:
    """One trajectory, from its first event to its last."""

    def __init__(self, started: TrajectoryStarted) -> None:
        self.started = started
        self.prefill: PrefillProgress | None = None
        self._finished: list[Request] = []
        self._prompt: Prompt | None = None
        self._steps = GrowingSteps()
        self._status = Status.RUNNING
        self._outcome = Outcome("none")
        self._built: Trajectory | None = None

    def take(self, event: Event) -> None:
        """Take one of this trajectory's events."""
        match event:
            case RequestStarted(prompt=prompt):
                self._close_request()
                self._prompt, self._steps = prompt, GrowingSteps()
            case PrefillProgress():
                self.prefill = event if event.done < event.total else None
                return  # nothing that a trajectory holds has changed
            case StepsTaken(steps=steps):
                self.prefill = None
                self._steps.extend(steps)
            case RequestFinished():
                self._close_request(event)
            case TrajectoryFinished(status=status, outcome=outcome):
                self.prefill = None
                self._close_request()
                self._status, self._outcome = status, outcome
        self._built = None

    @property
    def trajectory(self) -> Trajectory:
        """What is there by now, the open request last."""
        if self._built is None:
            requests = list(self._finished)
            if self._prompt is not None:
                requests.append(Request(len(requests), self._prompt, self._steps.block()))
            about = self.started
            self._built = Trajectory(
                about.trajectory_id, 0, about.episode_id, about.family, about.path, about.repeat,
                self._status, tuple(requests), self._outcome,
            )  # fmt: skip
        return self._built

    def _close_request(self, event: RequestFinished | None = None) -> None:
        if self._prompt is None:
            return
        request = Request(len(self._finished), self._prompt, self._steps.block())
        if event is not None:
            request = Request(
                request.index, request.prompt, request.steps, event.report, event.calls, event.results, event.spans
            )
        self._finished.append(request)
        self._prompt = None


@dataclass
class LivePair:
    """The two sides of an episode while it runs; a side is None until it has begun."""

    sides: dict[Path, GrowingTrajectory] = field(default_factory=dict)
    fork: Fork | None = None
    _checked: int = 0

    def side(self, path: Path) -> Trajectory | None:
        """One side as it stands."""
        growing = self.sides.get(path)
        return None if growing is None else growing.trajectory

    def look_for_fork(self) -> None:
        """Set `fork` as soon as both sides hold a position where they differ; a shorter side may still be running."""
        cached, recompute = self.side(Path.CACHED), self.side(Path.RECOMPUTE)
        if self.fork is not None or cached is None or recompute is None:
            return
        both = list(zip(cached.requests, recompute.requests, strict=False))
        for left, right in both[self._checked :]:
            size = min(len(left.steps), len(right.steps))
            same_prompt = np.array_equal(left.prompt.ids, right.prompt.ids)
            if not (same_prompt and np.array_equal(left.steps.token_ids[:size], right.steps.token_ids[:size])):
                self.fork = find_fork(cached, recompute)
                return
            if left.report is None or right.report is None:
                return
            if len(left.steps) != len(right.steps):
                self.fork = find_fork(cached, recompute)
                return
            self._checked += 1
        if cached.status is not Status.RUNNING and recompute.status is not Status.RUNNING:
            self.fork = find_fork(cached, recompute)  # one of them may have made more requests


class LiveRun:
    """All pairs of a run that are not compared yet, and every piece that was seen.

    Where one path is served again and again, its first run takes the recompute path's side, and each later run is the
    pair of that number less one.
    """

    def __init__(self) -> None:
        self.run_to_run = False
        self.pieces: dict[int, bytes] = {}
        self.newest: PairKey | None = None
        self.steps_taken = 0
        self._pairs: dict[PairKey, LivePair] = {}
        self._by_id: dict[int, PairKey] = {}
        self._growing: dict[int, GrowingTrajectory] = {}

    def pair(self, key: PairKey) -> LivePair | None:
        """The pair of an episode and repeat, None where none of its sides has begun."""
        return self._pairs.get(key)

    def growing(self, trajectory_id: int) -> GrowingTrajectory | None:
        """A trajectory of this run by its id."""
        return self._growing.get(trajectory_id)

    def take(self, event: Event) -> PairKey | None:
        """Take an event; the key of the pair that it changed, None where it changed none."""
        if isinstance(event, RunStarted):
            self.run_to_run = event.kind == "repeat"
        if isinstance(event, TrajectoryStarted):
            return self._start(event)
        if not isinstance(event, RequestStarted | PrefillProgress | StepsTaken | RequestFinished | TrajectoryFinished):
            return None
        growing = self._growing.get(event.trajectory_id)
        if growing is None:
            return None
        growing.take(event)
        if isinstance(event, StepsTaken):
            self.steps_taken += len(event.steps)
            for step in event.steps:
                self.pieces[step.token_id] = step.piece
                self.pieces.update((rival.token_id, rival.piece) for rival in step.rivals)
        return self._by_id[event.trajectory_id]

    def names(self, key: PairKey) -> Names:
        """What the sides of a pair are called."""
        return run_names(key[1] + 1) if self.run_to_run else PATH_NAMES

    def forget(self, key: PairKey) -> None:
        """Let a pair go whose place is now the file."""
        pair = self._pairs.pop(key, None)
        for growing in pair.sides.values() if pair else ():
            self._growing.pop(growing.started.trajectory_id, None)
            self._by_id.pop(growing.started.trajectory_id, None)

    def _start(self, event: TrajectoryStarted) -> PairKey:
        if self.run_to_run:
            path = Path.RECOMPUTE if event.repeat == 1 else Path.CACHED
            event = replace(event, path=path, repeat=max(1, event.repeat - 1))
        key = (event.episode_id, event.repeat)
        growing = GrowingTrajectory(event)
        pair = self._pairs.setdefault(key, LivePair())
        pair.sides[event.path] = growing  # a pass that starts over replaces what it had
        self._growing[event.trajectory_id] = growing
        self._by_id[event.trajectory_id] = key
        self.newest = key
        return key
