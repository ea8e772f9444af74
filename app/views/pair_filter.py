"""The filter language of the pair table. No Qt.

    forked equal drift open valid invalid unproven     state of a pair
    tool text outcome                                  what the fork changed
    marked                                             what a person chose
    margin<0.1  near>3  request:3  step:17             numbers, with < <= > >= = (or :)
    family:calendar  code:N  kind:length               names
    calendar-02                                        anything else: part of an episode's id
    -word                                              not

All words of a filter must hold.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from app.trajectory.pair import PairRow

Test = Callable[[PairRow], bool]

STATES: dict[str, Test] = {
    "forked": lambda row: row.diverged is True,
    "equal": lambda row: row.diverged is False and row.code != "drift",
    "drift": lambda row: row.code == "drift",
    "open": lambda row: row.diverged is None,
    "valid": lambda row: row.valid is True,
    "invalid": lambda row: row.valid is False and row.code != "unproven",
    "unproven": lambda row: row.code == "unproven",
    "tool": lambda row: row.tool_calls_changed,
    "outcome": lambda row: row.outcome_changed,
    "text": lambda row: row.diverged is True and not row.tool_calls_changed and not row.outcome_changed,
}
NUMBERS: dict[str, Callable[[PairRow], float | None]] = {
    "margin": lambda row: row.margin,
    "near": lambda row: row.near_ties,
    "request": lambda row: None if row.request is None else row.request + 1,
    "step": lambda row: None if row.step is None else row.step + 1,
}
NAMES: dict[str, Callable[[PairRow], str | None]] = {
    "family": lambda row: row.family,
    "code": lambda row: row.code,
    "kind": lambda row: row.kind,
}
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    ":": operator.eq,
}
MARKED = "marked"
_FIELD = re.compile(r"(?P<name>\w+)(?P<sign><=|>=|[<>=:])(?P<value>.*)")


@dataclass(frozen=True)
class PairFilter:
    """`accepts` says whether a row is shown; `problem` is a sentence about a word that could not be read, or ""."""

    tests: tuple[Test, ...] = ()
    problem: str = ""

    def accepts(self, row: PairRow) -> bool:
        """Whether every word of the filter holds for a row."""
        return all(test(row) for test in self.tests)


def parse(text: str, episode_ids: Collection[str], marked: Collection[str] = ()) -> PairFilter:
    """Read a filter; `marked` are the marked episodes.

    A word that is neither of the language nor part of any of `episode_ids` is a problem, not a test: it hides nothing.
    The beginning of a word of the language is one that is still being typed.
    """
    tests: list[Test] = []
    problems: list[str] = []
    for word in text.split():
        test = _read(word.removeprefix("-").casefold(), episode_ids, marked)
        if isinstance(test, str):
            problems.append(test)
        elif test is not None:
            tests.append(_negated(test) if word.startswith("-") else test)
    return PairFilter(tuple(tests), " ".join(problems))


def _negated(test: Test) -> Test:
    return lambda row: not test(row)


def _read(word: str, episode_ids: Collection[str], marked: Collection[str]) -> Test | str | None:
    """A test, a sentence about what is wrong with the word, or None for a word still being typed."""
    if not word:
        return None
    if word == MARKED:
        return lambda row: row.episode_id in marked
    if word in STATES:
        return STATES[word]
    if match := _FIELD.fullmatch(word):
        return _read_field(**match.groupdict())
    if any(word in episode_id.casefold() for episode_id in episode_ids):
        return lambda row: word in row.episode_id.casefold()
    if any(known.startswith(word) for known in (MARKED, *STATES, *NUMBERS, *NAMES)):
        return None
    return f"“{word}” is no filter word and no part of an episode's name."


def _read_field(name: str, sign: str, value: str) -> Test | str | None:
    known = NUMBERS.keys() | NAMES.keys()
    if name not in known:
        return f"There is no “{name}” to filter by; there are {', '.join(sorted(known))}."
    if not value:
        return None
    if name in NAMES:
        if sign not in (":", "="):
            return f"{name.capitalize()} is a name: write {name}:{value}."
        named = NAMES[name]
        return lambda row: (named(row) or "").casefold() == value
    number = _number(value)
    if number is None:
        return f"“{value}” is no number."
    get, compare = NUMBERS[name], COMPARE[sign]
    return lambda row: (found := get(row)) is not None and compare(found, number)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
