"""An answer as a server gave it, whatever shape it came in, with the evidence for its path."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One position of `logprobs`: the sampled token's logprob in nats and the (id, logprob) of its rivals, falling."""

    logprob: float
    rivals: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Answer:
    """One answer: sampled ids with the end token, one Entry or None for each, and the counts as told (None: absent).

    `prompt_ids` are the ids that went in as the server saw them. `stop_reason` is None after the model's own end token
    and the id after another one.
    """

    ids: tuple[int, ...]
    entries: tuple[Entry | None, ...]
    text: str
    finish_reason: str
    stop_reason: object
    prompt_ids: tuple[int, ...] | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached: int | None
    fingerprint: str


@dataclass(frozen=True)
class Asked:
    """An answer with the evidence for its path.

    `cached` are prompt tokens out of the cache, None where that cannot be known; `note` says how it is known where not
    by the answer itself. `request` and `response` are the bodies as JSON, less the ids and logprobs.
    """

    answer: Answer
    cached: int | None
    note: str | None
    request: str
    response: str
