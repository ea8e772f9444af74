"""An OpenAI-compatible server's answer to POST /v1/completions, read with distrust.

Two shapes are in use: OpenAI's own of `logprobs` (lists `tokens`, `token_logprobs`, `top_logprobs`), whose entries are
texts, and that of chat answers (`content`, a list of entries), whose entries may hold bytes and ids as well. A token
that is no whole character has no text of its own: its entry says "" or U+FFFD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from app.engine.llama_server.shape import as_list, as_mapping, bytes_of, count_of, logprob_of

UNKNOWN: Final = "\ufffd".encode()
"""Stands for bytes that the server did not tell."""

_SAME_NATS: Final = 1e-3
"""Two spellings of one logprob differ by less, two positions by more."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token that the server names: `piece` None where it tells neither its bytes nor a whole text."""

    piece: bytes | None
    token_id: int | None
    logprob: float | None


@dataclass(frozen=True, slots=True)
class Entry:
    """The sampled token at one position and its rivals by falling logprob, the sampled one among them where told."""

    sampled: Candidate
    rivals: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class Completion:
    """One answer. `entries` is None where the server gave none, or lists of unequal length.

    `tells_bytes` says that every entry has bytes of its own. Counts are tokens as the server counts them; None where it
    does not. `stop` is its own word for why it ended.
    """

    text: str
    stop: str
    entries: tuple[Entry, ...] | None
    tells_bytes: bool
    prompt_tokens: int | None
    answer_tokens: int | None
    cached: int | None
    fingerprint: str


def read_completion(raw: object) -> Completion | None:
    """What is to be had of an answer; None where it has no choice with a text."""
    answer = as_mapping(raw)
    choice = as_mapping((as_list(answer.get("choices")) or [None])[0])
    if not isinstance(choice.get("text"), str):
        return None
    usage = as_mapping(answer.get("usage"))
    logprobs = as_mapping(choice.get("logprobs"))
    content = logprobs.get("content")
    return Completion(
        text=whole_text(choice["text"]),
        stop=str(choice.get("finish_reason") or ""),
        entries=_of_lists(logprobs) if content is None else _of_content(content),
        tells_bytes=all(_tells_bytes(each) for each in as_list(content)) and bool(content),
        prompt_tokens=count_of(usage.get("prompt_tokens")),
        answer_tokens=count_of(usage.get("completion_tokens")),
        cached=count_of(as_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        fingerprint=str(answer.get("system_fingerprint") or ""),
    )


def cut(text: str, entries: Sequence[Entry]) -> list[tuple[bytes, Entry | None]] | None:
    """The text in the pieces of its entries; None where they do not rebuild it: then no entry can be placed.

    Where all pieces are told, each entry has its own; one that stands for several tokens is left out. Else a run of
    entries without a piece becomes one piece, whatever stands between its neighbours, and has no entry: nobody can say
    which logprob is which part's.
    """
    told = [entry.sampled.piece for entry in entries]
    if None not in told:
        whole = b"".join(piece for piece in told if piece is not None)
        if text not in (whole.decode("utf-8", errors=way) for way in ("replace", "ignore")):  # it may end half-way
            return None
        return [(entry.sampled.piece or b"", None if _is_folded(entry) else entry) for entry in entries]
    pieces: list[tuple[bytes, Entry | None]] = []
    at = index = 0
    while index < len(entries):
        begin = index
        while index < len(entries) and told[index] is None:
            index += 1
        known = _shown(told[index]) if index < len(entries) else None
        if index > begin:
            end = _end_of_untold(text, at, known)
            if end is None:
                return None
            pieces.append((text[at:end].encode("utf-8"), entries[begin] if index == begin + 1 else None))
            at = end
        if known is not None:
            if not text.startswith(known, at):
                return None
            pieces.append((known.encode("utf-8"), entries[index]))
            at, index = at + len(known), index + 1
    return pieces if at == len(text) else None


def best(entry: Entry, count: int) -> tuple[Candidate, ...]:
    """The `count` most probable candidates of an entry; none where one of them may be missing.

    Rivals in a JSON object are keyed by text, and of two with the same text one is lost.
    """
    rivals = entry.rivals
    if len(rivals) < count:
        return ()
    sampled_was_added = bool(rivals) and (rivals[-1].piece, rivals[-1].token_id) == (
        entry.sampled.piece,
        entry.sampled.token_id,
    )
    if sampled_was_added and len(rivals) == count and any(rival.piece is None for rival in rivals):
        return ()
    return rivals[:count]


def whole_text(text: str) -> str:
    """The text with the halves of surrogate pairs, which JSON may hold, joined or replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def without_arrays(raw: object) -> Mapping[str, Any]:
    """The answer less the logprobs, which the steps hold."""
    answer = dict(as_mapping(raw))
    answer["choices"] = [
        {name: value for name, value in as_mapping(choice).items() if name != "logprobs"}
        for choice in as_list(answer.get("choices"))
    ]
    return answer


def _is_folded(entry: Entry) -> bool:
    """Whether several tokens stand in one entry, as llama-server does with parts of a character.

    It then has all their bytes, but the id and logprob of the last, whose own bytes stand among the rivals.
    """
    sampled = entry.sampled
    return sampled.token_id is not None and any(
        rival.token_id == sampled.token_id and rival.piece != sampled.piece for rival in entry.rivals
    )


def _shown(piece: bytes | None) -> str:
    return (piece or b"").decode("utf-8", errors="replace")


def _end_of_untold(text: str, at: int, known: str | None) -> int | None:
    """Where the part of `text` from `at` ends whose tokens told no text; `known` is the next token (None: it was last).

    What such tokens make is no ASCII: at least one character, or nothing where the server left a broken one out.
    """
    end = at
    while end < len(text) and not text[end].isascii():
        end += 1
        if known is not None and text.startswith(known, end):
            return end
    if known is None:
        return end if end == len(text) else None
    return at if text.startswith(known, at) else None


def _of_lists(logprobs: Mapping[str, Any]) -> tuple[Entry, ...] | None:
    tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list) or len(tokens) != len(values):
        return None
    tops = as_list(logprobs.get("top_logprobs"))
    if len(tops) != len(tokens):
        tops = [None] * len(tokens)
    return tuple(
        _entry(
            Candidate(_piece(token), None, logprob_of(value)),
            [Candidate(_piece(text), None, logprob_of(each)) for text, each in as_mapping(top).items()],
        )
        for token, value, top in zip(tokens, values, tops, strict=True)
    )


def _of_content(content: object) -> tuple[Entry, ...] | None:
    if not isinstance(content, list):
        return None
    return tuple(
        _entry(_candidate(item), [_candidate(each) for each in as_list(as_mapping(item).get("top_logprobs"))])
        for item in content
    )


def _tells_bytes(value: object) -> bool:
    return bytes_of(as_mapping(value).get("bytes")) is not None


def _candidate(value: object) -> Candidate:
    item = as_mapping(value)
    told = bytes_of(item.get("bytes"))
    piece = told if told or (told is not None and not item.get("token")) else _piece(item.get("token"))
    return Candidate(piece, count_of(item.get("id")), logprob_of(item.get("logprob")))


def _entry(sampled: Candidate, rivals: Sequence[Candidate]) -> Entry:
    """An entry whose rivals contradict its sampled token is about another position: it has no figures at all."""
    listed = [each for each in rivals if each.logprob is not None]
    for each in listed:
        if (each.piece, each.token_id) == (sampled.piece, sampled.token_id) and not _equal(each, sampled):
            return Entry(replace(sampled, logprob=None))
    return Entry(sampled, tuple(sorted(listed, key=lambda each: -(each.logprob or 0.0))))


def _equal(left: Candidate, right: Candidate) -> bool:
    return left.logprob is not None and right.logprob is not None and abs(left.logprob - right.logprob) < _SAME_NATS


def _piece(text: object) -> bytes | None:
    whole = whole_text(text) if isinstance(text, str) else ""
    return None if not whole or UNKNOWN.decode() in whole else whole.encode("utf-8")
