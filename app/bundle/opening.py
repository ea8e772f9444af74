"""An open bundle, read as a file of data is: the same questions, answered from memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.bundle.format import BundleContents
from app.errors import StoreError
from app.trajectory.codec import encode, to_json
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Trajectory

_ZIP = b"PK\3\4"


def is_bundle(path: Path) -> bool:
    """Whether the file begins as a zip does; a Forkpoint file is none."""
    try:
        with path.open("rb") as file:
            return file.read(len(_ZIP)) == _ZIP
    except OSError:
        return False


class BundleReader:
    """The bundle's one experiment, its passes and runs, as `app.store.reader.Reader` gives those of a file.

    What a bundle lacks (the repeats, the pairs that make the noise floor) is answered by `derived` from its cards.
    """

    def __init__(self, path: Path, contents: BundleContents) -> None:
        self._path = path
        self._contents = contents
        runs = [run for part in contents.pairs for run in (part.pair.cached, part.pair.recompute)]
        self._runs = {run.id: run for run in runs}
        passes = [info for part in contents.pairs for info in (part.cached_pass, part.recompute_pass)]
        self._passes = {info.id: info for info in passes}

    def experiments(self) -> list[ExperimentInfo]:
        """The one experiment, planned with the episodes that the bundle has."""
        info = self._contents.experiment
        names = [part.pair.cached.episode_id for part in self._contents.pairs]
        return [replace(info, plan=dict(info.plan) | {"episode_ids": names})]

    def passes(self, experiment_id: int) -> list[PassInfo]:
        """The passes of the bundled runs, the newest first."""
        found = [info for info in self._passes.values() if experiment_id == self._contents.experiment.id]
        return sorted(found, key=lambda info: -info.id)

    def trajectory_ids(self, pass_id: int) -> dict[str, int]:
        """The id of the run of every bundled episode of the pass."""
        return {run.episode_id: run.id for run in self._runs.values() if run.pass_id == pass_id}

    def trajectory(self, trajectory_id: int) -> Trajectory:
        """A run with all its requests. Raises StoreError where there is none."""
        if trajectory_id not in self._runs:
            raise StoreError(f"There is no trajectory {trajectory_id} in {self._path.name}.")
        return self._runs[trajectory_id]

    def pieces(self, experiment_id: int) -> Mapping[int, bytes]:
        """The raw bytes of every token id that a step or a rival mentions; none in a redacted bundle."""
        return self._contents.pairs[0].pair.pieces if experiment_id == self._contents.experiment.id else {}

    def derived(self, experiment_id: int, key: str) -> Any:
        """What the cards recorded: "noise", the experiment's noise floor, "repeats", episode -> path -> Repeats, and
        "earlier", episode -> warm-up requests; None for any other key."""
        if experiment_id != self._contents.experiment.id:
            return None
        pairs = [part.pair for part in self._contents.pairs]
        if key == "noise":
            return to_json(max((pair.noise_floor for pair in pairs), key=lambda floor: floor.steps))
        if key == "repeats":
            return {pair.cached.episode_id: encode(pair.comparison.repeats) for pair in pairs}
        if key == "earlier":
            return {part.pair.cached.episode_id: encode(part.history) for part in self._contents.pairs}
        return None

    def size_bytes(self) -> int:
        """Size of the zip on disk."""
        return self._path.stat().st_size

    def close(self) -> None:
        """Nothing is held open."""
