"""Asking an engine for *Shrink*: States that are always given back, answers that a person can stop, by the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from app.diagnosis.minimise import Asked
from app.engine.base import Engine, GenerateRequest, Progress, Sampling, Snapshot, State, StopFlag
from app.experiment.pass_run import Stopped
from app.trajectory.step import Step, as_ids
from app.trajectory.trajectory import RequestReport


class Asking:
    """An engine, how it chooses tokens, and the person's `stop`. `seconds` is the time spent waiting for it."""

    def __init__(self, engine: Engine, sampling: Sampling, stop: Event) -> None:
        self.stop = stop
        self.seconds = 0.0
        self._engine = engine
        self._sampling = sampling

    def begin_pass(self) -> None:
        """A new server history."""
        with self._clock():
            self._engine.begin_pass()

    def open_state(self) -> State:
        """A State that holds nothing."""
        with self._clock():
            return self._engine.open_state()

    def restore(self, snapshot: Snapshot) -> State:
        """A State that holds what the snapshot's held."""
        with self._clock():
            return self._engine.restore(snapshot)

    def snapshot(self, state: State) -> Snapshot:
        """What the State holds."""
        with self._clock():
            return state.snapshot()

    @contextmanager
    def closing(self, state: State) -> Iterator[State]:
        """Give the State back afterwards."""
        try:
            yield state
        finally:
            with self._clock():
                state.close()

    def ids(self, state: State, asked: Asked, enough: StopFlag | None = None) -> Iterator[int]:
        """The answer's ids, one by one; `enough` ends it early."""
        return (item.token_id for item in self.items(state, asked, 1, enough) if isinstance(item, Step))

    def items(
        self, state: State, asked: Asked, rivals: int, enough: StopFlag | None = None
    ) -> Iterator[Step | RequestReport]:
        """The answer's steps and its report. Raises Stopped, or EngineDied, where the person stopped it."""
        request = GenerateRequest(as_ids(asked.prompt), asked.steps, self._sampling, rivals)
        answer = state.generate(request, enough or self.stop)
        while True:
            with self._clock():
                item = next(answer, None)
            if self.stop.is_set():
                raise Stopped
            if item is None:
                return
            if not isinstance(item, Progress):
                yield item

    @contextmanager
    def _clock(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - began
