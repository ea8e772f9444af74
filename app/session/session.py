"""One open file: its experiments, pairs and figures."""

from __future__ import annotations

from pathlib import Path as FilePath

from app.bundle.opening import BundleReader, is_bundle
from app.bundle.verify import Verification, verify_bundle
from app.errors import BundleError, StoreError
from app.experiment.pairs import PairReader, PairSource
from app.experiment.statistics import Summary, summarise
from app.store.lock import why_read_only
from app.store.reader import Reader
from app.store.recorder import Recorder
from app.trajectory.pair import NEAR_TIE_NATS, Pair, PairRow
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Status


class Session:
    """One open file of data, or one bundle. Reads only; whatever writes is a run.

    `notice` says why runs cannot be added to the file, "" where they can. `verification` is what was found of a bundle
    when it was opened, None of a file of data.
    """

    def __init__(self, path: FilePath, notice: str, reader: PairSource, near_tie: float = NEAR_TIE_NATS) -> None:
        self.path = path
        self.near_tie = near_tie
        self.notice = notice
        self.verification: Verification | None = None
        self._reader = reader

    @classmethod
    def open(cls, path: FilePath | str, near_tie: float = NEAR_TIE_NATS) -> Session:
        """Open a file of data or a bundle; a file that is being written, or lies in a read-only folder, opens too.

        Raises StoreError or BundleError where it cannot be read.
        """
        path = FilePath(path)
        if is_bundle(path):
            return cls._open_bundle(path, near_tie)
        session = cls(path, why_read_only(path), Reader(path), near_tie)
        if not session.read_only and any(info.status is Status.RUNNING for info in session.experiments()):
            try:
                recorder = Recorder(path)  # nobody holds the file, so whatever still runs in it is dead
                try:
                    recorder.interrupt_running()
                finally:
                    recorder.close()
            except StoreError as error:  # a full disk, or a run that began just now: it is readable all the same
                session.notice = error.message
        return session

    @classmethod
    def _open_bundle(cls, path: FilePath, near_tie: float) -> Session:
        """Read-only, checked first; one that was altered opens where its runs can still be read, and says so."""
        found = verify_bundle(path)
        if found.contents is None:
            raise BundleError(f"{path.name} cannot be opened. {found.sentence}", found.hint)
        session = cls(path, "A bundle is read-only.", BundleReader(path, found.contents), near_tie)
        session.verification = found
        return session

    @property
    def read_only(self) -> bool:
        """Whether runs cannot be added to this file."""
        return bool(self.notice)

    def experiments(self) -> list[ExperimentInfo]:
        """All experiments, newest first."""
        return self._reader.experiments()

    def experiment(self, experiment_id: int | None = None) -> ExperimentInfo:
        """One experiment, the newest unless told. Raises StoreError where there is none."""
        for info in self.experiments():
            if experiment_id in (None, info.id):
                return info
        what = "no experiment" if experiment_id is None else f"no experiment {experiment_id}"
        raise StoreError(f"{self.path.name} holds {what}.", "`forkpoint list FILE` shows what it holds.")

    def rows(self, experiment_id: int) -> list[PairRow]:
        """A row per planned episode, in the order of the plan."""
        return self.pair_reader(experiment_id).rows()

    def pair(self, experiment_id: int, episode_id: str, repeat: int = 1) -> Pair:
        """Load and compare a pair. Raises StoreError where one of its paths has not begun."""
        pair = self.pair_reader(experiment_id).pair(episode_id, repeat)
        if pair is None:
            raise StoreError(
                f"{self.path.name} does not hold {episode_id} on both paths (repeat {repeat}).",
                "`forkpoint list FILE` shows what it holds.",
            )
        return pair

    def summary(self, experiment_id: int) -> Summary:
        """What the experiment's pairs say together; invalid and unfinished ones are left out."""
        pairs = self.pair_reader(experiment_id)
        planned = self.experiment(experiment_id).plan["episode_ids"]
        return summarise(pair for pair in map(pairs.pair, planned) if pair is not None)

    def passes(self, experiment_id: int) -> list[PassInfo]:
        """The passes of an experiment, newest first of each path and repeat."""
        return self._reader.passes(experiment_id)

    def size_bytes(self) -> int:
        """Size of the file on disk."""
        return self._reader.size_bytes()

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def pair_reader(self, experiment_id: int) -> PairReader:
        """What reads and compares the pairs of an experiment; one for many pairs keeps what they share."""
        return PairReader(self._reader, self.experiment(experiment_id), self.near_tie)
