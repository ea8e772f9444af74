"""The mark of a verdict: shape and colour together, never colour alone. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.trajectory.pair import PairRow
from app.views.theme import EQUAL_MARK, FORK_MARK, Theme


@dataclass(frozen=True, slots=True)
class Mark:
    """`glyph` is drawn in the theme's colour of that name; `meaning` is read aloud and shown on hover."""

    glyph: str
    colour: str
    meaning: str

    def colour_in(self, theme: Theme) -> str:
        """The mark's colour as #rrggbb."""
        return str(getattr(theme, self.colour))


FORKED = Mark(FORK_MARK, "fork", "forked")
EQUAL = Mark(EQUAL_MARK, "equal", "equal, bit for bit")
DRIFT = Mark("≈", "near_tie_text", "equal tokens, unequal logprobs")
INVALID = Mark("✗", "muted", "invalid: not counted")
UNPROVEN = Mark("?", "near_tie_text", "unproven: not counted")
OPEN = Mark("…", "muted", "not finished")
RUNNING = Mark("▶", "cached", "running now")

_BY_CODE = {"equal": EQUAL, "drift": DRIFT, "invalid": INVALID, "unproven": UNPROVEN, "open": OPEN}


def mark_of_code(code: str) -> Mark:
    """The mark of `Verdict.code`: every cause class is a fork."""
    return _BY_CODE.get(code, FORKED)


def mark_of_row(row: PairRow) -> Mark:
    """The mark of a pair in the table."""
    if row.valid is False:
        return INVALID if row.code != "unproven" else UNPROVEN
    return mark_of_code(row.code) if row.diverged is not None else OPEN
