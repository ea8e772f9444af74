"""A summary as lines for a terminal and as the object of `forkpoint summary --json`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from app.experiment.statistics import HazardBin, Interval, Summary


def summary_report(summary: Summary) -> dict[str, Any]:
    """Every field of the summary and the share; an open margin bin has `high` null."""
    report = asdict(summary) | {"share": summary.share}
    for row in report["hazard"]:
        row["high"] = None if row["high"] == float("inf") else row["high"]
    return report


def summary_lines(summary: Summary) -> Iterator[str]:
    """The same for a person."""
    left_out = f" ({summary.left_out} left out: invalid or unfinished)" if summary.left_out else ""
    yield f"{summary.forked} of {summary.pairs} pairs forked{_interval(summary.interval)}{left_out}"
    if summary.upper_bound is not None:
        yield f"none forked: at most {summary.upper_bound:.2%} of such pairs do (one-sided 95 % bound)"
    yield f"median recompute margin at the forks   {_nats(summary.median_margin_at_forks)}"
    yield f"median change of margin elsewhere      {_nats(summary.median_margin_change)}"
    yield f"steps with a margin below 0.1 and 0.5  {_share(summary.below_01)}, {_share(summary.below_05)}"
    yield f"flips at {summary.flips} of {summary.shared_steps} shared steps; by recompute margin:"
    yield from map(_bin, summary.hazard)


def _bin(row: HazardBin) -> str:
    name = f"[{row.low:g}, {row.high:g})"
    rate = "" if row.hazard is None else f"{row.hazard:8.3f}{_interval(row.interval)}"
    return f"  {name:>12} {row.flips:5} / {row.steps:<6}{rate}"


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f" (95 %: {interval.low:.3f} to {interval.high:.3f})"


def _nats(value: float | None) -> str:
    return "nothing to count" if value is None else f"{value:.3f} nats"


def _share(value: float | None) -> str:
    return "nothing to count" if value is None else f"{value:.4f}"
