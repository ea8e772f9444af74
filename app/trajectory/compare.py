"""Where two trajectories of one episode fork, and how far their numbers drift before (STUDY: Words).

Up to the fork both sides hold the same requests with the same answers, so the aligned steps are simply the first n
steps of each: those with identical prompt ids and identical preceding answer ids. A flip, the first token that
differs, is still one of them (same context, another choice); nothing after it can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from app.trajectory.pair import NEAR_TIE_NATS, PATH_NAMES, Comparison, Fork, ForkKind, ForkSide, Names, Repeats
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
    names: Names = PATH_NAMES,
    level: str = "ids",
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
        names=names,
        level=level,
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


def shared_drift(cached: Trajectory, recompute: Trajectory) -> MarginArray:
    """The known drifts at shared, non-flip steps in nats, float64: what the noise floor is made of."""
    fork, aligned = _align(cached, recompute)
    drifts = _change(_logprobs(cached), _logprobs(recompute), fork, aligned)[_shared(cached, aligned)]
    return drifts[~np.isnan(drifts)]


def bit_identical(first: Trajectory, second: Trajectory) -> str:
    """Where a repeat first differs, counted from 1; "" where every id and logprob is bit-identical.

    An unfinished side is compared up to its last finished request; sides of different logprob depth within a
    tolerance.
    """
    for index, (left, right) in enumerate(zip(first.requests, second.requests, strict=False)):
        if not _equal(left.prompt.ids, right.prompt.ids):
            return f"request {index + 1}, prompt token {shared_length(left.prompt.ids, right.prompt.ids) + 1}"
        if _is_open(first, index) or _is_open(second, index):
            return ""
        if difference := blocks_differ(left.steps, right.steps):
            return f"request {index + 1}, {difference}"
    counts = len(first.requests), len(second.requests)
    if counts[0] != counts[1] and _is_done(first) and _is_done(second):
        return f"request {min(counts) + 1}: only one run has it"
    return ""


def blocks_differ(left: StepBlock, right: StepBlock) -> str:
    """Where two answers first differ, e.g. "token 17: another logprob"; "" where they are bit-identical."""
    same = shared_length(left.token_ids, right.token_ids)
    row = _first_unequal_row(left, right, same)
    if row is not None:
        return f"token {row + 1}: another logprob"
    if same == min(len(left), len(right)):
        return "" if len(left) == len(right) else f"token {same + 1}: only one run has it"
    return f"token {same + 1}: another token"


def _is_done(trajectory: Trajectory) -> bool:
    return trajectory.status is Status.DONE


def _is_open(trajectory: Trajectory, index: int) -> bool:
    """Whether the answer to request `index` is as short as it is only because the run was stopped or still goes on."""
    report = trajectory.requests[index].report
    return not _is_done(trajectory) and (report is None or report.finish_reason == "cancelled")


def _align(cached: Trajectory, recompute: Trajectory) -> tuple[Fork | None, int]:
    """The fork, and the number of aligned steps (a flip included)."""
    aligned = 0
    for index, (left, right) in enumerate(zip(cached.requests, recompute.requests, strict=False)):
        if not _equal(left.prompt.ids, right.prompt.ids):
            at = shared_length(left.prompt.ids, right.prompt.ids)
            return Fork(ForkKind.PROMPT, index, at, _prompt_side(left, at), _prompt_side(right, at)), aligned
        if _equal(left.steps.token_ids, right.steps.token_ids):
            aligned += len(left.steps)
            continue
        at = shared_length(left.steps.token_ids, right.steps.token_ids)
        sides = _step_side(left, at), _step_side(right, at)
        if sides[0] is not None and sides[1] is not None:
            return Fork(ForkKind.TOKEN, index, at, *sides), aligned + at + 1
        shorter = cached if sides[0] is None else recompute
        if _is_open(shorter, index):
            return None, aligned + at
        if shorter.requests[index].report is None:  # it ended in an error in the middle of the answer
            return Fork(ForkKind.REQUESTS, index, None, None, None), aligned + at
        return Fork(ForkKind.LENGTH, index, at, *sides), aligned + at
    return _requests_fork(cached, recompute), aligned


def _equal(left: IdArray, right: IdArray) -> bool:
    """Whether two id arrays agree; their bytes tell it of short ones much faster than numpy does."""
    return left.tobytes() == right.tobytes() or np.array_equal(left, right)


def _requests_fork(cached: Trajectory, recompute: Trajectory) -> Fork | None:
    """The fork of two sides whose common requests are equal: one made more requests, or one ended in an error."""
    shorter, longer = sorted((cached, recompute), key=lambda side: len(side.requests))
    count = len(shorter.requests)
    if not _is_done(shorter):
        return None
    if len(longer.requests) == count:
        if not _is_done(longer) or _failure(shorter) == _failure(longer):
            return None
        # An error in the middle of an answer leaves that request without a report; else it met the next request.
        count -= any(side.requests[-1].report is None for side in (shorter, longer) if count)
    return Fork(ForkKind.REQUESTS, count, None, None, None)


def _failure(trajectory: Trajectory) -> str:
    """How the trajectory failed, "" where it did not. Both ways are outcomes of it (STUDY)."""
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


def _reduced(reduce: Callable[[MarginArray], np.floating], values: MarginArray) -> float | None:
    known = values[~np.isnan(values)]
    return float(reduce(known)) if len(known) else None


def _equal_so_far(cached: Trajectory, recompute: Trajectory, aligned: int) -> bool:
    """Whether the logprobs and rivals of all aligned steps are bit-identical."""
    starts = zip(cached.requests, recompute.requests, cached.step_starts.tolist(), strict=False)
    return all(
        _first_unequal_row(left.steps, right.steps, min(aligned - start, len(left.steps))) is None
        for left, right, start in starts
        if start < aligned
    )


def _first_unequal_row(left: StepBlock, right: StepBlock, size: int) -> int | None:
    """The first of `size` steps whose logprob, rival ids or rival logprobs differ; None where none does."""
    depth = min(left.rival_ids.shape[1], right.rival_ids.shape[1])
    sampled = left.logprobs[:size], right.logprobs[:size]
    rivals = left.rival_logprobs[:size, :depth], right.rival_logprobs[:size, :depth]
    if left.rival_ids.shape[1] != right.rival_ids.shape[1]:
        equal = _close(*sampled) & _close(*rivals).all(axis=1)
    else:
        ids = left.rival_ids[:size], right.rival_ids[:size]
        if all(one.tobytes() == other.tobytes() for one, other in (sampled, rivals, ids)):
            return None  # the usual case, in a fraction of the time
        equal = _same_bits(*sampled) & _same_bits(*rivals).all(axis=1) & (ids[0] == ids[1]).all(axis=1)
    return None if equal.all() else int(np.argmin(equal))


def _same_bits(left: LogprobArray, right: LogprobArray) -> BoolArray:
    """Bit for bit; two values that were not reported are equal whatever their NaN looks like."""
    equal: BoolArray = left.view(np.int32) == right.view(np.int32)
    return equal | (np.isnan(left) & np.isnan(right))


def _close(left: LogprobArray, right: LogprobArray) -> BoolArray:
    return np.isclose(left, right, rtol=0, atol=DEPTH_TOLERANCE_NATS, equal_nan=True)


def _calls(trajectory: Trajectory, other: Trajectory, finished: bool) -> str:
    """Names and arguments of all calls as JSON, the raw text of unusable ones.

    Of an unfinished pair only the calls of the requests that both have.
    """
    count = len(trajectory.requests) if finished else min(len(trajectory.requests), len(other.requests))
    calls = [
        (call.name, call.raw if call.arguments is None else call.arguments)
        for request in trajectory.requests[:count]
        for call in request.calls
    ]
    return json.dumps(calls, sort_keys=True)
