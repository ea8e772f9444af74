"""What `--json` prints: small documented objects (resources/help/json.md). Requests and steps count from 1 here."""

from __future__ import annotations

from typing import Any

from app.trajectory.pair import ForkSide, Pair, PairRow


def pair_report(pair: Pair) -> dict[str, Any]:
    """The object of `forkpoint compare --json`; logprobs and margins in nats, bytes as hex."""
    comparison, fork = pair.comparison, pair.comparison.fork
    return {
        "episode": comparison.episode_id,
        "diverged": fork is not None,
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
        "valid": comparison.valid,
        "problems": [*comparison.problems, *comparison.unproven],
        "verdict": f"{pair.verdict.headline} {pair.verdict.detail}".strip(),
        "code": pair.verdict.code,
        "rule": pair.verdict.rule,
    }


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
