"""The passes of a run: opened anew or taken up again (DESIGN 4), accepted or not (STUDY)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from app.engine.base import Snapshot
from app.errors import EngineDied, EngineError
from app.experiment.acceptance import accept
from app.experiment.pass_run import PassRun, Tools
from app.store.reader import Reader, StoredSnapshot
from app.trajectory.codec import from_json, to_json
from app.trajectory.episode import Episode
from app.trajectory.events import Notice, PassFinished
from app.trajectory.trajectory import PassInfo, Path, Status

log = logging.getLogger(__name__)


@dataclass
class Passes:
    """The passes of one experiment, in the order they were opened.

    `run_to_run`: they are served in one server history, one after the other. `forget` is called where one is played
    anew: what was compared with it no longer counts.
    """

    tools: Tools
    reader: Reader
    experiment_id: int
    run_to_run: bool
    forget: Callable[[], None]
    runs: list[PassRun] = field(default_factory=list)
    _is_dropped: bool = False

    def open(self, path: Path, repeat: int, episodes: tuple[Episode, ...]) -> tuple[PassRun, int]:
        """The pass and how many of its episodes are done already."""
        passes = self.reader.passes(self.experiment_id)
        old = next((info for info in passes if (info.path, info.repeat) == (path, repeat)), None)
        taken_up = None if old is None else self._take_up(old)
        if old is not None and taken_up is None:
            self.forget()
        run, done = taken_up or (self._new(path, repeat, episodes), 0)
        if self.run_to_run and self.runs:
            run.follow(self.runs[-1])
        self.runs.append(run)
        return run, done

    def _new(self, path: Path, repeat: int, episodes: tuple[Episode, ...]) -> PassRun:
        ids = [episode.id for episode in episodes]
        pass_id = self.tools.recorder.add_pass(self.experiment_id, path, repeat, ids, self.tools.info.settings)
        return PassRun(self.tools, pass_id, path, repeat)

    def _take_up(self, old: PassInfo) -> tuple[PassRun, int] | None:
        run = PassRun(self.tools, old.id, old.path, old.repeat)
        if self._is_dropped:
            return None
        if old.status is Status.DONE:
            return run, len(old.episode_ids)
        done = self._episodes_done(old)
        if old.path is Path.RECOMPUTE or done == len(old.episode_ids):  # neither needs a state to go on from
            self.tools.recorder.resume_pass(old.id)
            return run, done
        kept = self.reader.snapshot(old.id)
        if kept is not None and self._resume(run, kept):
            self.tools.recorder.resume_pass(old.id)
            return run, kept.episodes_done
        if done:
            why = "was not kept" if kept is None else "cannot be restored"
            self.tools.tell(Notice(f"The cached pass {old.repeat} starts over: the state of its cache {why}."))
        return None

    def drop_unfinished_history(self, runs: int) -> None:
        """Runs of one server history are all there or played anew: what a server held between them is gone."""
        kept = self.reader.passes(self.experiment_id)
        self._is_dropped = {info.repeat for info in kept if info.status is Status.DONE} != set(range(1, runs + 1))
        if kept and self._is_dropped:
            self.tools.tell(Notice("Every run starts over: the server history that they belong to is gone."))

    def _resume(self, run: PassRun, kept: StoredSnapshot) -> bool:
        """Whether the engine could restore, or rebuild, the state that was kept."""
        try:
            run.resume(Snapshot(kept.ids, kept.data, kept.meta), [from_json(span) for span in kept.meta["spans"]])
        except EngineDied:
            raise
        except EngineError as error:
            log.warning("a kept state cannot be restored: %s", error)
            return False
        return True

    def _episodes_done(self, info: PassInfo) -> int:
        found = self.reader.entries(info.id)
        for number, episode_id in enumerate(info.episode_ids):
            if episode_id not in found or found[episode_id].status is not Status.DONE:
                return number
        return len(info.episode_ids)

    def keep_snapshot(self, run: PassRun, episodes: tuple[Episode, ...], episode: Episode) -> None:
        """After each episode of a cached pass, so that a run which is stopped or killed can go on from there.

        Only of States that are all ours: a server's snapshot is a file on its disk, and its history goes on without us.
        """
        capabilities = self.tools.info.capabilities
        is_ours = capabilities.snapshot and capabilities.rebuild and not self.run_to_run
        if run.state is None or run.path is not Path.CACHED or not is_ours:
            return
        if episode is episodes[-1]:
            self.tools.recorder.drop_snapshot(run.pass_id)
            return
        kept = run.state.snapshot()
        meta = {"spans": [to_json(span) for span in run.ledger.spans], **kept.meta}
        self.tools.recorder.save_snapshot(run.pass_id, kept.ids, kept.data, meta, episodes.index(episode) + 1)

    def accept(self, repeat: int, episodes: tuple[Episode, ...], until: Episode | None = None) -> None:
        """STUDY's acceptance of both passes of a repeat; a run that ended at a fork expects the episodes up to it."""
        expected = episodes if until is None else episodes[: episodes.index(until) + 1]
        for run in self.runs:
            if run.repeat != repeat:
                continue
            if not self.run_to_run:  # else the next run goes on in it
                run.close()
            self.tools.recorder.drop_snapshot(run.pass_id)
            ids = self.reader.trajectory_ids(run.pass_id)
            played = [self.reader.trajectory(ids[e.id]) for e in expected if e.id in ids]
            problems, unproven = accept(
                played, run.path, [e.id for e in expected], self._depth(), run_to_run=self.run_to_run
            )
            reasons = [*problems, *unproven]
            self.tools.recorder.finish_pass(run.pass_id, Status.DONE, not reasons, reasons)
            self.tools.tell(PassFinished(run.pass_id, run.path, repeat, not reasons, tuple(reasons)))

    def _depth(self) -> int | None:
        """How many logprobs every step must have; None where this engine's steps may lack them."""
        info = self.tools.info
        can = info.capabilities
        is_whole = info.level == "ids" and can.token_ids is not False and can.rivals is not False
        return self.tools.request.rivals if is_whole else None

    def end(self, status: Status) -> None:
        """Mark those that still run as ended with `status`."""
        for run in self.runs:
            info = next(p for p in self.reader.passes(self.experiment_id) if p.id == run.pass_id)
            if info.status is Status.RUNNING:
                self.tools.recorder.finish_pass(run.pass_id, status, None, ())

    def close(self) -> None:
        """Give their States back."""
        for run in self.runs:
            run.close()
