"""What the engine reported of a request, in the words of the inspector. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from app.trajectory.trajectory import Request, RequestReport

NOT_REPORTED = "not reported"
OPEN = "open"
"""Stands where the report has not come yet, or never came because the request was interrupted."""

ROWS = (
    "prompt tokens",
    "from cache",
    "evaluated",
    "prefill chunks",
    "held before",
    "time to first, ms",
    "prefill, ms",
    "per step, ms",
    "finish",
    "continues",
)


def telemetry(request: Request | None) -> tuple[str, ...]:
    """One text per entry of ROWS; "—" throughout where the path has no such request."""
    if request is None:
        return ("—",) * len(ROWS)
    prompt = count(len(request.prompt.ids))
    report = request.report
    if report is None:
        return (prompt, *(OPEN,) * (len(ROWS) - 2), continuity(request))
    held = "empty" if report.held_before == 0 else count(report.held_before)
    return (
        prompt,
        count(report.cached_tokens),
        count(report.evaluated_tokens),
        chunks(report.chunks) if report.evaluated_tokens is not None else NOT_REPORTED,
        held,
        milliseconds(report.first_token_ms, 0),
        milliseconds(report.prefill_ms, 0),
        milliseconds(per_step_ms(report, len(request.steps)), 1),
        report.finish_reason,
        continuity(request),
    )


def remarks(request: Request | None) -> list[str]:
    """Problem and note of a report, as sentences to be shown."""
    if request is None or request.report is None:
        return []
    return [text for text in (request.report.problem, request.report.note) if text]


def count(tokens: int | None) -> str:
    """A number of tokens; None is "not reported", never 0."""
    return NOT_REPORTED if tokens is None else f"{tokens:,}".replace(",", "\u202f")


def milliseconds(value: float | None, digits: int) -> str:
    """A time in milliseconds."""
    return NOT_REPORTED if value is None else f"{value:,.{digits}f}".replace(",", "\u202f")


def per_step_ms(report: RequestReport, steps: int) -> float | None:
    """Time of one decoded step: the first token comes with the prefill, so n tokens take n - 1 of them."""
    return None if report.decode_ms is None or steps < 2 else report.decode_ms / (steps - 1)


def chunks(sizes: Iterable[int]) -> str:
    """Prefill chunks in order, runs of equal ones counted: "3 × 512 + 38"."""
    runs = [(size, len(list(run))) for size, run in groupby(sizes)]
    return " + ".join(f"{times} × {size}" if times > 1 else f"{size}" for size, times in runs) or "none"


def continuity(request: Request) -> str:
    """Whether the prompt's ids continue the previous prompt and answer (positions count from 1 on screen)."""
    if request.prompt.mismatch is not None:
        return f"rewritten at {request.prompt.mismatch + 1}"
    return "yes" if request.index else "first request"
