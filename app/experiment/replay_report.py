"""A replay beside its record: as lines for a terminal and as the object of `forkpoint replay --json`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from app.trajectory.pair import Fork, ForkSide, Pair
from app.trajectory.piece_text import visible
from app.trajectory.reproducer import ReplayResult
from app.trajectory.step import StepBlock

EXIT_CODES = {"reproduced": 0, "does not fork": 1, "forks elsewhere": 1, "cannot be compared": 2}

_AROUND = 3
"""So many tokens before the fork, and as many from it on, are laid side by side."""


_WIDEST = 70


def exit_code(results: Sequence[ReplayResult]) -> int:
    """0 where every fork was reproduced, 2 where one could not be compared (or there is none), else 1."""
    return max((EXIT_CODES[result.verdict] for result in results), default=2)


def replay_report(result: ReplayResult, pair: Pair) -> dict[str, Any]:
    """One pair's replay; requests and tokens count from 1. `reported` and `here` are the forks, or null."""
    return {
        "episode": result.episode_id,
        "verdict": result.verdict,
        "because": result.because,
        "reported": _fork(pair.comparison.fork),
        "here": _fork(result.fork),
        "differences": [asdict(difference) for difference in result.differences],
        "served": [
            asdict(one) | {"deviates_at": None if one.deviates_at is None else one.deviates_at + 1}
            for one in result.served
        ],
        "cached_ids": result.cached.token_ids.tolist(),
        "recompute_ids": result.recompute.token_ids.tolist(),
    }


def replay_lines(result: ReplayResult, pair: Pair) -> Iterator[str]:
    """The same for a person: differences of the environment first, then what was served, then the answers."""
    for difference in result.differences:
        recorded, here = _apart(difference.recorded, difference.here)
        yield f"  {difference.name}: recorded {recorded}, here {here}"
    if not result.differences and result.served:  # else nothing was looked at
        yield "  engine, build, model and settings are as recorded"
    for one in result.served:
        said = "" if one.deviates_at is None else f", another answer than recorded from token {one.deviates_at + 1} on"
        recorded = "" if one.recorded_cached is None else f", recorded {one.recorded_cached:,}"
        yield f"  {one.name}: cached tokens {_count(one.cached)}{recorded}{said}"
    yield from _table(result, pair)
    yield f"{result.episode_id}: {result.verdict}. {result.because}"


def _table(result: ReplayResult, pair: Pair) -> Iterator[str]:
    fork = pair.comparison.fork
    if fork is None or fork.step is None or not (len(result.cached) or len(result.recompute)):
        return
    step = fork.step if result.fork is None or result.fork.step is None else result.fork.step
    reported = [side.requests[fork.request].steps for side in (pair.cached, pair.recompute)]
    blocks = [*reported, result.cached, result.recompute]
    names = ("reported cached", "reported recompute", "cached here", "recompute here")
    yield "  token  " + "".join(f"{name:<24}" for name in names).rstrip()
    for index in range(max(0, step - _AROUND), min(max(map(len, blocks)), step + _AROUND)):
        row = "".join(f"{_token(block, index):<24}" for block in blocks)
        yield f"  {index + 1:>5}  {row}".rstrip()


def _token(block: StepBlock, index: int) -> str:
    if index >= len(block):
        return "-"
    return f"{block.token_ids[index]} {visible(block.piece(index))[:14]}"


def _fork(fork: Fork | None) -> dict[str, Any] | None:
    if fork is None:
        return None
    step = None if fork.step is None else fork.step + 1
    sides = {"cached": _side(fork.cached), "recompute": _side(fork.recompute)}
    return {"request": fork.request + 1, "step": step, **sides}


def _side(side: ForkSide | None) -> dict[str, Any] | None:
    return None if side is None else {"token_id": side.token_id, "bytes": side.piece.hex(), "margin": side.margin}


def _count(tokens: int | None) -> str:
    return "not reported" if tokens is None else f"{tokens:,}"


def _apart(recorded: str, here: str) -> tuple[str, str]:
    """Two values for one line; of long ones, such as compile flags, only the words that the other lacks."""
    if max(len(recorded), len(here)) <= _WIDEST:
        return recorded, here
    words = recorded.split(), here.split()
    only = [" ".join(word for word in words[n] if word not in words[1 - n]) for n in (0, 1)]
    first, second = (textwrap.shorten(text or "the rest", 3 * _WIDEST, placeholder=" …") for text in only)
    return first, second
