"""The verdict in plain sentences. Numbers count from 1, margins are in nats, model text is quoted and inert."""

from __future__ import annotations

from app.diagnosis.noise import LEAST_STEPS
from app.trajectory.pair import Comparison, Fork, ForkKind, ForkSide, Names, NoiseFloor, Repeats
from app.trajectory.piece_text import quoted
from app.trajectory.trajectory import Trajectory


def nats(value: float) -> str:
    """A margin or drift as people read it: two decimals, one digit where that would hide it."""
    if value >= 1000:
        return "over 1000"
    return f"{value:.2f}" if value == 0 or value >= 0.01 else f"{value:.1g}"


def headline(code: str, comparison: Comparison, cached: Trajectory, recompute: Trajectory, near_tie: float) -> str:
    """The one sentence over a pair; it says so where it is not two paths but one that was served again."""
    sentence = _headline(code, comparison, cached, recompute, near_tie)
    if not comparison.is_run_to_run or code == "open":
        return sentence
    return f"Served again by the same server: {sentence[:1].lower()}{sentence[1:]}"


def met(cached: Trajectory, recompute: Trajectory, names: Names) -> str:
    """The first request for which two runs took another number of prompt tokens from the cache."""
    for first, second in zip(recompute.requests, cached.requests, strict=False):
        counts = [each.report.cached_tokens if each.report else None for each in (first, second)]
        if None not in counts and counts[0] != counts[1]:
            return (
                f"At request {first.index + 1} the {names[1]} took {counts[0]:,} prompt tokens from it, "
                f"the {names[0]} {counts[1]:,}."
            )
    return "The numbers of tokens taken from it agree, or were not reported."


def _headline(code: str, comparison: Comparison, cached: Trajectory, recompute: Trajectory, near_tie: float) -> str:
    fork = comparison.fork
    if code == "open":
        so_far = f"{_fork_sentence(comparison, fork, cached, recompute, near_tie)} " if fork else ""
        return f"{so_far}Not finished yet."
    if comparison.problems:
        return f"Invalid, not counted: {_sentence(comparison.problems[0])}"
    if comparison.unproven:
        return f"Unproven, not counted: {_sentence(comparison.unproven[0])}"
    if fork is not None:
        return _fork_sentence(comparison, fork, cached, recompute, near_tie)
    tokens = f"{comparison.aligned_steps:,} tokens"
    if code == "equal":
        return f"No fork: {tokens} and their logprobs are bit-identical."
    if code == "drift":
        return f"No fork, but other numbers: {tokens} agree, their logprobs drift by up to {_largest(comparison)}."
    return f"No fork: {tokens} agree; their logprobs cannot be compared."


def detail(code: str, comparison: Comparison, cached: Trajectory, recompute: Trajectory, noise: NoiseFloor) -> str:
    """What else a person must know: what changed, whether it repeats, how large the drift is."""
    fork = comparison.fork
    sentences = [_capital(_sentence(reason)) for reason in (*comparison.problems, *comparison.unproven)[1:]]
    if not comparison.valid and fork is not None:
        sentences.append(f"Forked at {fork.place}.")
    if fork is not None and code != "open":
        sentences.append(_changes(comparison, cached, recompute))
    if comparison.is_run_to_run:
        sentences.append(met(cached, recompute, comparison.names))
    else:
        sentences.append(_repeats(comparison.repeats.get("cached"), comparison.repeats.get("recompute")))
    if fork is not None or code == "drift":
        what = "Drift before the fork" if fork else "Largest drift"
        sentences.append(f"{what} {_largest(comparison)}, {_floor(noise)}.")
    if comparison.level != "ids":
        sentences.append(f"Compared by {comparison.level}: the server tells no token ids.")
    return " ".join(sentences)


def _fork_sentence(
    comparison: Comparison, fork: Fork, cached: Trajectory, recompute: Trajectory, near_tie: float
) -> str:
    place = f"Forked at {fork.place}"
    match fork.kind:
        case ForkKind.TOKEN:
            assert fork.cached is not None and fork.recompute is not None
            return f"{place}: {_margin(fork.recompute.margin, near_tie)}, {_rivals(fork.cached, fork.recompute)}."
        case ForkKind.LENGTH:
            ends, goes_on = comparison.sides if fork.cached is None else comparison.sides[::-1]
            more = fork.recompute or fork.cached
            assert more is not None
            return f"{place}: {ends} ends there, {goes_on} goes on with {_named(more)}."
        case ForkKind.PROMPT:
            ids = [f"id {side.token_id}" if side else "the end" for side in (fork.cached, fork.recompute)]
            return f"{place}: the prompts differ, {ids[0]} against {ids[1]}."
        case ForkKind.REQUESTS:
            return f"{place}: {_request_ends(comparison, fork.request, cached, recompute)}."


def _margin(margin: float | None, near_tie: float) -> str:
    if margin is None:
        return "margin not reported"
    tie = "an exact tie" if margin == 0 else "a near tie" if margin < near_tie else "no near tie"
    return f"{tie} ({nats(margin)} nats)"


def _rivals(cached: ForkSide, recompute: ForkSide) -> str:
    names = _named(cached), _named(recompute)
    if names[0] == names[1]:  # two tokens of the same bytes
        names = f"{names[0]} (id {cached.token_id})", f"{names[1]} (id {recompute.token_id})"
    return f"{names[0]} against {names[1]}"


def _named(side: ForkSide) -> str:
    """The token's quote; its id where it has no bytes, as control tokens have none."""
    return quoted(side.piece) if side.piece else f"token id {side.token_id}"


def _request_ends(comparison: Comparison, index: int, cached: Trajectory, recompute: Trajectory) -> str:
    words = {"error": "ended in an error", "overflow": "ran out of context"}
    failed = [
        f"{name} {words[side.outcome.kind]}"
        for name, side in zip(comparison.sides, (cached, recompute), strict=True)
        if side.outcome.kind in words
    ]
    if failed:
        return " and ".join(failed)
    return f"only {comparison.sides[len(cached.requests) <= index]} has it"


def _changes(comparison: Comparison, cached: Trajectory, recompute: Trajectory) -> str:
    tool, outcome = comparison.tool_calls_changed, comparison.outcome_changed
    if cached.outcome.kind == recompute.outcome.kind == "none":
        return f"The tool {'call changed' if tool else 'calls did not change'}; the outcome is not checked."
    if tool and outcome:
        return "The tool call and the outcome changed."
    if tool:
        return "The tool call changed, the outcome did not."
    return "The outcome changed, the tool calls did not." if outcome else "Neither tool calls nor outcome changed."


def _repeats(cached: Repeats | None, recompute: Repeats | None) -> str:
    known = {(r.runs, r.exact) if r and r.exact is not None else None for r in (cached, recompute)}
    if known == {None}:
        return "Not repeated yet."
    if len(known) == 1 and cached and cached.exact:
        return f"Both paths repeat exactly ({cached.runs} of {cached.runs})."
    return f"{_capital(_path_repeats('cached', cached))}; {_path_repeats('recompute', recompute)}."


def _path_repeats(path: str, repeats: Repeats | None) -> str:
    if repeats is None or repeats.exact is None:
        return f"{path} is not repeated yet"
    if repeats.exact:
        return f"{path} repeats exactly ({repeats.runs} of {repeats.runs})"
    where = f" ({repeats.first_difference})" if repeats.first_difference else ""
    return f"{path} does not repeat itself{where}"


def _largest(comparison: Comparison) -> str:
    return "unknown" if comparison.drift_max is None else f"{nats(comparison.drift_max)} nats"


def _floor(noise: NoiseFloor) -> str:
    if noise.nats is None:
        return f"floor unknown below {LEAST_STEPS} steps ({noise.steps} so far)"
    return f"floor {nats(noise.nats)}"


def _sentence(reason: str) -> str:
    return reason.rstrip(".") + "."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
