"""Draws the README's picture: the share of pairs that forked and the margin at every fork, one band per file.

python packaging/readme_figure.py "Q4_1=runs/a.forkpoint" "F16=runs/b.forkpoint" --out resources/readme/forks.svg
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from app.session import Session

WIDTH, BAND, LEFT, RIGHT, TOP = 860, 118, 300, 30, 56
LOW, HIGH = 1e-3, 3.0
INK, FAINT, FORK, TIE = "#1c2230", "#566072", "#c2185b", "#f3e7c3"


def main() -> None:
    """Read the files, write the SVG."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    named = [tuple(part.split("=", 1)) for part in given.files]
    height = TOP + BAND * len(named) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        text(20, 28, "Pairs that forked, and the recompute margin at each fork (nats, log)", INK, weight="bold"),
        f'<rect x="{x(LOW):.1f}" y="{TOP}" width="{x(0.1) - x(LOW):.1f}" height="{BAND * len(named)}" fill="{TIE}"/>',
        text(x(0.1) - 6, TOP + 15, "near tie &lt; 0.1", FAINT, anchor="end"),
    ]
    for number, (name, file) in enumerate(named):
        lines += band(name, Path(file), TOP + BAND * number)
    for tick in (0.001, 0.01, 0.1, 1.0):
        lines.append(text(x(tick), height - 14, f"{tick:g}", FAINT, anchor="middle"))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("\n".join([*lines, "</svg>"]) + "\n", encoding="utf-8")


def band(name: str, file: Path, top: float) -> Iterator[str]:
    """One file: its share on the left, a mark per token fork on the right."""
    session = Session.open(file)
    try:
        experiment = session.experiment()
        found, rows = session.summary(experiment.id), session.rows(experiment.id)
    finally:
        session.close()
    yield f'<line x1="20" x2="{WIDTH - RIGHT}" y1="{top}" y2="{top}" stroke="#dfe3e8"/>'
    yield text(20, top + 30, name, INK, weight="bold", size=15)
    yield text(20, top + 54, f"{found.forked} of {found.pairs} pairs forked", FORK, weight="bold")
    if found.interval is not None:
        yield text(20, top + 73, f"95 %: {found.interval.low:.0%} to {found.interval.high:.0%}", FAINT)
    if found.median_margin_change is not None:
        yield text(20, top + 92, f"median change of margin {found.median_margin_change:.3f} nats", FAINT)
    forks = sorted(row.margin for row in rows if row.diverged and row.valid and row.margin is not None)
    for number, margin in enumerate(forks):
        cx, cy = x(margin), top + 34 + 62 * (number * 0.618 % 1)
        yield f'<path d="M{cx:.1f} {cy - 5:.1f}l5 5l-5 5l-5 -5z" fill="{FORK}" fill-opacity="0.75"/>'


def x(nats: float) -> float:
    """Where a margin lies; below the axis' end it sits at it."""
    share = (math.log10(max(nats, LOW)) - math.log10(LOW)) / (math.log10(HIGH) - math.log10(LOW))
    return LEFT + share * (WIDTH - RIGHT - LEFT)


def text(
    at: float, y: float, words: str, colour: str, *, anchor: str = "start", weight: str = "normal", size: int = 13
) -> str:
    """One line of text; `words` may hold entities."""
    words = words if "&" in words else escape(words)
    return (
        f'<text x="{at:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}" '
        f'font-size="{size}">{words}</text>'
    )


if __name__ == "__main__":
    main()
