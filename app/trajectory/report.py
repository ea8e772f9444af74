"""What `--json` prints: small documented objects (resources/help/json.md). Requests and steps count from 1 here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from app.trajectory.pair import Fork, ForkKind, ForkSide, Pair, PairRow
from app.trajectory.piece_text import visible
from app.trajectory.trajectory import Status


def pair_report(pair: Pair) -> dict[str, Any]:
    """The object of `forkpoint compare --json`; logprobs and margins in nats, bytes as hex."""
    comparison, fork = pair.comparison, pair.comparison.fork
    finished = is_finished(pair)
    return {
        "episode": comparison.episode_id,
        "sides": list(pair.names),
        "level": comparison.level,
        "diverged": fork is not None if finished else None,
        "kind": str(fork.kind) if fork else None,
        "request": fork.request + 1 if fork else None,
        "step": fork.step + 1 if fork and fork.step is not None else None,
        "cached": _side(fork.cached if fork else None),
        "recompute": _side(fork.recompute if fork else None),
        "repeats": {path: repeats.exact for path, repeats in comparison.repeats.items()},
        "runs": {path: repeats.runs for path, repeats in comparison.repeats.items()},
        "tool_calls_changed": comparison.tool_calls_changed,
        "outcome_changed": comparison.outcome_changed,
        "logprobs_equal": comparison.logprobs_equal,
        "shared_steps": comparison.shared_steps,
        "near_ties": comparison.near_ties,
        "drift_max": comparison.drift_max,
        "margin_change_median": comparison.margin_change_median,
        "noise_floor": pair.noise_floor.nats,
        "valid": comparison.valid if finished else None,
        "problems": [*comparison.problems, *comparison.unproven],
        "verdict": f"{pair.verdict.headline} {pair.verdict.detail}".strip(),
        "code": pair.verdict.code,
        "rule": pair.verdict.rule,
    }


def is_finished(pair: Pair) -> bool:
    """Whether both paths have run the episode to its end."""
    return pair.cached.status is Status.DONE and pair.recompute.status is Status.DONE


def row_report(row: PairRow) -> dict[str, Any]:
    """One of the `pairs` of `forkpoint list --json`; `diverged` and `valid` are null while a path is unfinished."""
    return {
        "experiment": row.experiment_id,
        "episode": row.episode_id,
        "family": row.family,
        "diverged": row.diverged,
        "kind": row.kind,
        "request": None if row.request is None else row.request + 1,
        "step": None if row.step is None else row.step + 1,
        "margin": row.margin,
        "near_ties": row.near_ties,
        "tool_calls_changed": row.tool_calls_changed,
        "outcome_changed": row.outcome_changed,
        "valid": row.valid,
        "code": row.code,
        "verdict": row.headline,
        "problems": list(row.problems),
    }


def _side(side: ForkSide | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "token_id": side.token_id,
        "text": side.piece.decode("utf-8", errors="replace"),
        "bytes": side.piece.hex(),
        "logprob": side.logprob,
        "margin": side.margin,
    }


STEP_COLUMNS = (
    "path", "request", "turn", "step", "token_id", "text", "bytes", "logprob", "margin", "rival_ids", "rival_logprobs",
    "cached_tokens", "evaluated_tokens", "after_fork",
)  # fmt: skip
"""Columns of `forkpoint show --csv`, a row per step; empty where not reported."""


def step_rows(pair: Pair) -> Iterator[tuple[object, ...]]:
    """Every step of both paths in STEP_COLUMNS; logprobs and margins in nats, ids and logprobs of rivals by spaces."""
    fork = pair.comparison.fork
    for name, side in zip(pair.names, (pair.cached, pair.recompute), strict=True):
        for request in side.requests:
            report, steps = request.report, request.steps
            for index, margin in enumerate(steps.margins):
                step = steps.step(index, pair.pieces)
                yield (
                    name, request.index + 1, request.prompt.turn + 1, index + 1, step.token_id,
                    step.piece.decode("utf-8", errors="replace"), step.piece.hex(), step.logprob,
                    None if np.isnan(margin) else float(margin),
                    " ".join(str(rival.token_id) for rival in step.rivals),
                    " ".join(str(rival.logprob) for rival in step.rivals),
                    report.cached_tokens if report else None, report.evaluated_tokens if report else None,
                    fork is not None and _is_after(fork, request.index, index),
                )  # fmt: skip


def token_lines(pair: Pair) -> Iterator[str]:
    """Both paths' answers for a terminal, request by request: equal ones once, the fork between ⟦ ⟧."""
    fork = pair.comparison.fork
    yield pair.verdict.headline
    yield pair.verdict.detail
    for index in range(max(len(pair.cached.requests), len(pair.recompute.requests))):
        yield ""
        forked_here = fork is not None and index == fork.request
        equal = fork is None or index < fork.request
        sides = ("◆", pair.names[0], pair.cached), ("●", pair.names[1], pair.recompute)
        for mark, own, side in sides:
            if index >= len(side.requests) or (equal and side is pair.recompute):
                continue
            request = side.requests[index]
            counts = "" if request.report is None else (
                f"{_count(request.report.cached_tokens)} cached, {_count(request.report.evaluated_tokens)} evaluated, "
                f"finish {request.report.finish_reason}"
            )  # fmt: skip
            name = ("both runs" if pair.comparison.is_run_to_run else "both paths") if equal else own
            after = " (after the fork)" if fork is not None and index > fork.request else ""
            yield f"{mark} request {index + 1}, {name}{after}: {counts}"
            at = fork.step if fork is not None and forked_here and fork.kind is not ForkKind.PROMPT else None
            yield "    " + "".join(
                f"⟦{visible(request.steps.piece(n))}⟧" if n == at else visible(request.steps.piece(n))
                for n in range(len(request.steps))
            )


def _is_after(fork: Fork, request: int, step: int) -> bool:
    """Whether a step, counted from 0, answers another context than the other path's."""
    if fork.kind in (ForkKind.TOKEN, ForkKind.LENGTH) and fork.step is not None:
        return (request, step) > (fork.request, fork.step)
    return request >= fork.request


def _count(tokens: int | None) -> str:
    return "not reported" if tokens is None else str(tokens)
