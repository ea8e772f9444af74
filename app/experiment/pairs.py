"""From what is on disk to a compared pair, and to the rows of the pair table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.diagnosis.noise import noise_floor
from app.diagnosis.verdict import judge
from app.experiment.acceptance import pair_problems
from app.store.recorder import Recorder
from app.trajectory.codec import decode, from_json, to_json
from app.trajectory.compare import bit_identical, compare, shared_drift
from app.trajectory.pair import PATH_NAMES, Comparison, NoiseFloor, Pair, PairRow, Repeats, run_names
from app.trajectory.reproducer import WarmUp, warm_up_of
from app.trajectory.step import MarginArray
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Path, Status, Trajectory

ROWS = "rows"
NOISE = "noise"
REPEATS = "repeats"
"""Episode -> path -> Repeats, where the repeats themselves are not at hand (in a bundle)."""

EARLIER = "earlier"
"""Episode -> the warm-up requests of earlier episodes, where the episodes themselves are not at hand."""

UNKNOWN_FLOOR = NoiseFloor(None, 0)


class PairSource(Protocol):
    """What pairs are read from: a file of data (app.store.reader.Reader) or a bundle; see there."""

    def experiments(self) -> list[ExperimentInfo]:
        """All experiments, the newest first."""
        ...

    def passes(self, experiment_id: int) -> list[PassInfo]:
        """All passes, the newest first."""
        ...

    def trajectory_ids(self, pass_id: int) -> dict[str, int]:
        """The id of the trajectory that counts of every episode of the pass."""
        ...

    def trajectory(self, trajectory_id: int) -> Trajectory:
        """A trajectory with all its requests."""
        ...

    def pieces(self, experiment_id: int) -> Mapping[int, bytes]:
        """The raw bytes of every token id that a step or a rival mentions."""
        ...

    def derived(self, experiment_id: int, key: str) -> Any:
        """The JSON value kept under `key`, None where there is none."""
        ...

    def size_bytes(self) -> int:
        """What it takes on disk."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


@dataclass
class PairReader:
    """The pairs of one experiment, compared by STUDY's definitions; `near_tie` in nats.

    Rows and noise floor are derived values: kept in the file while a run goes on, computed here where they are absent.
    """

    reader: PairSource
    experiment: ExperimentInfo
    near_tie: float
    _drifts: dict[str, MarginArray] = field(default_factory=dict, init=False)
    _served: dict[int, list[WarmUp]] = field(default_factory=dict, init=False)

    def pair(self, episode_id: str, repeat: int = 1) -> Pair | None:
        """The pair, or None where one of the paths has not begun it."""
        sides = self._sides(episode_id, repeat)
        if sides is None:
            return None
        noise = self.noise_floor()
        comparison = self._compare(*sides)
        verdict = judge(comparison, *sides, noise, near_tie=self.near_tie)
        return Pair(*sides, comparison, verdict, noise, self.reader.pieces(self.experiment.id))

    def earlier(self, run: Trajectory) -> list[WarmUp]:
        """The requests of the episodes that its pass served before this one, in that order."""
        kept = self.reader.derived(self.experiment.id, EARLIER)
        if isinstance(kept, Mapping):
            return list(decode(tuple[WarmUp, ...], kept[run.episode_id]))
        found = self.reader.trajectory_ids(run.pass_id)
        order = next(info.episode_ids for info in self.reader.passes(self.experiment.id) if info.id == run.pass_id)
        before = [found[name] for name in order[: order.index(run.episode_id)] if name in found]
        return [warm_up for trajectory_id in before for warm_up in self._requests_of(trajectory_id)]

    def _requests_of(self, trajectory_id: int) -> list[WarmUp]:
        if trajectory_id not in self._served:
            run = self.reader.trajectory(trajectory_id)
            self._served[trajectory_id] = [warm_up_of(f"{run.episode_id} r{r.index + 1}", r) for r in run.requests]
        return self._served[trajectory_id]

    def rows(self) -> list[PairRow]:
        """A row per planned episode, in the order of the plan."""
        kept = self._kept_rows()
        return [kept.get(episode_id) or self._row(episode_id) for episode_id in self.experiment.plan["episode_ids"]]

    def refresh(self, episode_id: str, recorder: Recorder) -> PairRow | None:
        """Compare an episode anew and keep its row and the noise floor; None where a path has not finished it."""
        sides = self._sides(episode_id, 1)
        if sides is None or any(side.status is not Status.DONE for side in sides):
            return None
        self._drifts[episode_id] = shared_drift(*sides)
        recorder.put_derived(self.experiment.id, NOISE, to_json(self._measured_floor()))
        row = self._row(episode_id)
        kept = self._kept_rows() | {episode_id: row}
        value = {"near_tie": self.near_tie, "rows": [to_json(row) for row in kept.values()]}
        recorder.put_derived(self.experiment.id, ROWS, value)
        return row

    def forget(self, recorder: Recorder) -> None:
        """Drop the kept rows: what they were made of no longer counts."""
        recorder.put_derived(self.experiment.id, ROWS, {"near_tie": self.near_tie, "rows": []})
        self._drifts.clear()

    def noise_floor(self) -> NoiseFloor:
        """The experiment's noise floor over the first repeat of every pair."""
        kept = self.reader.derived(self.experiment.id, NOISE)
        value = from_json(kept) if isinstance(kept, Mapping) else None
        return value if isinstance(value, NoiseFloor) else self._measured_floor()

    def _measured_floor(self) -> NoiseFloor:
        for episode_id in self.experiment.plan["episode_ids"]:
            if episode_id not in self._drifts and (sides := self._sides(episode_id, 1)) is not None:
                self._drifts[episode_id] = shared_drift(*sides)
        return noise_floor(self._drifts.values())

    def _kept_rows(self) -> dict[str, PairRow]:
        kept = self.reader.derived(self.experiment.id, ROWS)
        if not isinstance(kept, Mapping) or kept.get("near_tie") != self.near_tie:
            return {}
        rows = [from_json(value) for value in kept["rows"]]
        return {row.episode_id: row for row in rows if isinstance(row, PairRow)}

    @property
    def _run_to_run(self) -> bool:
        return bool(self.experiment.plan.get("kind") == "repeat")

    def _pass(self, path: Path, repeat: int) -> PassInfo | None:
        passes = self.reader.passes(self.experiment.id)
        return next((info for info in passes if (info.path, info.repeat) == (path, repeat)), None)

    def _trajectory(self, path: Path, repeat: int, episode_id: str) -> Trajectory | None:
        info = self._pass(path, repeat)
        found = self.reader.trajectory_ids(info.id).get(episode_id) if info else None
        return None if found is None else self.reader.trajectory(found)

    def _sides(self, episode_id: str, repeat: int) -> tuple[Trajectory, Trajectory] | None:
        """Both paths of a repeat; of experiment `repeat` the next run and the first."""
        if self._run_to_run:
            cached = self._trajectory(Path.CACHED, repeat + 1, episode_id)
            recompute = self._trajectory(Path.CACHED, 1, episode_id)
        else:
            cached = self._trajectory(Path.CACHED, repeat, episode_id)
            recompute = self._trajectory(Path.RECOMPUTE, repeat, episode_id)
        return None if cached is None or recompute is None else (cached, recompute)

    def _compare(self, cached: Trajectory, recompute: Trajectory) -> Comparison:
        again = self._run_to_run
        problems, unproven = pair_problems(cached, recompute, run_to_run=again)
        problems = list(problems)
        for side in (cached, recompute):
            info = self._pass(side.path, side.repeat)
            if info is not None and info.valid is False and not unproven:
                reason = info.invalid_reasons[0] if info.invalid_reasons else "no reason was kept"
                problems.append(f"the {side.path} pass was not accepted: {reason}")
        return compare(
            cached,
            recompute,
            near_tie=self.near_tie,
            repeats={} if again else {str(side.path): self._repeats(side) for side in (cached, recompute)},
            problems=tuple(problems),
            unproven=tuple(unproven),
            names=run_names(cached.repeat) if again else PATH_NAMES,
            level=self.experiment.environment.get("level", "ids"),
        )

    def _repeats(self, side: Trajectory) -> Repeats:
        """How often the other repeats of this path reproduced this trajectory bit for bit."""
        kept = self.reader.derived(self.experiment.id, REPEATS)
        if isinstance(kept, Mapping):
            recorded: Repeats = decode(Repeats, kept[side.episode_id][side.path])
            return recorded
        runs, first_difference = 1, ""
        for info in self.reader.passes(self.experiment.id):
            if info.path is not side.path or info.repeat == side.repeat:
                continue
            other = self._trajectory(side.path, info.repeat, side.episode_id)
            if other is None or other.status is not Status.DONE:
                continue
            runs += 1
            first_difference = first_difference or bit_identical(side, other)
        return Repeats(runs, None if runs == 1 else not first_difference, first_difference)

    def _row(self, episode_id: str) -> PairRow:
        sides = self._sides(episode_id, 1)
        if sides is None or any(side.status is not Status.DONE for side in sides):
            return self._open_row(episode_id)
        comparison = self._compare(*sides)
        verdict = judge(comparison, *sides, self.noise_floor(), near_tie=self.near_tie)
        fork = comparison.fork
        return PairRow(
            experiment_id=self.experiment.id,
            episode_id=episode_id,
            family=comparison.family,
            repeat=1,
            diverged=fork is not None,
            kind=str(fork.kind) if fork else None,
            request=fork.request if fork else None,
            step=fork.step if fork else None,
            margin=fork.recompute.margin if fork and fork.recompute else None,
            near_ties=comparison.near_ties,
            tool_calls_changed=comparison.tool_calls_changed,
            outcome_changed=comparison.outcome_changed,
            valid=comparison.valid,
            code=verdict.code,
            headline=verdict.headline,
            problems=comparison.problems + comparison.unproven,
        )

    def _open_row(self, episode_id: str) -> PairRow:
        return PairRow(
            self.experiment.id, episode_id, episode_id.split("-", 1)[0], 1, None, None, None, None, None, 0,
            tool_calls_changed=False, outcome_changed=False, valid=None, code="open", headline="Not finished yet.",
        )  # fmt: skip
