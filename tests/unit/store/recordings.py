"""Made-up trajectories put into a file the way a run does it, and compared with what is read back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Any

from app.store.reader import Reader
from app.store.recorder import Recorder
from app.trajectory.codec import to_json
from app.trajectory.episode import Message
from app.trajectory.step import as_ids
from app.trajectory.trajectory import Path, Prompt, Trajectory


@contextmanager
def recording(path: FilePath) -> Iterator[Recorder]:
    recorder = Recorder(path)
    try:
        yield recorder
    finally:
        recorder.close()


@contextmanager
def reading(path: FilePath) -> Iterator[Reader]:
    reader = Reader(path)
    try:
        yield reader
    finally:
        reader.close()


def add_pass(recorder: Recorder, path: Path = Path.CACHED, repeat: int = 1) -> tuple[int, int]:
    """A new experiment with one pass; returns their ids."""
    experiment_id = recorder.add_experiment("made up", {"kind": "pair"}, {"cpu": "a cpu", "threads": 1})
    return experiment_id, recorder.add_pass(experiment_id, path, repeat, ["made-00", "made-01"], {"n_ctx": 4096})


def record(recorder: Recorder, pass_id: int, trajectory: Trajectory) -> int:
    """Record all of a trajectory, 64 steps at a time; returns its id in the file."""
    trajectory_id = recorder.start_trajectory(pass_id, trajectory.episode_id, trajectory.family)
    for request in trajectory.requests:
        recorder.start_request(trajectory_id, request.index, request.prompt)
        steps = [request.steps.step(index, {}) for index in range(len(request.steps))]
        for start in range(0, len(steps), 64):
            recorder.append(trajectory_id, request.index, steps[start : start + 64])
        assert request.report is not None
        recorder.finish_request(
            trajectory_id, request.index, request.report, request.calls, request.results, request.spans
        )
    recorder.finish_trajectory(trajectory_id, trajectory.status, trajectory.outcome)
    return trajectory_id


def open_request(recorder: Recorder, pass_id: int) -> int:
    """A new trajectory whose first request waits for steps; returns the trajectory's id."""
    trajectory_id = recorder.start_trajectory(pass_id, "made-00", "made")
    recorder.start_request(trajectory_id, 0, Prompt(as_ids([1, 2, 3]), 0, (Message("user", "Hi."),)))
    return trajectory_id


def content(trajectory: Trajectory) -> dict[str, Any]:
    """All of a trajectory bit for bit, but for the ids that a file gives it."""
    return to_json(trajectory) | {"id": None, "pass_id": None}
