"""Where two trajectories of one episode fork, and how far their numbers drift before (STUDY: Words).

Up to the fork both sides hold the same requests with the same answers, so the aligned steps are simply the first n
steps of each: those with identical prompt ids and identical preceding answer ids. A flip, the first token that
differs, is still one of them (same context, another choice); nothing after it can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.trajectory.pair import NEAR_TIE_NATS, Comparison, Fork, ForkKind, ForkSide, Repeats
from app.trajectory.step import IdArray, LogprobArray, MarginArray, StepBlock, shared_length
from app.trajectory.trajectory import Request, Status, Trajectory

DEPTH_TOLERANCE_NATS = 1e-3
"""Another logprob depth changes logprobs in the last bits (STUDY: Traps): such sides are compared within this."""

NO_MEASUREMENT_NATS = 1e30
"""A probability of 0 may be reported as the lowest float; differences of such values measure nothing."""

BoolArray = NDArray[np.bool_]


def find_fork(cached: Trajectory, recompute: Trajectory) -> Fork | None:
    """The first difference (STUDY: Episode diverged), or None.

    What an unfinished side (status other than DONE) does not have yet is no difference.
    """
    return _align(cached, recompute)[0]


def compare(
    cached: Trajectory,
    recompute: Trajectory,
    *,
    near_tie: float = NEAR_TIE_NATS,
    repeats: Mapping[str, Repeats] | None = None,
    problems: Iterable[str] = (),
    unproven: Iterable[str] = (),
) -> Comparison:
    """Everything that is counted and measured on a pair; `near_tie` in nats, the rest is passed through."""
    fork, aligned = _align(cached, recompute)
    drifts = _change(_logprobs(cached), _logprobs(recompute), fork, aligned)
    shared = _shared(cached, aligned)
    changes = _change(cached.margins, recompute.margins, fork, aligned)[shared]
    finished = _is_done(cached) and _is_done(recompute)
    return Comparison(
        episode_id=cached.episode_id,
        family=cached.family,
        fork=fork,
        logprobs_equal=not np.isnan(drifts).any() and _equal_so_far(cached, recompute, aligned),
        shared_steps=int(shared.sum()),
        aligned_steps=aligned,
        drift_max=_reduced(np.max, drifts),
        margin_change_median=_reduced(np.median, changes),
        near_ties=int((recompute.margins[:aligned] < near_tie).sum()),
        tool_calls_changed=_calls(cached, recompute, finished) != _calls(recompute, cached, finished),
        outcome_changed=finished and cached.outcome.kind != recompute.outcome.kind,
        repeats=dict(repeats or {}),
        problems=tuple(problems),
        unproven=tuple(unproven),
    )


def drift(cached: Trajectory, recompute: Trajectory) -> MarginArray:
    """|change of logprob of the same token| in nats, float64 [aligned]; NaN at the flip and where not reported."""
    return _change(_logprobs(cached), _logprobs(recompute), *_align(cached, recompute))


def margin_changes(cached: Trajectory, recompute: Trajectory) -> MarginArray:
    """|margin_cached - margin_recompute| in nats, float64 [aligned]; NaN at the flip and where a margin is unknown."""
    return _change(cached.margins, recompute.margins, *_align(cached, recompute))


def shared_mask(cached: Trajectory, recompute: Trajectory) -> BoolArray:
    """Which aligned steps are shared steps: those of requests that hit the cache on the cached path, bool [aligned]."""
    return _shared(cached, _align(cached, recompute)[1])


def bit_identical(first: Trajectory, second: Trajectory) -> str:
    """"" where a repeat has every id and logprob bit for bit, else where they first differ (counted from 1).

    An unfinished side is compared as far as it goes; sides of different logprob depth within a tolerance.
    """
    for number, (left, right) in enumerate(zip(first.requests, second.requests, strict=False), start=1):
        if not np.array_equal(left.prompt.ids, right.prompt.ids):
            return f"request {number}, prompt token {shared_length(left.prompt.ids, right.prompt.ids) + 1}"
        same = shared_length(left.steps.token_ids, right.steps.token_ids)
        row = _first_unequal_row(left.steps, right.steps, same)
        if row is not None:
            return f"request {number}, token {row + 1}: another logprob"
        if max(len(left.steps), len(right.steps)) > same and not _is_cut_short(first, second, number - 1, same):
            return f"request {number}, token {same + 1}: another token"
    counts = len(first.requests), len(second.requests)
    if _is_done(first) and _is_done(second) and counts[0] != counts[1]:
        return f"request {min(counts) + 1}: only one run has it"
    return ""


def _is_done(trajectory: Trajectory) -> bool:
    return trajectory.status is Status.DONE


def _align(cached: Trajectory, recompute: Trajectory) -> tuple[Fork | None, int]:
    """The fork, and the number of aligned steps (a flip included)."""
    aligned = 0
    for index, (left, right) in enumerate(zip(cached.requests, recompute.requests, strict=False)):
        if not np.array_equal(left.prompt.ids, right.prompt.ids):
            at = shared_length(left.prompt.ids, right.prompt.ids)
            return Fork(ForkKind.PROMPT, index, at, _prompt_side(left, at), _prompt_side(right, at)), aligned
        if np.array_equal(left.steps.token_ids, right.steps.token_ids):
            aligned += len(left.steps)
            continue
        at = shared_length(left.steps.token_ids, right.steps.token_ids)
        sides = _step_side(left, at), _step_side(right, at)
        if None not in sides:
            return Fork(ForkKind.TOKEN, index, at, *sides), aligned + at + 1
        if _is_cut_short(cached, recompute, index, at):
            return None, aligned + at
        if (left if sides[0] is None else right).report is None:  # it ended in an error, in the middle of the answer
            return Fork(ForkKind.REQUESTS, index, None, None, None), aligned + at
        return Fork(ForkKind.LENGTH, index, at, *sides), aligned + at
    return _requests_fork(cached, recompute), aligned


def _is_cut_short(left: Trajectory, right: Trajectory, index: int, same: int) -> bool:
    """Whether request `index` ends after `same` steps on one side only because that side was stopped there."""
    sides = [side for side in (left, right) if len(side.requests[index].steps) == same]
    reports = [(side, side.requests[index].report) for side in sides]
    return any(
        not _is_done(side) and (report is None or report.finish_reason == "cancelled") for side, report in reports
    )


def _requests_fork(cached: Trajectory, recompute: Trajectory) -> Fork | None:
    """The fork of two sides whose common requests are equal: one made more requests, or one ended in an error."""
    shorter, longer = sorted((cached, recompute), key=lambda side: len(side.requests))
    count = len(shorter.requests)
    if not _is_done(shorter):
        return None
    if len(longer.requests) == count:
        if not _is_done(longer) or (_failure(shorter) == _failure(longer)):
            return None
        open_last = count and any(side.requests[-1].report is None for side in (shorter, longer))
        count -= bool(open_last)
    return Fork(ForkKind.REQUESTS, count, None, None, None)


def _failure(trajectory: Trajectory) -> str:
    """ "error" or "overflow" where the trajectory ended in one; both are outcomes of it (STUDY), "" else."""
    return trajectory.outcome.kind if trajectory.outcome.kind in ("error", "overflow") else ""


def _prompt_side(request: Request, at: int) -> ForkSide | None:
    ids: IdArray = request.prompt.ids
    return ForkSide(int(ids[at]), b"", None, None) if at < len(ids) else None


def _step_side(request: Request, at: int) -> ForkSide | None:
    steps = request.steps
    if at >= len(steps):
        return None
    return ForkSide(int(steps.token_ids[at]), steps.piece(at), _known(steps.logprobs[at]), _known(steps.margins[at]))


def _known(value: np.floating) -> float | None:
    return None if np.isnan(value) else float(value)


def _logprobs(trajectory: Trajectory) -> LogprobArray:
    """The sampled tokens' logprobs of the whole episode, float32 [steps]."""
    return np.concatenate([np.empty(0, np.float32), *(request.steps.logprobs for request in trajectory.requests)])


def _change(
    left: LogprobArray | MarginArray, right: LogprobArray | MarginArray, fork: Fork | None, aligned: int
) -> MarginArray:
    """|left - right| in float64 over the aligned steps, NaN at the flip and where either side has no usable value."""
    sides = [side[:aligned].astype(np.float64) for side in (left, right)]
    for side in sides:
        side[~(np.abs(side) < NO_MEASUREMENT_NATS)] = np.nan
    changes: MarginArray = np.abs(sides[0] - sides[1])
    if fork is not None and fork.kind is ForkKind.TOKEN:
        changes[-1] = np.nan
    return changes


def _shared(cached: Trajectory, aligned: int) -> BoolArray:
    hits = [bool(request.report and request.report.cached_tokens) for request in cached.requests]
    return np.repeat(np.asarray(hits, np.bool_), np.diff(cached.step_starts))[:aligned]


def _reduced(how: object, values: MarginArray) -> float | None:
    raise NotImplementedError


def _equal_so_far(cached: Trajectory, recompute: Trajectory, aligned: int) -> bool:
    """Whether the logprobs and rivals of all aligned steps are bit-identical."""
    starts: Sequence[int] = cached.step_starts.tolist()
    return all(
        _first_unequal_row(left.steps, right.steps, min(aligned - start, len(left.steps))) is None
        for left, right, start in zip(cached.requests, recompute.requests, starts, strict=False)
        if start < aligned
    )


def _first_unequal_row(left: StepBlock, right: StepBlock, size: int) -> int | None:
    """The first of `size` steps whose logprob, rival ids or rival logprobs differ; None where none does."""
    raise NotImplementedError


def _calls(trajectory: Trajectory, other: Trajectory, finished: bool) -> list[tuple[str, str]]:
    """(name, arguments as JSON) of all calls; of an unfinished pair only those of the requests both have."""
    count = len(trajectory.requests) if finished else min(len(trajectory.requests), len(other.requests))
    return [
        (call.name, json.dumps(call.arguments, sort_keys=True))
        for request in trajectory.requests[:count]
        for call in request.calls
    ]
