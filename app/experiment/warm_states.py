"""States as a history leaves them, restored where they were kept: what has not changed is not evaluated again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from itertools import accumulate

from app.diagnosis.minimise import Asked
from app.engine.base import EngineInfo, Snapshot, State
from app.engine.embedded.evidence import chunk_sizes
from app.experiment.asking import Asking

SHELF_BYTES = 256 * 2**20
"""How much of the snapshots is kept at most; one of 600 tokens of the default model has 14 MB."""


class Shelf:
    """Snapshots by what was asked of the State since it was empty; the least used go when there is no room."""

    def __init__(self, size_bytes: int) -> None:
        self._room = size_bytes
        self._kept: OrderedDict[Hashable, Snapshot] = OrderedDict()

    def put(self, key: Hashable, snapshot: Snapshot) -> None:
        """Keep it, under a key that holds none yet."""
        self._kept[key] = snapshot
        self._room -= len(snapshot.data)
        while self._room < 0:
            self._room += len(self._kept.popitem(last=False)[1].data)

    def get(self, key: Hashable) -> Snapshot | None:
        """The snapshot, None where it was never kept or had to go."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)


class WarmStates:
    """Makes States; only of engines whose snapshots and chunks are ours, others are asked everything again.

    What a server keeps is a file on its disk, and how it cuts a prompt into chunks is its own affair.
    """

    def __init__(self, asking: Asking, info: EngineInfo) -> None:
        self._asking = asking
        self._keeps = bool(info.capabilities.snapshot and info.capabilities.rebuild)
        self._sizes = [info.settings.get(name) for name in ("n_batch", "n_ubatch")]
        self._shelf = Shelf(SHELF_BYTES)

    def after(self, history: tuple[Asked, ...]) -> State:
        """A State that has served `history`."""
        served = len(history)
        while served and (kept := self._shelf.get(history[:served])) is None:
            served -= 1
        state = self._asking.restore(kept) if served and kept else self.begun(history[0].prompt)
        for number in range(served, len(history)):
            self._serve(state, history[number], history[: number + 1])
        return state

    def begun(self, prompt: tuple[int, ...]) -> State:
        """A State that holds the head of `prompt`: all chunks of its evaluation but the last, bit for bit.

        What an entry holds depends on the chunk that wrote it and on the entries before it (`State.rebuild`), so the
        rest may be evaluated after it as if the whole prompt had come at once.
        """
        head = prompt[: self._head_length(len(prompt))]
        if not head:
            return self._asking.open_state()
        if (kept := self._shelf.get(head)) is not None:
            return self._asking.restore(kept)
        state = self.begun(head)
        self._serve(state, Asked(head, 1), head)
        return state

    def _head_length(self, length: int) -> int:
        match self._sizes:
            case [int(n_batch), int(n_ubatch)] if self._keeps:
                return [0, *accumulate(chunk_sizes(length, n_batch, n_ubatch))][-2]
        return 0

    def _serve(self, state: State, asked: Asked, key: Hashable) -> None:
        """Let the State answer, and keep what it holds then. It is given back where that fails."""
        try:
            for _ in self._asking.ids(state, asked):
                pass
            if self._keeps:
                self._shelf.put(key, self._asking.snapshot(state))
        except BaseException:
            with self._asking.closing(state):
                raise
