"""The facts of one pair as tables of text, which report.html and report.md print. Numbers count from 1 here.

What did not come from us (a model, an engine, a person) is `Foreign`: inert text, which either report sets apart from
its own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from app.bundle.report_words import (
    UNKNOWN,
    Foreign,
    count_text,
    foreign,
    id_text,
    marked_names,
    nats,
    side_names,
    token_text,
)
from app.trajectory.pair import Fork, ForkKind, Pair, Repeats
from app.trajectory.piece_text import hex_bytes
from app.trajectory.provenance import expected_cached
from app.trajectory.telemetry import chunks
from app.trajectory.trajectory import Request, Trajectory

MOST_BYTES = 24
"""Bytes of a token that are written out; the rest is counted."""
MOST_SPANS = 60
"""Rows of the provenance table; the rest is counted."""


Text = str | tuple[str, ...]
"""What stands in a cell: one text, or several of a kind."""


@dataclass(frozen=True)
class Table:
    """`rows` of `head`'s columns; `marks` names special rows by index: "fork", "after" (not comparable), "near"."""

    head: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    marks: Mapping[int, str] = field(default_factory=dict)
    note: str = ""


def fork_table(pair: Pair, *, redacted: bool) -> Table | None:
    """Both tokens at the fork with ids, bytes, logprobs, margins and best rivals; None where there is no step."""
    fork = pair.comparison.fork
    if fork is None or fork.step is None:
        return None
    rows: list[tuple[Text, ...]] = []
    sides = (fork.cached, pair.cached), (fork.recompute, pair.recompute)
    for name, (side, trajectory) in zip(marked_names(pair), sides, strict=True):
        if side is None:
            rows.append((name, "ends here", *("",) * 5))
            continue
        rows.append(
            (
                name,
                token_text(side.piece or pair.pieces.get(side.token_id, b""), side.token_id, redacted=redacted),
                id_text(side.token_id),
                "taken out" if redacted else _hex(side.piece or pair.pieces.get(side.token_id, b"")),
                nats(side.logprob),
                nats(side.margin),
                _rivals(trajectory, fork, pair.pieces, redacted=redacted),
            )
        )
    return Table(("path", "token", "id", "bytes", "logprob", "margin, nats", "most probable there"), tuple(rows))


def judgement(pair: Pair) -> list[tuple[str, str]]:
    """The verdict and the rule that gave it."""
    return [("verdict", foreign(pair.verdict.headline, 1000)), ("rule", foreign(pair.verdict.rule, 2000))]


def card(pair: Pair) -> list[tuple[str, str]]:
    """The divergence card: everything measured on the pair, a name and a text each."""
    comparison, fork, floor = pair.comparison, pair.comparison.fork, pair.noise_floor
    facts = [
        ("episode", foreign(comparison.episode_id)),
        ("cause class", foreign(pair.verdict.code)),
        ("first difference", "none" if fork is None else f"{fork.kind}, at {fork.place}"),
        ("largest drift before it" if fork else "largest drift", nats(comparison.drift_max, unit=True)),
        (
            "noise floor",
            f"{nats(floor.nats, unit=True)} (99th percentile of n = {floor.steps:,} steps)"
            if floor.nats is not None
            else f"unknown: only {floor.steps:,} steps to take it from",
        ),
        ("median change of margin", nats(comparison.margin_change_median, unit=True)),
        ("near ties up to it" if fork else "near ties", f"{comparison.near_ties:,}"),
        ("compared steps", f"{comparison.aligned_steps:,}, of which {comparison.shared_steps:,} behind a cache hit"),
        ("compared by", foreign(comparison.level)),
        ("repeats, cached", _repeats(comparison.repeats.get("cached"))),
        ("repeats, recompute", _repeats(comparison.repeats.get("recompute"))),
        ("tool calls", "changed" if comparison.tool_calls_changed else "not changed"),
        ("outcome", _outcomes(pair)),
    ]
    facts += [("invalid", foreign(reason)) for reason in comparison.problems]
    return facts + [("unproven", foreign(reason)) for reason in comparison.unproven]


def reuse_table(pair: Pair) -> Table:
    """Proof of reuse: what every request took from the cache and evaluated, on both paths."""
    fork = pair.comparison.fork
    total = max(len(pair.cached.requests), len(pair.recompute.requests))
    rows, marks = [], {}
    for index in range(total):
        left, right = (request_at(side, index) for side in (pair.cached, pair.recompute))
        rows.append((str(index + 1), *_asked(pair.cached, index), *_counts(left), *_counts(right)))
        if fork is not None and index >= fork.request:
            marks[index] = "fork" if index == fork.request else "after"
    names = side_names(pair)
    head = (
        "request", "prompt tokens", "could share",
        *(title for name in names for title in (f"{name}: from cache", "evaluated", "in chunks of", "answer")),
    )  # fmt: skip
    return Table(head, tuple(rows), marks)


def provenance_table(pair: Pair) -> Table:
    """How the KV entries of the forked request's prompt were written, on both paths, from the first position on."""
    index = shown_request(pair)
    rows: list[tuple[str, ...]] = []
    hidden = 0
    for name, side in zip(marked_names(pair), (pair.cached, pair.recompute), strict=True):
        request = request_at(side, index)
        spans = request.spans if request else ()
        for number, span in enumerate(spans):
            if number >= MOST_SPANS:
                hidden += len(spans) - number
                break
            how = {"prefill": f"prefilled in a chunk of {span.chunk or span.length:,}", "decode": "decoded one by one"}
            place = f"{span.start + 1:,} to {span.start + span.length:,}"
            rows.append((name, place, how.get(span.kind, "not reported"), foreign(span.writer)))
    note = f"{hidden:,} more in the bundle's own parts." if hidden else ""
    return Table(("path", "prompt tokens", "how", "by request"), tuple(rows), note=note)


def shown_request(pair: Pair) -> int:
    """The request that is looked at, from 0: the forked one, without a fork the last."""
    last = max(len(pair.cached.requests), len(pair.recompute.requests), 1) - 1
    return last if pair.comparison.fork is None else min(pair.comparison.fork.request, last)


def request_at(side: Trajectory, index: int) -> Request | None:
    """Request `index` (from 0) of a path; None where the path has none."""
    return side.requests[index] if index < len(side.requests) else None


def _hex(piece: bytes) -> str:
    more = len(piece) - MOST_BYTES
    return (hex_bytes(piece[:MOST_BYTES]) or "none") + (f" … (+{more:,})" if more > 0 else "")


def _rivals(side: Trajectory, fork: Fork, pieces: Mapping[int, bytes], *, redacted: bool) -> Text:
    if fork.kind is ForkKind.PROMPT or fork.step is None:
        return ""
    steps = side.requests[fork.request].steps
    pairs = zip(steps.rival_ids[fork.step].tolist(), steps.rival_logprobs[fork.step].tolist(), strict=True)
    texts = [
        Foreign(f"{token_text(pieces.get(token_id), token_id, redacted=redacted)} {nats(logprob)}")
        for token_id, logprob in pairs
        if not np.isnan(logprob)
    ]
    return tuple(texts) or UNKNOWN


def _repeats(repeats: Repeats | None) -> str:
    if repeats is None or repeats.exact is None:
        return "not repeated"
    if repeats.exact:
        return f"{repeats.runs} of {repeats.runs} runs bit-identical"
    return foreign(f"{repeats.runs} runs, not identical: {repeats.first_difference}")


def _outcomes(pair: Pair) -> str:
    left, right = pair.cached.outcome.kind, pair.recompute.outcome.kind
    sides = pair.comparison.sides
    return foreign(f"{left} on both" if left == right else f"{left} on {sides[0]}, {right} on {sides[1]}")


def _asked(side: Trajectory, index: int) -> tuple[str, str]:
    """Size of a request's prompt, and how much of it the state can hold from the request before it."""
    request = request_at(side, index)
    if request is None:
        return "—", ""
    shared = f"{expected_cached(side.requests[index - 1], request):,}" if index else ""
    return f"{len(request.prompt.ids):,}", shared


def _counts(request: Request | None) -> tuple[str, str, str, str]:
    report = request.report if request else None
    if request is None or report is None:
        return "no such request" if request is None else "did not end", "", "", ""
    how = chunks(report.chunks) if report.evaluated_tokens is not None and report.chunks else UNKNOWN
    slot = "" if report.slot is None else f" (slot {report.slot})"
    answer = foreign(f"{len(request.steps):,}, {report.finish_reason}")
    return count_text(report.cached_tokens) + slot, count_text(report.evaluated_tokens), how, answer
