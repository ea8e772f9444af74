"""Redaction on request: light (texts out, ids exchanged) or strict (nothing left that tells a token from another)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from app.bundle.format import BundleContents, PairPart, Redaction
from app.bundle.nameless import nameless
from app.diagnosis.verdict import judge
from app.trajectory.compare import compare
from app.trajectory.episode import Message, ToolCall, ToolResult
from app.trajectory.pair import Pair
from app.trajectory.reproducer import WarmUp
from app.trajectory.step import NO_ID, IdArray, StepBlock, as_ids, shared_length
from app.trajectory.trajectory import Request, Trajectory

_TEXTS = frozenset(
    {"imported", "imported_episodes", "episodes", "chat_template", "chat_template_note", "tools", "source", "out"}
)
"""Keys of plans and environments under which stand texts, or names that a person gave."""

_HASH_KEY = re.compile(r"sha256|hash")
_HASH = re.compile(r"\b[0-9a-f]{40,64}\b")


class IdMap(Protocol):
    """Other numbers for token ids."""

    def run(self, prompt: IdArray, answer: IdArray, rivals: IdArray) -> tuple[IdArray, IdArray, IdArray]:
        """The numbers of one request's prompt [p], answer [n] and rivals [n, k], in which NO_ID stays."""
        ...


class Permutation:
    """Light: one id for another, the same wherever it stands. The key is drawn for each bundle and kept nowhere."""

    def __init__(self, largest_id: int) -> None:
        generator = np.random.default_rng(secrets.randbits(256))
        self._other = np.append(generator.permutation(largest_id + 1), NO_ID).astype(np.int32)  # [-1] is NO_ID

    def run(self, prompt: IdArray, answer: IdArray, rivals: IdArray) -> tuple[IdArray, IdArray, IdArray]:
        """See IdMap."""
        return self._other[prompt], self._other[answer], self._other[rivals]


class Places:
    """Strict: a number for each token *in its place*: equal where the token and all before it are equal, else new.

    So what two prompts share stays to be seen, and nothing else: not even whether a token comes twice.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._held, self._places = (
            as_ids(()),
            as_ids(()),
        )  # the ids of the last request, and the numbers of their places

    def run(self, prompt: IdArray, answer: IdArray, rivals: IdArray) -> tuple[IdArray, IdArray, IdArray]:
        """See IdMap."""
        ids = np.concatenate([prompt, answer])
        shared = shared_length(self._held, ids)
        places: list[int] = self._places[:shared].tolist()
        for token_id in ids[shared:].tolist():
            places.append(self._number(places[-1] if places else 0, token_id))
        self._held, self._places = ids, as_ids(places)
        before = [0, *places][len(prompt) : len(ids)]  # the place at which each answer token was chosen
        numbers = [
            [NO_ID if rival == NO_ID else self._number(place, rival) for rival in row]
            for place, row in zip(before, rivals.tolist(), strict=True)
        ]
        return (
            as_ids(places[: len(prompt)]),
            as_ids(places[len(prompt) :]),
            np.array(numbers, np.int32).reshape(rivals.shape),
        )

    def _number(self, place: int, token_id: int) -> int:
        return self._numbers.setdefault((place, token_id), len(self._numbers) + 1)


def redacted(contents: BundleContents, level: Redaction) -> BundleContents:
    """The contents without texts, bodies, logs and names of imports, and with other token ids.

    They are compared and judged anew, so that the cards say what the runs now say. "none" gives them back as they are.
    """
    if level == "none":
        return contents
    contents = nameless(contents)
    ids: IdMap = Places() if level == "strict" else Permutation(_largest_id(contents))
    calls: dict[str, int] = {}
    info = contents.experiment
    return replace(
        contents,
        redaction=level,
        experiment=replace(info, plan=_facts(info.plan, level), environment=_facts(info.environment, level)),
        pairs=tuple(_pair(part, contents.near_tie, ids, calls) for part in contents.pairs),
        replay_log={},
    )


def _facts(value: Any, level: Redaction) -> Any:
    """Plan and environment without texts; strict: without hashes too."""
    if isinstance(value, Mapping):
        return {
            key: _facts(item, level)
            for key, item in value.items()
            if key not in _TEXTS and not (level == "strict" and _HASH_KEY.search(key))
        }
    if isinstance(value, str) and level == "strict":
        return _HASH.sub("<hash>", value)
    return [_facts(item, level) for item in value] if isinstance(value, list | tuple) else value


def _pair(part: PairPart, near_tie: float, ids: IdMap, calls: dict[str, int]) -> PairPart:
    pair, card = part.pair, part.pair.comparison
    history = tuple(_warm_up(warm_up, ids) for warm_up in part.history)
    cached, recompute = _run(pair.cached, ids, calls), _run(pair.recompute, ids, calls)
    comparison = compare(
        cached,
        recompute,
        near_tie=near_tie,
        repeats=card.repeats,
        problems=card.problems,
        unproven=card.unproven,
        names=card.names,
        level=card.level,
    )
    verdict = judge(comparison, cached, recompute, pair.noise_floor, near_tie=near_tie)
    return replace(
        part,
        pair=Pair(cached, recompute, comparison, verdict, pair.noise_floor),
        history=history,
        log_excerpt="",
    )


def _warm_up(warm_up: WarmUp, ids: IdMap) -> WarmUp:
    no_rivals = np.empty((len(warm_up.answer_ids), 0), np.int32)
    prompt, answer, _ = ids.run(warm_up.prompt_ids, warm_up.answer_ids, no_rivals)
    return replace(warm_up, prompt_ids=prompt, answer_ids=answer)


def _run(run: Trajectory, ids: IdMap, calls: dict[str, int]) -> Trajectory:
    return replace(
        run,
        outcome=replace(run.outcome, detail=""),
        requests=tuple(_request(request, ids, calls) for request in run.requests),
    )


def _request(request: Request, ids: IdMap, calls: dict[str, int]) -> Request:
    block = request.steps
    prompt, answer, rivals = ids.run(request.prompt.ids, block.token_ids, block.rival_ids)
    added = tuple(Message(message.role, "") for message in request.prompt.added)
    report = request.report
    return replace(
        request,
        prompt=replace(request.prompt, ids=prompt, added=added),
        steps=StepBlock(answer, block.logprobs, rivals, block.rival_logprobs, b"", np.zeros(len(block), np.int32)),
        report=report and replace(report, raw_request=None, raw_response=None),
        calls=tuple(_call(call, calls) for call in request.calls),
        results=tuple(ToolResult("", "", result.ok) for result in request.results),
    )


def _call(call: ToolCall, calls: dict[str, int]) -> ToolCall:
    """A number for the call, the same for the same call: whether the calls changed stays to be seen."""
    asked = f"{call.name} {call.raw if call.arguments is None else sorted(call.arguments.items())!r}"
    return ToolCall(f"call {calls.setdefault(asked, len(calls) + 1)}", {}, "")


def _largest_id(contents: BundleContents) -> int:
    vocabulary = contents.environment.get("model", {}).get("n_vocab")
    largest = vocabulary - 1 if isinstance(vocabulary, int) else 0
    every: Callable[[IdArray], int] = lambda ids: int(ids.max(initial=0))  # noqa: E731
    for part in contents.pairs:
        for run in (part.pair.cached, part.pair.recompute):
            for request in run.requests:
                steps = request.steps
                largest = max(largest, every(request.prompt.ids), every(steps.token_ids), every(steps.rival_ids))
        for warm_up in part.history:
            largest = max(largest, every(warm_up.prompt_ids), every(warm_up.answer_ids))
    return largest
