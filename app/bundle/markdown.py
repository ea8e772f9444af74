"""Markdown in which nothing that came from elsewhere does anything.

What is `Foreign` stands in code spans, where GitHub makes no mention, no reference, no link and no HTML of it; a fence
is longer than any run of backticks inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.bundle.report_tables import Table, Text
from app.bundle.report_words import Foreign
from app.trajectory.piece_text import inert


def code(text: str) -> str:
    """One line as a code span; "" where there is nothing to show."""
    line = inert(text).replace("\n", "⏎")
    if not line.strip():
        return ""
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def block(text: str, language: str = "text") -> str:
    """Lines as a fenced block."""
    shown = inert(text).rstrip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def span(text: str) -> str:
    """Our own words as they are, what is `Foreign` as a code span."""
    return code(text) if isinstance(text, Foreign) else text


def cell(text: Text) -> str:
    """The same inside a table, whose cells end at a bar."""
    if isinstance(text, tuple):
        return ", ".join(map(cell, text))
    bar = "\\x7C" if "\\|" in text else "\\|"  # renderers disagree about a backslash before an escaped bar
    return span(text).replace("|", bar)


def table(made: Table) -> str:
    """A table of GitHub's kind; its marks become a column of their own where it has any."""
    words = {"fork": "**fork**", "after": "after", "near": "near tie"}
    marked = bool(made.marks)
    lines = [_row([*made.head, *["note"] * marked]), _row(["---"] * (len(made.head) + marked))]
    for index, row in enumerate(made.rows):
        note = [words[made.marks[index]] if index in made.marks else ""] if marked else []
        lines.append(_row([*map(cell, row), *note]))
    return "\n".join([*lines, *["", made.note] * bool(made.note)])


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and texts as a table of two columns."""
    return table(Table(("what", "value"), tuple(rows)))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
