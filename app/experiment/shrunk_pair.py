"""What *Shrink* keeps in a file: an experiment of one pair, and how far the search for it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from app.diagnosis.minimise import Candidate, Minimiser
from app.experiment.acceptance import accept
from app.experiment.pairs import PairReader
from app.experiment.trial import Played, Playing
from app.store.reader import Reader
from app.store.recorder import Recorder
from app.trajectory.codec import decode, encode
from app.trajectory.episode import Outcome
from app.trajectory.pair import PairRow
from app.trajectory.step import as_ids, shared_length
from app.trajectory.trajectory import ExperimentInfo, Path, Prompt, Status

PROGRESS = "shrink"
"""The derived value that holds a search: the best candidate, and the digests of those that did not fork."""

_AT_ONCE = 64  # steps that the recorder takes in one transaction


class ShrunkPair:
    """The experiment of a search in `file`, which `recorder` holds; taken up again where it is there already.

    `plan` names what is shrunk under "source"; the same source in the same environment is the same search. Close it.
    """

    def __init__(
        self, file: FilePath, recorder: Recorder, title: str, plan: Mapping[str, Any], environment: Mapping[str, Any]
    ) -> None:
        self._recorder = recorder
        self.title = title
        self._plan, self._environment = plan, environment
        self._reader = Reader(file)
        earlier = (info.id for info in self._reader.experiments() if self._is_this(info))
        self.experiment_id = next(earlier, None)

    def kept(self) -> tuple[Candidate, Sequence[str]] | None:
        """The best candidate of an earlier search, and the digests of what it rejected; None where there was none."""
        value = self._reader.derived(self.experiment_id, PROGRESS) if self.experiment_id else None
        if value is None:
            return None
        best: Candidate = decode(Candidate, value.get("best"))
        rejected: tuple[str, ...] = decode(tuple[str, ...], value.get("rejected"))
        return best, rejected

    def begin(self) -> int:
        """The search is running; returns the experiment's id."""
        if self.experiment_id is None:
            self.experiment_id = self._recorder.add_experiment(self.title, self._plan, self._environment)
        else:
            self._recorder.finish_experiment(self.experiment_id, Status.RUNNING)
        return self.experiment_id

    def note(self, search: Minimiser) -> None:
        """Keep how far the search has come."""
        assert self.experiment_id is not None
        value = {"best": encode(search.best), "rejected": sorted(search.rejected)}
        self._recorder.put_derived(self.experiment_id, PROGRESS, value)

    def record(self, playings: Sequence[Playing], settings: Mapping[str, Any], near_tie: float) -> PairRow:
        """Record the pair, each playing as a repeat, in place of an earlier one; the experiment is done.

        `settings` are the engine's, `near_tie` is in nats.
        """
        assert self.experiment_id is not None
        for repeat, playing in enumerate(playings, start=1):
            for path, requests in playing.items():
                self._record_pass(path, repeat, requests, settings)
        self._recorder.finish_experiment(self.experiment_id, Status.DONE)
        experiment = next(info for info in self._reader.experiments() if info.id == self.experiment_id)
        row = PairReader(self._reader, experiment, near_tie).refresh(self._plan["source"]["episode_id"], self._recorder)
        assert row is not None
        return row

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()

    def _is_this(self, info: ExperimentInfo) -> bool:
        """Whether it searches for the same; a record of an older version may lack what is recorded now."""
        same = all(info.environment.get(key, value) == value for key, value in self._environment.items())
        return same and info.plan.get("source") == self._plan["source"]

    def _record_pass(self, path: Path, repeat: int, requests: Sequence[Played], settings: Mapping[str, Any]) -> None:
        """One path's requests as a pass of one trajectory."""
        assert self.experiment_id is not None
        recorder, source = self._recorder, self._plan["source"]
        episode_id = source["episode_id"]
        pass_id = recorder.add_pass(self.experiment_id, path, repeat, [episode_id], settings)
        trajectory_id = recorder.start_trajectory(pass_id, episode_id, source["family"])
        before = as_ids(())
        for index, played in enumerate(requests):
            shared = shared_length(before, played.prompt_ids)
            prompt = Prompt(played.prompt_ids, index, (), None if shared == len(before) else shared)
            before = np.concatenate([played.prompt_ids, as_ids(step.token_id for step in played.steps)])
            recorder.start_request(trajectory_id, index, prompt)
            for start in range(0, len(played.steps), _AT_ONCE):
                recorder.append(trajectory_id, index, played.steps[start : start + _AT_ONCE])
            recorder.finish_request(trajectory_id, index, played.report, (), (), played.spans)
        recorder.finish_trajectory(trajectory_id, Status.DONE, Outcome("none"))
        recorded = self._reader.trajectory(trajectory_id)
        problems, unproven = accept([recorded], path, [episode_id], self._plan["rivals"])
        reasons = [*problems, *unproven]
        recorder.finish_pass(pass_id, Status.DONE, not reasons, reasons)
