"""A llama-server's answer to POST /completion, read with distrust: what is no number, no id or no list is not there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_LOWEST = float(np.finfo(np.float32).min)
"""What the server writes for the logarithm of probability 0, since JSON has no infinity."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One element of `completion_probabilities`: a token's logprob in nats and the (id, logprob) of its rivals.

    `logprob` is None where the value is no logprob. `pieces` are the raw bytes of the rivals, as far as told.
    """

    token_id: int
    logprob: float | None
    rivals: tuple[tuple[int, float], ...]
    pieces: Mapping[int, bytes]


@dataclass(frozen=True)
class Completion:
    """One answer: sampled ids, one Entry or None for each, and the counts as the server gives them (None: absent).

    `cached` and `evaluated` are prompt tokens, `predicted` sampled ones, `left` all that the slot held at the end (the
    server's `tokens_cached`), `drafted` those that a draft model proposed; times are milliseconds. `stray` says that
    the probability entries do not follow the ids, so that none of them could be used.
    """

    ids: tuple[int, ...]
    entries: tuple[Entry | None, ...]
    stray: bool
    slot: int | None
    cached: int | None
    evaluated: int | None
    prompt: int | None
    predicted: int | None
    left: int | None
    drafted: int | None
    stop_type: str
    prefill_ms: float | None
    decode_ms: float | None


def read_completion(raw: object) -> Completion:
    """What is to be had of an answer; raises nothing."""
    answer = as_mapping(raw)
    timings = as_mapping(answer.get("timings"))
    ids = tuple(token_id for value in as_list(answer.get("tokens")) if (token_id := count_of(value)) is not None)
    entries = [entry for value in as_list(answer.get("completion_probabilities")) if (entry := _entry(value))]
    placed = align(ids, [entry.token_id for entry in entries])
    return Completion(
        ids=ids,
        entries=tuple(None if index is None else entries[index] for index in placed or [None] * len(ids)),
        stray=placed is None,
        slot=count_of(answer.get("id_slot")),
        cached=count_of(timings.get("cache_n")),
        evaluated=count_of(timings.get("prompt_n")),
        prompt=count_of(answer.get("tokens_evaluated")),
        predicted=count_of(answer.get("tokens_predicted")),
        left=count_of(answer.get("tokens_cached")),
        drafted=count_of(timings.get("draft_n")),
        stop_type=str(answer.get("stop_type", "")),
        prefill_ms=_time(timings.get("prompt_ms")),
        decode_ms=_time(timings.get("predicted_ms")),
    )


def align(ids: Sequence[int], entry_ids: Sequence[int]) -> list[int | None] | None:
    """For each id the index of its entry, None where it has none or where that is not certain.

    A token that ends inside a UTF-8 character has no entry, so there may be fewer entries than ids. An entry is used
    only where the leftmost and the rightmost way to lay the entries over the ids agree: nothing ever shifts. None
    where the entries are no part of the ids in order.
    """
    left = _leftmost(ids, entry_ids)
    right = _leftmost(ids[::-1], entry_ids[::-1])
    if left is None or right is None:
        return None
    placed: list[int | None] = [None] * len(ids)
    for index, (first, from_end) in enumerate(zip(left, reversed(right), strict=True)):
        if first == len(ids) - 1 - from_end:
            placed[first] = index
    return placed


def logprob_of(value: object) -> float | None:
    """A logprob in nats; None for what is none: no number, above 0, or the lowest float (probability 0)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and _LOWEST < value <= 0 else None


def count_of(value: object) -> int | None:
    """A count or an id; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def bytes_of(value: object) -> bytes | None:
    """A list of byte values as bytes; None for what is none."""
    if isinstance(value, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return bytes(value)
    return None


def as_mapping(value: object) -> Mapping[str, Any]:
    """`value` where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` where it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def _leftmost(ids: Sequence[int], entry_ids: Sequence[int]) -> list[int] | None:
    positions = []
    at = 0
    for token_id in entry_ids:
        while at < len(ids) and ids[at] != token_id:
            at += 1
        if at == len(ids):
            return None
        positions.append(at)
        at += 1
    return positions


def _entry(value: object) -> Entry | None:
    entry = as_mapping(value)
    token_id = count_of(entry.get("id"))
    if token_id is None:
        return None
    rivals: list[tuple[int, float]] = []
    pieces: dict[int, bytes] = {}
    for item in map(as_mapping, as_list(entry.get("top_logprobs"))):
        rival, logprob, piece = count_of(item.get("id")), logprob_of(item.get("logprob")), bytes_of(item.get("bytes"))
        if rival is not None and logprob is not None:
            rivals.append((rival, logprob))
        if rival is not None and piece is not None:
            pieces[rival] = piece
    # A token that a draft model proposed comes with probability 1 and no rivals: nobody looked at its distribution.
    return Entry(token_id, logprob_of(entry.get("logprob")) if rivals else None, tuple(rivals), pieces)


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
