"""One generated token with its rivals, and a packed block of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

IdArray = NDArray[np.int32]
LogprobArray = NDArray[np.float32]
MarginArray = NDArray[np.float64]

NO_ID = -1
"""Fills a rival column that the engine did not report."""


@dataclass(frozen=True, slots=True)
class Rival:
    """One of the k most probable tokens at a step.

    `logprob` is in nats over the unfiltered distribution; `piece` holds the token's raw bytes, which may end
    inside a UTF-8 character.
    """

    token_id: int
    logprob: float
    piece: bytes


@dataclass(frozen=True, slots=True)
class Step:
    """One generated token; the end-of-generation token counts as one.

    `logprob` is in nats, float32 precision, None where the engine reported none. `rivals` are sorted by falling
    logprob and include the sampled token where it is among the k largest; empty where none were reported.
    """

    token_id: int
    logprob: float | None
    piece: bytes
    rivals: tuple[Rival, ...] = ()

    @property
    def margin(self) -> float | None:
        """Difference of the two largest logprobs in nats (STUDY: top-two margin); None below two rivals."""
        if len(self.rivals) < 2:
            return None
        return float(np.float32(self.rivals[0].logprob)) - float(np.float32(self.rivals[1].logprob))


@dataclass(frozen=True, eq=False)
class StepBlock:
    """The n steps of one request as arrays, so that a pair of 100,000 steps opens without 100,000 objects.

    `token_ids` int32 [n]; `logprobs` float32 [n], NaN where not reported; `rival_ids` int32 [n, k], NO_ID where
    absent; `rival_logprobs` float32 [n, k] falling along k, NaN where absent; `piece_bytes` all pieces end to end;
    `piece_ends` int32 [n], where piece i ends in them.
    """

    token_ids: IdArray
    logprobs: LogprobArray
    rival_ids: IdArray
    rival_logprobs: LogprobArray
    piece_bytes: bytes
    piece_ends: IdArray

    def __len__(self) -> int:
        return len(self.token_ids)

    @classmethod
    def empty(cls, k: int = 0) -> StepBlock:
        """A block of no steps with k rival columns."""
        return cls.pack((), k)

    @classmethod
    def pack(cls, steps: Sequence[Step], k: int | None = None) -> StepBlock:
        """Pack steps; k defaults to the longest rival list. Longer rival lists are cut to k."""
        width = max((len(step.rivals) for step in steps), default=0) if k is None else k
        count = len(steps)
        shape = (count, width)
        if all(len(step.rivals) == width for step in steps):  # as engines give them: four times as fast
            rivals = [rival for step in steps for rival in step.rivals]
            rival_ids = np.array([rival.token_id for rival in rivals], np.int32).reshape(shape)
            rival_logprobs = np.array([rival.logprob for rival in rivals], np.float32).reshape(shape)
        else:
            rival_ids, rival_logprobs = np.full(shape, NO_ID, np.int32), np.full(shape, np.nan, np.float32)
            for row, step in enumerate(steps):
                for column, rival in enumerate(step.rivals[:width]):
                    rival_ids[row, column] = rival.token_id
                    rival_logprobs[row, column] = rival.logprob
        return cls(
            token_ids=np.fromiter((step.token_id for step in steps), np.int32, count),
            logprobs=np.fromiter(
                (np.nan if step.logprob is None else step.logprob for step in steps), np.float32, count
            ),
            rival_ids=rival_ids,
            rival_logprobs=rival_logprobs,
            piece_bytes=b"".join(step.piece for step in steps),
            piece_ends=np.cumsum([len(step.piece) for step in steps], dtype=np.int32)
            if count
            else np.empty(0, np.int32),
        )

    @cached_property
    def margins(self) -> MarginArray:
        """Top-two margin per step in nats, float64 [n]; NaN where fewer than two rivals were reported."""
        if self.rival_logprobs.shape[1] < 2:
            return np.full(len(self), np.nan)
        top_two = self.rival_logprobs[:, :2].astype(np.float64)
        return np.asarray(top_two[:, 0] - top_two[:, 1])

    @property
    def text(self) -> str:
        """All pieces as text; bytes that are no UTF-8 become U+FFFD."""
        return self.piece_bytes.decode("utf-8", errors="replace")

    def piece(self, index: int) -> bytes:
        """The raw bytes of step `index` (from 0)."""
        start = 0 if index == 0 else int(self.piece_ends[index - 1])
        return self.piece_bytes[start : int(self.piece_ends[index])]

    def step(self, index: int, pieces: Mapping[int, bytes]) -> Step:
        """Step `index` (from 0) as an object; `pieces` gives the bytes of its rivals, b"" where unknown."""
        logprob = float(self.logprobs[index])
        return Step(
            token_id=int(self.token_ids[index]),
            logprob=None if np.isnan(logprob) else logprob,
            piece=self.piece(index),
            rivals=tuple(
                Rival(int(token_id), float(value), pieces.get(int(token_id), b""))
                for token_id, value in zip(self.rival_ids[index], self.rival_logprobs[index], strict=True)
                if token_id != NO_ID
            ),
        )


def as_ids(ids: Iterable[int]) -> IdArray:
    """Token ids as an int32 array [n]."""
    return np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), dtype=np.int32)


def shared_length(left: IdArray, right: IdArray) -> int:
    """Length of the longest common prefix of two id arrays."""
    size = min(len(left), len(right))
    different = np.flatnonzero(left[:size] != right[:size])
    return int(different[0]) if len(different) else size
