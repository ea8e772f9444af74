"""Sentences about the pairs of an experiment as a whole. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from app.trajectory.pair import PairRow
from app.views.marks import INVALID, UNPROVEN, Mark, mark_of_row

NOT_COUNTED = {INVALID: "invalid", UNPROVEN: "unproven"}


def counts(shown: Sequence[PairRow]) -> str:
    """How many pairs are shown and how many of them forked; those that do not count are not among these."""
    forked = sum(row.diverged is True and mark_of_row(row) not in NOT_COUNTED for row in shown)
    return f"{len(shown)} shown · {forked} forked"


def not_counted(rows: Sequence[PairRow]) -> str:
    """A line for each reason why pairs do not count, e.g. "1 pair invalid: cached pass hit nothing in files-08"."""
    return "\n".join(filter(None, (_not_counted(rows, mark, word) for mark, word in NOT_COUNTED.items())))


def _not_counted(rows: Sequence[PairRow], mark: Mark, word: str) -> str:
    """How many pairs do not count, and why the first does not: "1 pair invalid: ... in files-08"."""
    found = [row for row in rows if mark_of_row(row) == mark]
    if not found:
        return ""
    reason = found[0].problems[0].rstrip(".") if found[0].problems else "no reason was kept"
    more = "" if len(found) == 1 else f", and {len(found) - 1} more"
    return f"{len(found)} pair{'s' * (len(found) > 1)} {word}: {reason} in {found[0].episode_id}{more}"


def local_time(created: str) -> str:
    """An ISO 8601 time in UTC as the clock on the wall shows it; the year only where it is another one."""
    try:
        time = datetime.fromisoformat(created).astimezone()
    except ValueError:
        return created
    return time.strftime("%d %b %H:%M" if time.year == datetime.now().year else "%d %b %Y %H:%M")
