"""The data parts of a bundle: from its contents to the bytes of each file, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from app.bundle.format import BundleContents, Card, HistoryLine, Manifest, PairPart, RequestLine, folder_of
from app.errors import BundleError, StoreError
from app.trajectory.codec import compact, decode, encode, from_line, parse, to_line
from app.trajectory.pair import Pair
from app.trajectory.reproducer import WarmUp
from app.trajectory.step import IdArray, as_ids, shared_length
from app.trajectory.trajectory import Request, Span, Trajectory

T = TypeVar("T")

PIECES = "pieces.json"
CARD, CACHED, RECOMPUTE, HISTORY = "card.json", "cached.jsonl", "recompute.jsonl", "history.jsonl"
NOTE, LOG = "note.txt", "log.txt"

DATA_NAMES = frozenset({CARD, CACHED, RECOMPUTE, HISTORY, NOTE, LOG})
"""What may lie in a pair's folder beside reports and scripts."""


def data_parts(contents: BundleContents) -> dict[str, bytes]:
    """Every data file of the bundle but the manifest, by its name in the zip."""
    parts: dict[str, bytes] = {}
    pieces = {token_id: piece for part in contents.pairs for token_id, piece in part.pair.pieces.items()}
    if pieces:
        parts[PIECES] = _json({str(token_id): piece for token_id, piece in sorted(pieces.items())})
    for number, part in enumerate(contents.pairs, 1):
        folder = folder_of(number, part.pair.cached.episode_id)
        pair = part.pair
        card = Card(pair.comparison, pair.verdict, pair.noise_floor, part.cached_pass, part.recompute_pass)
        parts[f"{folder}/{CARD}"] = _json(card)
        parts[f"{folder}/{CACHED}"] = _run_out(pair.cached)
        parts[f"{folder}/{RECOMPUTE}"] = _run_out(pair.recompute)
        for name, data in (
            (HISTORY, _history_out(part.history)),
            (NOTE, part.note.encode(errors="backslashreplace")),
            (LOG, part.log_excerpt.encode(errors="backslashreplace")),
        ):
            if data:
                parts[f"{folder}/{name}"] = data
    return parts


def contents_of(manifest: Manifest, parts: Mapping[str, bytes]) -> BundleContents:
    """What the data parts say. Raises BundleError, which names the part, where one is missing or cannot be read."""
    pieces = _read(parts, PIECES, lambda data: decode(dict[int, bytes], parse(data))) if PIECES in parts else {}
    pairs = tuple(_pair_in(folder, parts, pieces) for folder in manifest.pairs)
    for what, names in (
        ("episode", [part.pair.cached.episode_id for part in pairs]),
        ("run", [side.id for part in pairs for side in (part.pair.cached, part.pair.recompute)]),
    ):
        if len(set(names)) != len(names):
            raise BundleError(f"The bundle holds one {what} twice.", "It was not written by Forkpoint.")
    return BundleContents(
        created=manifest.created,
        app_version=manifest.app_version,
        experiment=manifest.experiment,
        pairs=pairs,
        near_tie=manifest.near_tie,
        answers=manifest.answers,
        redaction=manifest.redaction,
        form=manifest.form,
        replay_log=manifest.replay_log,
    )


def _json(value: object) -> bytes:
    return (compact(encode(value)) + "\n").encode()


def _run_out(run: Trajectory) -> bytes:
    """The trajectory without its requests, then a line each."""
    return "".join([to_line(replace(run, requests=())), *_request_lines(run.requests)]).encode()


def _request_lines(requests: Sequence[Request]) -> Iterator[str]:
    held, spans = as_ids(()), tuple[Span, ...]()
    for request in requests:
        own = tuple(request.spans)
        shared, same = shared_length(held, request.prompt.ids), _shared_spans(spans, own)
        prompt = replace(request.prompt, ids=request.prompt.ids[shared:])
        line = RequestLine(shared, same, replace(request, prompt=prompt, spans=own[same:]))
        yield compact(encode(line)) + "\n"
        held, spans = np.concatenate([request.prompt.ids, request.steps.token_ids]), own


def _shared_spans(left: Sequence[Span], right: Sequence[Span]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(left), len(right)))


def _history_out(history: Sequence[WarmUp]) -> bytes:
    lines, held = [], as_ids(())
    for warm_up in history:
        shared = shared_length(held, warm_up.prompt_ids)
        line = HistoryLine(shared, replace(warm_up, prompt_ids=warm_up.prompt_ids[shared:]))
        lines.append(compact(encode(line)) + "\n")
        held = np.concatenate([warm_up.prompt_ids, warm_up.answer_ids])
    return "".join(lines).encode()


def _pair_in(folder: str, parts: Mapping[str, bytes], pieces: Mapping[int, bytes]) -> PairPart:
    card: Card = _read(parts, f"{folder}/{CARD}", lambda data: decode(Card, parse(data)))
    cached = _read(parts, f"{folder}/{CACHED}", _run_in)
    recompute = _read(parts, f"{folder}/{RECOMPUTE}", _run_in)
    if cached.episode_id != recompute.episode_id or (cached.pass_id, recompute.pass_id) != (
        card.cached_pass.id,
        card.recompute_pass.id,
    ):
        raise BundleError(
            f"The runs in {folder} are not those of its {CARD}.", "The bundle was not written by Forkpoint."
        )
    text: Callable[[bytes], str] = lambda data: data.decode("utf-8")  # noqa: E731
    return PairPart(
        Pair(cached, recompute, card.comparison, card.verdict, card.noise_floor, pieces),
        card.cached_pass,
        card.recompute_pass,
        _read(parts, f"{folder}/{HISTORY}", _history_in, b""),
        _read(parts, f"{folder}/{NOTE}", text, b""),
        _read(parts, f"{folder}/{LOG}", text, b""),
    )


def _read(parts: Mapping[str, bytes], name: str, understand: Callable[[bytes], T], absent: bytes | None = None) -> T:
    data = parts.get(name, absent)
    if data is None:
        raise BundleError(f"The bundle lacks its part {name}.", "Ask for the bundle again.")
    try:
        return understand(data)
    except (StoreError, ValueError) as error:
        why = error.message if isinstance(error, StoreError) else "it is no UTF-8"
        raise BundleError(f"The part {name} cannot be read: {why}", "Ask for the bundle again.") from error


def _run_in(data: bytes) -> Trajectory:
    lines = data.splitlines()
    run = from_line(lines[0]) if lines else None
    if not isinstance(run, Trajectory) or run.requests:
        raise StoreError("its first line is no run.")
    held, spans, requests = as_ids(()), tuple[Span, ...](), list[Request]()
    for line in _lines(RequestLine, lines[1:]):
        ids = _continued(held, line.shared_ids, line.request.prompt.ids)
        if not 0 <= line.shared_spans <= len(spans) or line.request.index != len(requests):
            raise StoreError("its requests do not continue each other.")
        spans = spans[: line.shared_spans] + tuple(line.request.spans)
        requests.append(replace(line.request, prompt=replace(line.request.prompt, ids=ids), spans=spans))
        held = np.concatenate([ids, line.request.steps.token_ids])
    return replace(run, requests=tuple(requests))


def _history_in(data: bytes) -> tuple[WarmUp, ...]:
    held, history = as_ids(()), list[WarmUp]()
    for line in _lines(HistoryLine, data.splitlines()):
        ids = _continued(held, line.shared_ids, line.request.prompt_ids)
        history.append(replace(line.request, prompt_ids=ids))
        held = np.concatenate([ids, line.request.answer_ids])
    return tuple(history)


def _lines(kind: type[T], lines: Sequence[bytes]) -> Sequence[T]:
    """JSON lines parsed together, which is faster than one by one."""
    values: Any = parse(b"[" + b",".join(lines) + b"]")
    if len(values) != len(lines):
        raise StoreError("its lines are not one object each.")
    found: tuple[T, ...] = decode(tuple[kind, ...], values)  # type: ignore[valid-type]  # the type is a value here
    return found


def _continued(held: IdArray, shared: int, new: IdArray) -> IdArray:
    if not 0 <= shared <= len(held):
        raise StoreError("a prompt shares more than there was before it.")
    return np.concatenate([held[:shared], new])
