"""A diagnosis as lines that one would paste into an issue, and as the object of `forkpoint doctor --json`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from app import __version__
from app.diagnosis.wording import nats
from app.experiment.doctor_diagnosis import Diagnosis, ProbeRow

WIDTH = 100
MOST_ROWS = 6
"""So many probes are listed, those that forked first; the object of --json has all."""


def diagnosis_report(diagnosis: Diagnosis, target: str) -> dict[str, Any]:
    """Every field; `facts` is an object, `target` what was examined, `forkpoint` the version that did."""
    report = asdict(diagnosis) | {"facts": dict(diagnosis.facts)}
    return {"forkpoint": __version__, "target": target, **report}


def diagnosis_lines(diagnosis: Diagnosis, target: str) -> Iterator[str]:
    """Plain lines, fewer than 60, none longer than WIDTH unless a word is (the command stays in one)."""
    yield f"forkpoint doctor {__version__}: {target}"
    for name, value in diagnosis.facts:
        yield from _wrapped(value, f"{name:<12}", " " * 12)
    yield ""
    for finding in diagnosis.findings:
        yield f"{finding.status:<8}{finding.question}"
        yield from _wrapped(finding.answer, " " * 8, " " * 8)
        for line in finding.evidence:
            yield from _wrapped(line, " " * 8 + "- ", " " * 10)
    if diagnosis.probes:
        yield ""
        yield from probe_lines(diagnosis.probes)
    yield ""
    yield from _wrapped(f"exit {diagnosis.exit_code}: {diagnosis.verdict}", "", "        ")
    yield from _wrapped(diagnosis.advice if not diagnosis.command else "To make it reproducible:", "", "        ")
    if diagnosis.command:
        yield f"    {diagnosis.command}"
        yield from _wrapped(diagnosis.advice, "    ", "    ")


def probe_lines(rows: tuple[ProbeRow, ...]) -> Iterator[str]:
    """The probes as a table of aligned columns under a head line, those that forked first."""
    yield f"{'probe':<14}{'cached':>14}{'drift, nats':>13}{'fork at':>9}{'margin':>9}  cached against recompute"
    ordered = sorted(rows, key=lambda row: row.fork is None)
    for row in ordered[:MOST_ROWS]:
        cached = f"{'?' if row.cached is None else row.cached} of {row.prompt}"
        fork = "-" if row.fork is None else f"{row.fork}"
        yield (
            f"{row.name:<14}{cached:>14}{_nats(row.drift):>13}{fork:>9}"
            f"{'-' if row.fork is None else _nats(row.margin):>9}  {row.tokens}"
        ).rstrip()
    if len(rows) > MOST_ROWS:
        yield f"and {len(rows) - MOST_ROWS} more, see --json"


def _nats(value: float | None) -> str:
    return "?" if value is None else nats(value)


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
