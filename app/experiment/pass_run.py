"""One pass: episodes served one after the other on one path, every step on disk before it is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event

from app.engine.base import Engine, EngineInfo, GenerateRequest, Progress, Snapshot, State
from app.errors import ContextOverflow, EngineDied, EngineError, WorkloadError
from app.experiment.plans import RunRequest
from app.store.recorder import Recorder
from app.trajectory.episode import Episode, Outcome
from app.trajectory.events import Event as RunEvent
from app.trajectory.events import (
    PrefillProgress,
    RequestFinished,
    RequestStarted,
    StepsTaken,
    TrajectoryFinished,
    TrajectoryStarted,
)
from app.trajectory.provenance import KvLedger
from app.trajectory.step import Step, StepBlock
from app.trajectory.trajectory import Path, Prompt, RequestReport, Span, Status
from app.workload.chat import ChatTemplate
from app.workload.dialogue import Dialogue

FLUSH_STEPS = 64
FLUSH_SECONDS = 0.05


class Stopped(Exception):
    """The user stopped the run in the middle of an answer."""


@dataclass
class Tools:
    """What every pass of a run shares."""

    engine: Engine
    info: EngineInfo
    template: ChatTemplate
    recorder: Recorder
    request: RunRequest
    tell: Callable[[RunEvent], None]
    stop: Event


@dataclass
class PassRun:
    """One path, one repeat. The cached path keeps one State for the whole pass, the recompute path none.

    A pass is a server history of its own, unless it follows another one: then it goes on where that one ended.
    """

    tools: Tools
    pass_id: int
    path: Path
    repeat: int
    state: State | None = None
    ledger: KvLedger = field(default_factory=KvLedger)
    follows: bool = False
    _has_begun: bool = False

    def play(self, episode: Episode) -> None:
        """Run one episode to its end and record it.

        Raises Stopped, EngineDied or StoreError; every other known error is an outcome of the trajectory.
        """
        tools = self.tools
        trajectory_id = tools.recorder.start_trajectory(self.pass_id, episode.id, episode.family)
        tools.tell(TrajectoryStarted(trajectory_id, episode.id, episode.family, self.path, self.repeat))
        try:
            outcome = self._converse(trajectory_id, episode)
        except ContextOverflow as error:
            outcome = Outcome("overflow", str(error))
        except Stopped:
            self._finish(trajectory_id, Status.STOPPED, Outcome("none"))
            raise
        except EngineDied as error:
            self._finish(trajectory_id, Status.FAILED, Outcome("error", str(error)))
            raise
        except (EngineError, WorkloadError) as error:
            outcome = Outcome("error", str(error))
        self._finish(trajectory_id, Status.DONE, outcome)

    def resume(self, snapshot: Snapshot, spans: Sequence[Span]) -> None:
        """Go on from a State that was kept, with what is known of how it was written.

        Where the engine cannot restore it, it is rebuilt from that knowledge. Raises EngineError where neither works.
        """
        engine = self.tools.engine
        self._begin()
        try:
            self.state = engine.restore(snapshot)
        except EngineDied:
            raise
        except EngineError:
            self.state = engine.open_state()
            self._rebuild(self.state, snapshot, spans)
        self.ledger = KvLedger(snapshot.ids, spans)

    def _rebuild(self, state: State, snapshot: Snapshot, spans: Sequence[Span]) -> None:
        try:
            state.rebuild(snapshot.ids, spans)
        except EngineError:
            self.close()
            raise

    def follow(self, before: PassRun) -> None:
        """Go on in the server history of `before`, in the very State that it leaves."""
        self.state, self.ledger, self._has_begun = before.state, before.ledger, before._has_begun
        before.state, self.follows = None, True

    def close(self) -> None:
        """Give the pass's State back."""
        if self.state is not None:
            self.state.close()
            self.state = None

    def _finish(self, trajectory_id: int, status: Status, outcome: Outcome) -> None:
        self.tools.recorder.finish_trajectory(trajectory_id, status, outcome)
        self.tools.tell(TrajectoryFinished(trajectory_id, status, outcome))

    def _converse(self, trajectory_id: int, episode: Episode) -> Outcome:
        tools = self.tools
        dialogue = Dialogue(
            episode,
            tools.template,
            lambda text, special: tools.engine.tokenize(text, special=special),
            tools.info.eog_ids,
            history=tools.request.history,
        )
        index = 0
        while (prompt := dialogue.next_prompt()) is not None:
            if tools.stop.is_set():
                raise Stopped
            tools.recorder.start_request(trajectory_id, index, prompt)
            tools.tell(RequestStarted(trajectory_id, index, prompt))
            block, report = self._answer(trajectory_id, index, prompt)
            writer = f"{episode.id} r{index + 1}" + (f", run {self.repeat}" if self.follows else "")
            # Where prompts are words, the server's counts are of other things than the ledger's positions.
            cached = None if tools.info.capabilities.token_ids is False else report.cached_tokens
            spans = self.ledger.take(writer, prompt.ids, cached, report.chunks, block.token_ids)
            if report.finish_reason == "cancelled":
                tools.recorder.finish_request(trajectory_id, index, report, (), (), spans)
                raise Stopped
            calls, results = dialogue.take_answer(block.token_ids, block.text, report.finish_reason)
            tools.recorder.finish_request(trajectory_id, index, report, calls, results, spans)
            tools.tell(RequestFinished(trajectory_id, index, report, calls, results, spans))
            index += 1
        return dialogue.outcome()

    def _answer(self, trajectory_id: int, index: int, prompt: Prompt) -> tuple[StepBlock, RequestReport]:
        """Ask the engine; hand steps on in blocks: first to the disk, then to whoever watches."""
        tools = self.tools
        state = self._state()
        request = GenerateRequest(
            prompt.ids, tools.request.max_tokens, tools.request.sampling, rivals=tools.request.rivals
        )
        taken: list[Step] = []
        flushed = 0
        last_flush = time.monotonic()
        try:
            for item in state.generate(request, tools.stop):
                if isinstance(item, Step):
                    taken.append(item)
                    now = time.monotonic()
                    if len(taken) - flushed >= FLUSH_STEPS or now - last_flush >= FLUSH_SECONDS:
                        flushed, last_flush = self._flush(trajectory_id, index, taken, flushed), now
                elif isinstance(item, Progress):
                    tools.tell(PrefillProgress(trajectory_id, index, item.done, item.total, item.cached))
                else:
                    return StepBlock.pack(taken, tools.request.rivals), item
        except EngineDied as error:
            if tools.stop.is_set():
                raise Stopped from error
            raise
        finally:
            self._flush(trajectory_id, index, taken, flushed)
            if self.path is Path.RECOMPUTE:
                self.close()
        raise EngineDied("The engine ended its answer without a report.", "Run the episode again.")

    def _flush(self, trajectory_id: int, index: int, taken: list[Step], flushed: int) -> int:
        steps = tuple(taken[flushed:])
        if steps:
            self.tools.recorder.append(trajectory_id, index, steps)
            self.tools.tell(StepsTaken(trajectory_id, index, steps))
        return len(taken)

    def _state(self) -> State:
        """The cached path's one State; a new, empty one for each request of the recompute path."""
        if self.state is None:
            self._begin()
            self.state = self.tools.engine.open_state()
            self.ledger = KvLedger()
        return self.state

    def _begin(self) -> None:
        """A new server history, once a pass and only when it is about to serve: another pass may still be under way."""
        if not self._has_begun:
            self.tools.engine.begin_pass()
            self._has_begun = True
