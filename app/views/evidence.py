"""What a person pastes into an issue: the verdict, and what proves which path was taken. Knows no Qt."""

from __future__ import annotations

from app.trajectory.pair import Pair
from app.trajectory.telemetry import chunks, count
from app.trajectory.trajectory import ExperimentInfo, Path, Trajectory
from app.views.environment_line import environment_line


def evidence(pair: Pair, experiment: ExperimentInfo) -> str:
    """Verdict, rule, the reported counts of the forked request (the last one without a fork) on both paths, and how
    it was run, a line each."""
    verdict, fork = pair.verdict, pair.comparison.fork
    last = max(len(pair.cached.requests), len(pair.recompute.requests)) - 1
    index = last if fork is None else fork.request
    lines = [
        f"{pair.comparison.episode_id}: {verdict.headline}",
        verdict.detail,
        f"[{verdict.code}] {verdict.rule}",
        *(_counts(path, side, index) for path, side in ((Path.CACHED, pair.cached), (Path.RECOMPUTE, pair.recompute))),
        " · ".join(text for text in (experiment.title, environment_line(experiment.environment)) if text),
    ]
    return "\n".join(line for line in lines if line)


def _counts(path: Path, side: Trajectory, index: int) -> str:
    if index >= len(side.requests):
        return f"{path} path: no request {index + 1}"
    report, prompt = side.requests[index].report, len(side.requests[index].prompt.ids)
    where = f"{path} path, request {index + 1}: {prompt} prompt tokens"
    if report is None:
        return f"{where}; the request did not end"
    counts = f"{count(report.cached_tokens)} from cache, {count(report.evaluated_tokens)} evaluated"
    parts = f" in chunks of {chunks(report.chunks)}" if report.evaluated_tokens is not None and report.chunks else ""
    return f"{where}, {counts}{parts}, {count(report.held_before)} held before".replace("\u202f", "")
