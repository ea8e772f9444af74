"""Export, import and verification of 100 pairs of 15 requests and 2 x 3,000 steps: `python -m tests.bench.bundle`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import TypeVar

from app.session import ExportRequest, Session, export_pairs, verify
from tests.bench.big_file import write_file

T = TypeVar("T")

PAIRS, REQUESTS, STEPS = 100, 15, 3_000
EXPORT_BAR_S, IMPORT_BAR_S, VERIFY_BAR_S, SIZE_BAR_MB = 10.0, 10.0, 2.0, 40.0


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and the seconds that it took."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def export(file: FilePath, target: FilePath) -> None:
    """All pairs, without running the scripts."""
    session = Session.open(file)
    try:
        names = tuple(row.episode_id for row in session.rows(session.experiment().id))
        export_pairs(session, ExportRequest(names), target)
    finally:
        session.close()


def open_all(target: FilePath) -> int:
    """Open the bundle as the window does: checked, and a row for every pair."""
    session = Session.open(target)
    try:
        return len(session.rows(session.experiment().id))
    finally:
        session.close()


def main() -> bool:
    """Print the figures; returns whether every bar is met."""
    with tempfile.TemporaryDirectory() as name:
        file, target = FilePath(name) / "a.forkpoint", FilePath(name) / "b.zip"
        write_file(file, with_big=False, pairs=PAIRS, size=(REQUESTS, STEPS))
        _, export_s = timed(lambda: export(file, target))
        size_mb = target.stat().st_size / 1e6
        found, verify_s = timed(lambda: verify(target))
        rows, import_s = timed(lambda: open_all(target))
    print(f"export of {PAIRS} pairs, reports and scripts included: {export_s:.1f} s (bar <= {EXPORT_BAR_S:.0f} s)")
    print(f"size: {size_mb:.1f} MB (bar <= {SIZE_BAR_MB:.0f} MB)")
    print(f"verify: {verify_s:.1f} s, {found.state} (bar <= {VERIFY_BAR_S:.0f} s)")
    print(f"import, checked and compared, {rows} pairs: {import_s:.1f} s (bar <= {IMPORT_BAR_S:.0f} s)")
    return (
        (export_s <= EXPORT_BAR_S and import_s <= IMPORT_BAR_S and verify_s <= VERIFY_BAR_S and size_mb <= SIZE_BAR_MB)
        and found.state == "whole"
        and rows == PAIRS
    )


if __name__ == "__main__":
    sys.exit(not main())
