"""Whether a pass or a pair may be counted at all (STUDY: Pass accepted). What fails is kept, and says why."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from app.trajectory.step import NO_ID, StepBlock
from app.trajectory.trajectory import Path, Request, Status, Trajectory

LEAST_HITS_PERCENT = 95
"""Least share of later requests that must report a hit on the cached path."""

Findings = tuple[list[str], list[str]]
"""Problems, and what is unproven: sentences. Both are empty where all is well."""


def accept(
    trajectories: Sequence[Trajectory],
    path: Path,
    expected_episode_ids: Collection[str],
    rivals: int | None,
    *,
    run_to_run: bool = False,
) -> Findings:
    """Check a pass: everything that STUDY asks for before its figures may be averaged.

    All episodes present, request indices contiguous, `rivals` logprobs at every step (None where the engine reports
    none), piece bytes that rebuild the text, 0 cached tokens at every recompute request, a hit at 95 % of the cached
    path's later requests (those after an episode's first). Counts that were not reported leave the pass unproven.
    A pass of a `run_to_run` experiment claims nothing of its path: it may hit, miss, or not say.
    """
    done = {trajectory.episode_id for trajectory in trajectories if trajectory.status is Status.DONE}
    problems = _listed([episode_id for episode_id in expected_episode_ids if episode_id not in done], "not finished")
    indices = [t.episode_id for t in trajectories if [r.index for r in t.requests] != list(range(len(t.requests)))]
    problems += _listed(indices, "request indices are not contiguous")
    answered = list(_answered(trajectories))
    if rivals is not None:
        lacking = [name for name, r in answered if not has_depth(r.steps, rivals)]
        problems += _listed(lacking, f"not {rivals} logprobs a step")
    problems += _listed([name for name, r in answered if not _rebuilds_text(r.steps)], "piece bytes do not add up")
    problems += _contradictions(answered)
    if run_to_run:
        return problems, []
    counts, unproven = _counts(answered, path)
    if path is Path.RECOMPUTE:
        problems += _hits(answered)
    elif 100 * (hits := len(counts) - counts.count(0)) < LEAST_HITS_PERCENT * len(counts):
        problems.append(f"only {hits} of {len(counts)} later requests hit the cache, {LEAST_HITS_PERCENT} % must")
    return problems, unproven


def pair_problems(cached: Trajectory, recompute: Trajectory, *, run_to_run: bool = False) -> Findings:
    """Why a pair proves nothing.

    No request was answered, the cached path hit nothing, the recompute path hit something, or counts contradict. Two
    runs of one path (`run_to_run`) prove something whatever the cache did.
    """
    problems: list[str] = []
    unproven: list[str] = []
    if not any(request.report for side in (cached, recompute) for request in side.requests):
        unproven.append(f"no request was answered: {cached.outcome.detail or recompute.outcome.detail}".rstrip(": ."))
    for side in (cached, recompute):
        answered = list(_answered([side]))
        problems += _contradictions(answered)
        if run_to_run:
            continue
        counts, missing = _counts(answered, side.path)
        unproven += missing
        if side.path is Path.RECOMPUTE:
            problems += _hits(answered)
        elif counts and not any(counts):
            problems.append(f"the cached path hit nothing in {side.episode_id}")
    return problems, unproven


def _answered(trajectories: Sequence[Trajectory]) -> Iterator[tuple[str, Request]]:
    """Every finished request with its name, e.g. "calendar-02 request 3"."""
    for trajectory in trajectories:
        for request in trajectory.requests:
            if request.report is not None:
                yield f"{trajectory.episode_id} request {request.index + 1}", request


def _listed(names: Sequence[str], what: str) -> list[str]:
    """One sentence with the first name and the number of the others; none where there is no name."""
    if not names:
        return []
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return [f"{names[0]}{others}: {what}"]


def _contradictions(answered: Sequence[tuple[str, Request]]) -> list[str]:
    """What the engine itself found wrong with a request, in its own words."""
    found = [(name, r.report.problem.rstrip(".")) for name, r in answered if r.report and r.report.problem]
    return _listed([name for name, _ in found], found[0][1]) if found else []


def _hits(answered: Sequence[tuple[str, Request]]) -> list[str]:
    names = [name for name, r in answered if r.report and r.report.cached_tokens]
    return _listed(names, "the recompute path took tokens from the cache")


def _counts(answered: Sequence[tuple[str, Request]], path: Path) -> tuple[list[int], list[str]]:
    """The reported cached tokens of the requests that must prove the path, and a sentence where some are missing.

    On the cached path an episode's first request proves nothing: it may share no prefix with what was served before.
    """
    asked = [(name, r.report) for name, r in answered if r.report and (path is Path.RECOMPUTE or r.index > 0)]
    missing = [name for name, report in asked if report.cached_tokens is None]
    known = [report.cached_tokens for _, report in asked if report.cached_tokens is not None]
    return known, _listed(missing, f"the {path} path did not report how many tokens came from the cache")


def has_depth(steps: StepBlock, rivals: int) -> bool:
    """Whether every step has its own logprob and exactly `rivals` rivals.

    Where a token ends inside a UTF-8 character, servers fold its entry into the next one's: in such an answer a step
    may lack both, since of equal tokens it cannot always be told which one has the entry.
    """
    if not steps.rival_ids.shape == (len(steps), rivals) == steps.rival_logprobs.shape:
        return False
    absent = (steps.rival_ids == NO_ID) | np.isnan(steps.rival_logprobs)
    lacking = absent.any(axis=1) | np.isnan(steps.logprobs)
    whole_absence = absent.all(axis=1) & np.isnan(steps.logprobs)
    return not lacking.any() or bool(whole_absence[lacking].all() and _splits_a_character(steps))


def _splits_a_character(steps: StepBlock) -> bool:
    """Whether some step's bytes end inside a UTF-8 character."""
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    for index in range(len(steps)):
        decoder.decode(steps.piece(index))
        if decoder.getstate()[0]:
            return True
    return False


def _rebuilds_text(steps: StepBlock) -> bool:
    """Whether the pieces, laid end to end, are exactly the answer's bytes."""
    bounds = np.concatenate([[0], steps.piece_ends])
    return (
        len(steps.piece_ends) == len(steps)
        and bool((np.diff(bounds) >= 0).all())
        and int(bounds[-1]) == len(steps.piece_bytes)
    )
