"""Whether a candidate of *Shrink* forks the same on both paths: from restored states first, then from scratch."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from threading import Event

from app.diagnosis.minimise import Asked, Candidate
from app.engine.base import Engine, GenerateRequest, Progress, Sampling, Snapshot, State, StopFlag
from app.engine.evidence import chunk_sizes
from app.errors import EngineDied
from app.experiment.pass_run import Stopped
from app.trajectory.provenance import KvLedger
from app.trajectory.step import IdArray, Step, StepBlock, as_ids, shared_length
from app.trajectory.trajectory import Path, RequestReport, Span

SHELF_BYTES = 256 * 2**20
"""How much of the snapshots is kept at most; one of 600 tokens of the default model has 14 MB."""


@dataclass(frozen=True, slots=True)
class Target:
    """The fork to keep: the two tokens, and the step, from 0, up to which they are looked for."""

    cached_token: int
    recompute_token: int
    step: int


@dataclass(frozen=True, eq=False)
class Played:
    """One request of a run from scratch."""

    prompt_ids: IdArray
    steps: StepBlock
    report: RequestReport
    spans: tuple[Span, ...]


Playing = Mapping[Path, Sequence[Played]]
"""A candidate run from scratch on both paths: the history, then the request that forks."""


class Shelf:
    """Snapshots by what was asked of the State since it was empty; the least used go when there is no room."""

    def __init__(self, size_bytes: int) -> None:
        self._room = size_bytes
        self._kept: OrderedDict[Hashable, Snapshot] = OrderedDict()

    def put(self, key: Hashable, snapshot: Snapshot) -> None:
        """Keep it."""
        self._kept[key] = snapshot
        self._room -= len(snapshot.data)
        while self._room < 0:
            self._room += len(self._kept.popitem(last=False)[1].data)

    def get(self, key: Hashable) -> Snapshot | None:
        """The snapshot, None where it was never kept or had to go."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)


class Trials:
    """Runs candidates on an engine. `stop` ends an answer (EngineDied, or an answer cut short: `stopped` is set).

    `engine_seconds` is the time spent waiting for the engine.
    """

    def __init__(self, engine: Engine, target: Target, sampling: Sampling, rivals: int, stop: Event) -> None:
        info = engine.describe()
        self._engine = engine
        self._target = target
        self._sampling = sampling
        self._rivals = rivals
        self._stop = stop
        self._restores = bool(info.capabilities.snapshot)
        self._sizes = [info.settings.get(name) for name in ("n_batch", "n_ubatch")] if info.capabilities.rebuild else []
        self._shelf = Shelf(SHELF_BYTES)
        self._recomputed: dict[tuple[int, ...], list[int]] = {}
        self.engine_seconds = 0.0

    def forks(self, candidate: Candidate) -> Playing | None:
        """How it forked the same when it was run from scratch, after it had done so once from restored states."""
        return self.play(candidate) if self._seems_to_fork(candidate) else None

    def play(self, candidate: Candidate) -> Playing | None:
        """Run it from scratch on both paths; None where it does not fork the same, or not at its last request."""
        cached = self._play(Path.CACHED, candidate)
        recompute = self._play(Path.RECOMPUTE, candidate)
        answers = [[played.steps.token_ids.tolist() for played in side] for side in (cached, recompute)]
        if answers[0][:-1] != answers[1][:-1] or not self._is_the_fork(answers[0][-1], answers[1][-1]):
            return None
        return {Path.CACHED: cached, Path.RECOMPUTE: recompute}

    def _is_the_fork(self, cached: Sequence[int], recompute: Sequence[int]) -> bool:
        at = shared_length(as_ids(cached), as_ids(recompute))
        if at == min(len(cached), len(recompute)):
            return False
        return (cached[at], recompute[at]) == (self._target.cached_token, self._target.recompute_token)

    # From restored states: what has not changed is not evaluated again.

    def _seems_to_fork(self, candidate: Candidate) -> bool:
        recompute = self._recompute(candidate.prompt)
        if not recompute:
            return False
        cached: list[int] = []
        enough = _Either(self._stop)
        with self._closing(self._after(candidate.history)) as state:
            for token_id in self._ids(state, candidate.prompt, len(recompute), enough):
                cached.append(token_id)
                enough.seen = enough.seen or token_id != recompute[len(cached) - 1]
        return self._is_the_fork(cached, recompute)

    def _recompute(self, prompt: tuple[int, ...]) -> list[int]:
        """The answer from an empty cache, up to the last step at which the fork can be; empty where it cannot."""
        if prompt not in self._recomputed:
            with self._closing(self._begun(prompt)) as state:
                ids = list(self._ids(state, prompt, self._target.step + 1, self._stop))
            while ids and ids[-1] != self._target.recompute_token:
                ids.pop()
            self._recomputed[prompt] = ids
        return self._recomputed[prompt]

    def _after(self, history: tuple[Asked, ...]) -> State:
        """A State that has served `history`."""
        for served in range(len(history), 0, -1):
            kept = self._shelf.get(history[:served])
            if kept is not None:
                state = self._restore(kept)
                break
        else:
            served, state = 0, self._begun(history[0].prompt)
        for number in range(served, len(history)):
            self._serve(state, history[number], history[: number + 1])
        return state

    def _begun(self, prompt: tuple[int, ...]) -> State:
        """A State that holds the head of `prompt`: all chunks of its evaluation but the last, the same bits.

        What an entry holds depends on the chunk that wrote it and on the entries before it (`State.rebuild`), so the
        rest may be evaluated after it as if the whole prompt had come at once. Where the engine does not let us
        choose its chunks, an empty State.
        """
        head = prompt[: self._head_length(len(prompt))]
        if not head:
            return self._open()
        kept = self._shelf.get(head)
        if kept is not None:
            return self._restore(kept)
        state = self._begun(head)
        self._serve(state, Asked(head, 1), head)
        return state

    def _head_length(self, length: int) -> int:
        match self._sizes:
            case [int(n_batch), int(n_ubatch)]:
                return [0, *accumulate(chunk_sizes(length, n_batch, n_ubatch))][-2]
        return 0

    def _serve(self, state: State, asked: Asked, key: Hashable) -> None:
        """Let the State answer, and keep what it holds then."""
        list(self._ids(state, asked.prompt, asked.steps, self._stop))
        if self._restores:
            with self._clock():
                snapshot = state.snapshot()
            self._shelf.put(key, snapshot)

    # From scratch.

    def _play(self, path: Path, candidate: Candidate) -> list[Played]:
        """The history and the forked request, on one State, or on a new one for each request."""
        asked = (*candidate.history, Asked(candidate.prompt, self._target.step + 1))
        self._engine.begin_pass()
        if path is Path.RECOMPUTE:
            return [played for number, each in enumerate(asked, 1) for played in self._on_one_state((each,), number)]
        return self._on_one_state(asked, 1)

    def _on_one_state(self, asked: Sequence[Asked], first: int) -> list[Played]:
        ledger = KvLedger()
        with self._closing(self._open()) as state:
            return [self._answer(state, ledger, each, f"r{number}") for number, each in enumerate(asked, first)]

    def _answer(self, state: State, ledger: KvLedger, asked: Asked, writer: str) -> Played:
        items = list(self._items(state, asked.prompt, asked.steps, self._rivals, self._stop))
        report = items[-1] if items else None
        if not isinstance(report, RequestReport):
            raise EngineDied("The engine ended its answer without a report.", "Shrink again to go on.")
        prompt = as_ids(asked.prompt)
        steps = StepBlock.pack([item for item in items if isinstance(item, Step)], self._rivals)
        spans = ledger.take(writer, prompt, report.cached_tokens, report.chunks, steps.token_ids)
        return Played(prompt, steps, report, spans)

    # The engine, by the clock.

    def _open(self) -> State:
        with self._clock():
            return self._engine.open_state()

    def _restore(self, snapshot: Snapshot) -> State:
        with self._clock():
            return self._engine.restore(snapshot)

    @contextmanager
    def _closing(self, state: State) -> Iterator[State]:
        try:
            yield state
        finally:
            with self._clock():
                state.close()

    def _ids(self, state: State, prompt: tuple[int, ...], most: int, stop: StopFlag) -> Iterator[int]:
        return (item.token_id for item in self._items(state, prompt, most, 1, stop) if isinstance(item, Step))

    def _items(
        self, state: State, prompt: tuple[int, ...], most: int, rivals: int, stop: StopFlag
    ) -> Iterator[Step | RequestReport]:
        """Steps and report of an answer. Raises Stopped where the person stopped it."""
        answer = state.generate(GenerateRequest(as_ids(prompt), most, self._sampling, rivals), stop)
        while True:
            with self._clock():
                item = next(answer, None)
            if self._stop.is_set():
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
            self.engine_seconds += time.perf_counter() - began


class _Either:
    """Set once enough was seen, or where the person stopped."""

    def __init__(self, stop: StopFlag) -> None:
        self.seen = False
        self._stop = stop

    def is_set(self) -> bool:
        return self.seen or self._stop.is_set()
