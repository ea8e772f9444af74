"""The 80 built-in episodes: ten of each family, in one order that interleaves the families."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from app.errors import WorkloadError
from app.trajectory.episode import Episode, Outcome
from app.workload.families import FAMILIES
from app.workload.world import Call, Deal, Draft, World

COUNT: Final = 80

_HINT: Final = 'Write numbers, ranges and ids, such as "0-7,12,calendar-02"; the numbers go from 0 to 79.'


@cache
def episodes() -> tuple[Episode, ...]:
    """All built-in episodes in canonical order; number 10 is "calendar-10": the family and the place in this order."""
    return tuple(_episode(number) for number in range(COUNT))


def select(text: str) -> tuple[Episode, ...]:
    """Episodes by numbers from 0, ranges and ids, e.g. "0-7,12,calendar-02", each once, in the order written.

    "all" or "" gives all. Raises WorkloadError for what names no episode.
    """
    if text.strip() in ("", "all"):
        return episodes()
    by_id = {episode.id: number for number, episode in enumerate(episodes())}
    numbers: list[int] = []
    for part in (part.strip() for part in text.split(",")):
        found = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part)
        if part in by_id:
            numbers.append(by_id[part])
        elif found and int(found[1]) <= int(found[2] or found[1]) < COUNT:
            numbers += range(int(found[1]), int(found[2] or found[1]) + 1)
        else:
            raise WorkloadError(f"There is no built-in episode “{part[:40]}”.", _HINT)
    return tuple(episodes()[number] for number in dict.fromkeys(numbers))


def is_builtin(episode: Episode) -> bool:
    """Whether this is one of the built-in episodes, unchanged."""
    return any(episode == each for each in episodes() if each.id == episode.id)


def world_of(episode: Episode) -> World | None:
    """A fresh world with the episode's tools; None where it is not built in (an import has no world)."""
    return FAMILIES[_number(episode) % len(FAMILIES)].world(episode.world) if is_builtin(episode) else None


def reference(episode: Episode) -> tuple[tuple[Call, ...], ...]:
    """Calls that solve a built-in episode, one tuple a turn."""
    return tuple(calls for _, calls in _draft(_number(episode)).turns)


def near_miss(episode: Episode) -> tuple[tuple[Call, ...], ...]:
    """The reference solution with one argument of its last call off."""
    *turns, last = (list(calls) for calls in reference(episode) if calls)
    name, arguments = last[-1]
    key, value = list(arguments.items())[-1]
    last[-1] = (name, {**arguments, key: f"{value}x" if isinstance(value, str) else value + 1})
    return tuple(tuple(calls) for calls in [*turns, last])


def check(episode: Episode, world: World) -> Outcome:
    """Whether `world` is as after the reference solution, and every answer that the reference looked up was obtained.

    State-based and response-based checking as in the Berkeley Function-Calling Leaderboard's multi-turn categories
    (https://gorilla.cs.berkeley.edu/blogs/13_bfcl_v3_multi_turn.html).
    """
    goal = run(episode, reference(episode))
    if world.state != goal.state:
        return Outcome("missed", "The final state is not the one that was asked for.")
    missing = [name for name, text in goal.log if (name, text) not in world.log]
    if missing:
        return Outcome("missed", f"The answer of {missing[0]} was never obtained.")
    return Outcome("reached")


def run(episode: Episode, turns: Sequence[Sequence[Call]]) -> World:
    """The world of a built-in episode after some calls."""
    world = FAMILIES[_number(episode) % len(FAMILIES)].world(episode.world)
    for calls in turns:
        for name, arguments in calls:
            world.call(name, arguments)
    return world


def _number(episode: Episode) -> int:
    return int(episode.id.rsplit("-", 1)[1])


@cache
def _draft(number: int) -> Draft:
    family = FAMILIES[number % len(FAMILIES)]
    shape = family.shapes[number // len(FAMILIES) % len(family.shapes)]
    return shape(Deal(number))


def _episode(number: int) -> Episode:
    family = FAMILIES[number % len(FAMILIES)]
    draft = _draft(number)
    return Episode(
        id=f"{family.name}-{number:02}",
        family=family.name,
        opening=family.opening(),
        turns=tuple(text for text, _ in draft.turns),
        tools=family.world.tools,
        world=draft.state,
    )
