"""The shortest history and prompt that still fork: which candidates to try, in which order. Pure; no engine is known.

Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002): runs of units are
taken out, halves first, then quarters, down to single units, and a candidate that still forks takes the place of the
one before. The levels go from what saves most to what saves least; they are gone through again until none finds
anything, and then no single unit of any level can go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

Level = Literal["requests", "answers", "warm-ups", "messages", "tokens"]

GRAINS = (64, 16, 4, 1)
"""How few tokens a try may save: what saves much is tried on all levels before what saves little."""

LEVELS: tuple[Level, ...] = ("requests", "answers", "warm-ups", "messages", "tokens")
"""What is taken out: whole requests of the history; tokens that they generate; tokens at the ends of their prompts;
messages of the conversation; its tokens, in runs and at last one by one."""

_WHOLE_UNITS: tuple[Level, ...] = ("requests", "messages")  # never cut by the number of tokens

Search = Generator["Candidate", bool, None]
"""Yields what to try; is sent whether it forks the same."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the history: its prompt's ids, and how many tokens to generate (at least 1)."""

    prompt: tuple[int, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A history, served in this order by one cache, and the prompt of the request that forks after it."""

    history: tuple[Asked, ...]
    prompt: tuple[int, ...]

    @property
    def token_count(self) -> int:
        """Tokens of all prompts, and those that the history generates: the size of it (as `Reproducer`'s)."""
        return len(self.prompt) + sum(len(asked.prompt) + asked.steps for asked in self.history)

    @property
    def digest(self) -> str:
        """A name for what is asked, the same in every process: 16 hexadecimal digits."""
        parts = [*((asked.steps, *asked.prompt) for asked in self.history), self.prompt]
        return hashlib.sha256(";".join(",".join(map(str, part)) for part in parts).encode()).hexdigest()[:16]

    def without(self, start: int, end: int) -> Candidate:
        """Less the prompt's tokens [start, end), also in every history prompt as far as it shares that prefix."""
        history = []
        for asked in self.history:
            shared = _shared(asked.prompt, self.prompt)
            rest = asked.prompt[: min(start, shared)] + asked.prompt[min(end, shared) :]
            history.append(replace(asked, prompt=rest))
        return Candidate(tuple(asked for asked in history if asked.prompt), self.prompt[:start] + self.prompt[end:])

    def without_requests(self, start: int, end: int) -> Candidate:
        """Less the history's requests [start, end)."""
        return replace(self, history=self.history[:start] + self.history[end:])

    def asking(self, index: int, asked: Asked) -> Candidate:
        """With another request at `index` of the history."""
        return replace(self, history=(*self.history[:index], asked, *self.history[index + 1 :]))


class Minimiser:
    """A search for the smallest candidate that forks the same, starting from one that does.

    `ends` are the ids that end a message. `rejected` holds the digests of what is known not to fork; it grows, and a
    search that is given it goes on where the one before stopped. `best` is the smallest so far; `level` and `grain` say
    where the search is, `tries` counts what was asked.
    """

    def __init__(self, start: Candidate, ends: Collection[int], rejected: Iterable[str] = ()) -> None:
        self.best = start
        self.rejected = set(rejected)
        self.level: Level = LEVELS[0]
        self.grain = GRAINS[0]
        self.tries = 0
        self._ends = frozenset(ends)
        self._gone_through: set[Level] = set()

    @property
    def proven(self) -> tuple[Level, ...]:
        """The levels of which no single unit of `best` can go: each was tried."""
        exact = self.grain == 1
        return tuple(level for level in LEVELS if level in self._gone_through and (exact or level in _WHOLE_UNITS))

    @property
    def is_minimal(self) -> bool:
        """Whether no single unit of any level can go."""
        return self.proven == LEVELS

    def run(self, forks: Callable[[Candidate], bool]) -> None:
        """Search until `is_minimal`. `forks` decides on a candidate; what it raises ends the search, `best` stays."""
        for self.grain in GRAINS:
            self._gone_through &= set(_WHOLE_UNITS)
            while not self._gone_through.issuperset(LEVELS):
                for self.level in LEVELS:
                    self._go_through(self._search(), forks)

    def _go_through(self, search: Search, forks: Callable[[Candidate], bool]) -> None:
        try:
            candidate = next(search)
            while True:
                candidate = search.send(self._decide(candidate, forks))
        except StopIteration:
            self._gone_through.add(self.level)

    def _decide(self, candidate: Candidate, forks: Callable[[Candidate], bool]) -> bool:
        """Whether `candidate` forks the same; asked only once. It is the best from then on."""
        if not candidate.history or not candidate.prompt or candidate.digest in self.rejected:
            return False
        is_the_same = forks(candidate)
        self.tries += 1
        if not is_the_same:
            self.rejected.add(candidate.digest)
            return False
        self.best = candidate
        self._gone_through.clear()
        return True

    def _search(self) -> Search:
        best, grain = self.best, self.grain
        match self.level:
            case "requests":
                return _cut_runs(best, [1] * len(best.history), Candidate.without_requests, 1)
            case "answers":
                return _shorten(best, _shorter_answers, grain)
            case "warm-ups":
                return _shorten(best, _shorter_prompts, grain)
            case "messages":
                return _cut_runs(best, _message_lengths(best.prompt, self._ends), Candidate.without, 1)
            case "tokens":
                return _cut_runs(best, [1] * len(best.prompt), Candidate.without, grain)


def _cut_runs(best: Candidate, units: list[int], cut: Callable[[Candidate, int, int], Candidate], least: int) -> Search:
    """Take out runs of units, of `units[i]` items each: half of them at once, then a quarter, down to `least` units."""
    size = (len(units) + 1) // 2
    while size >= least:
        at, is_smaller = 0, False
        while at < len(units):
            start = sum(units[:at])
            candidate = cut(best, start, start + sum(units[at : at + size]))
            if (yield candidate):
                best, is_smaller = candidate, True
                del units[at : at + size]
            else:
                at += size
        if size == 1 and not is_smaller:
            return
        size = (min(size, len(units)) + 1) // 2


def _shorten(best: Candidate, offers: Callable[[Asked], Iterator[Asked]], least: int) -> Search:
    """Put a shorter request in place of one of the history's, until none will do that saves `least` tokens."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in [best.asking(i, other) for i, asked in enumerate(best.history) for other in offers(asked)]:
            if best.token_count - candidate.token_count >= least and (yield candidate):
                best, is_smaller = candidate, True
                break


def _shorter_answers(asked: Asked) -> Iterator[Asked]:
    """No answer to speak of, half of it, one token less."""
    for steps in dict.fromkeys((1, asked.steps // 2, asked.steps - 1)):
        if 0 < steps < asked.steps:
            yield replace(asked, steps=steps)


def _shorter_prompts(asked: Asked) -> Iterator[Asked]:
    """Half of its prompt, three quarters, ..., all but one token."""
    for shift in range(1, len(asked.prompt).bit_length()):
        yield replace(asked, prompt=asked.prompt[: -(len(asked.prompt) >> shift)])


def _message_lengths(prompt: tuple[int, ...], ends: frozenset[int]) -> list[int]:
    """Lengths of the runs of tokens that end with an id of `ends`, and of what follows the last."""
    bounds = [0, *(index + 1 for index, token_id in enumerate(prompt) if token_id in ends), len(prompt)]
    return [end - start for start, end in pairwise(bounds) if end > start]


def _shared(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Length of the longest common prefix."""
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
