"""Whether a candidate of *Shrink* forks the same on both paths: from restored states first, then from scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.diagnosis.minimise import Asked, Candidate
from app.engine.base import EngineInfo, State, StopFlag
from app.errors import EngineDied
from app.experiment.asking import Asking
from app.experiment.warm_states import WarmStates
from app.trajectory.provenance import KvLedger
from app.trajectory.step import IdArray, Step, as_ids, shared_length
from app.trajectory.trajectory import Path, RequestReport, Span


@dataclass(frozen=True, slots=True)
class Target:
    """The fork to keep: the two tokens, and the step, from 0, up to which they are looked for.

    `episode_id` is whose requests the tries are said to be; `rivals` are kept at every step of a run from scratch.
    """

    episode_id: str
    cached_token: int
    recompute_token: int
    step: int
    rivals: int


@dataclass(frozen=True, eq=False)
class Played:
    """One request of a run from scratch."""

    prompt_ids: IdArray
    steps: tuple[Step, ...]
    report: RequestReport
    spans: tuple[Span, ...]


_Answer = tuple[tuple[Step, ...], RequestReport]

Playing = Mapping[Path, Sequence[Played]]
"""A candidate run from scratch on both paths: the history, then the request that forks."""


class Trials:
    """Runs candidates on an engine. Raises Stopped, or EngineDied, where the person stopped it."""

    def __init__(self, asking: Asking, info: EngineInfo, target: Target) -> None:
        self._asking = asking
        self._states = WarmStates(asking, info)
        self._target = target
        self._recomputed: dict[tuple[int, ...], list[int]] = {}
        self._alone: dict[Asked, _Answer] = {}

    def forks(self, candidate: Candidate) -> Playing | None:
        """How it forked the same when it was run from scratch, after it had done so once from restored states."""
        return self.play(candidate) if self.seems_to_fork(candidate) else None

    def seems_to_fork(self, candidate: Candidate) -> bool:
        """Whether it forks the same from restored states."""
        recompute = self._recompute(candidate.prompt)
        if not recompute:
            return False
        cached: list[int] = []
        enough = _Enough(self._asking.stop)
        with self._asking.closing(self._states.after(candidate.history)) as state:
            for token_id in self._asking.ids(state, Asked(candidate.prompt, len(recompute)), enough):
                cached.append(token_id)
                enough.is_seen = enough.is_seen or token_id != recompute[len(cached) - 1]
        return self._is_the_fork(cached, recompute)

    def play(self, candidate: Candidate, *, anew: bool = False) -> Playing | None:
        """Run it from scratch on both paths; None where it does not fork the same, or not at its last request.

        The history's requests on the recompute path are no part of the fork: each is run once for all candidates that
        share it, unless `anew`.
        """
        if anew:
            self._alone.clear()
        forked = Asked(candidate.prompt, self._target.step + 1)
        asked = (*candidate.history, forked)
        self._asking.begin_pass()
        with self._asking.closing(self._asking.open_state()) as state:
            cached = [self._answer(state, each) for each in asked]
        self._asking.begin_pass()
        answer = self._answer_alone(forked)
        if not self._is_the_fork(_ids(cached[-1]), _ids(answer)):
            return None
        recompute = [*map(self._answer_alone_once, candidate.history), answer]
        if list(map(_ids, cached[:-1])) != list(map(_ids, recompute[:-1])):
            return None
        return {
            Path.CACHED: self._booked(asked, cached, KvLedger()),
            Path.RECOMPUTE: self._booked(asked, recompute, None),
        }

    def _is_the_fork(self, cached: Sequence[int], recompute: Sequence[int]) -> bool:
        at = shared_length(as_ids(cached), as_ids(recompute))
        if at == min(len(cached), len(recompute)):
            return False
        return (cached[at], recompute[at]) == (self._target.cached_token, self._target.recompute_token)

    def _recompute(self, prompt: tuple[int, ...]) -> list[int]:
        """The answer from an empty cache, up to the last step at which the fork can be; empty where it cannot."""
        if prompt not in self._recomputed:
            with self._asking.closing(self._states.begun(prompt)) as state:
                ids = list(self._asking.ids(state, Asked(prompt, self._target.step + 1)))
            while ids and ids[-1] != self._target.recompute_token:
                ids.pop()
            self._recomputed[prompt] = ids
        return self._recomputed[prompt]

    def _answer_alone_once(self, asked: Asked) -> _Answer:
        if asked not in self._alone:
            self._alone[asked] = self._answer_alone(asked)
        return self._alone[asked]

    def _answer_alone(self, asked: Asked) -> _Answer:
        with self._asking.closing(self._asking.open_state()) as state:
            return self._answer(state, asked)

    def _answer(self, state: State, asked: Asked) -> _Answer:
        items = list(self._asking.items(state, asked, self._target.rivals))
        report = items[-1] if items else None
        if not isinstance(report, RequestReport):
            raise EngineDied("The engine ended its answer without a report.", "Shrink again to go on.")
        return tuple(item for item in items if isinstance(item, Step)), report

    def _booked(self, asked: Sequence[Asked], answers: Sequence[_Answer], kept: KvLedger | None) -> list[Played]:
        """With the spans of every prompt: of one State, which `kept` follows, or of a new one for each request."""
        played = []
        for number, (each, (steps, report)) in enumerate(zip(asked, answers, strict=True), start=1):
            ledger, prompt = kept or KvLedger(), as_ids(each.prompt)
            writer = f"{self._target.episode_id} r{number}"
            spans = ledger.take(writer, prompt, report.cached_tokens, report.chunks, _ids((steps, report)))
            played.append(Played(prompt, steps, report, spans))
        return played


def _ids(answer: _Answer) -> list[int]:
    return [step.token_id for step in answer[0]]


class _Enough:
    """Set once enough was seen, or where the person stopped."""

    def __init__(self, stop: StopFlag) -> None:
        self.is_seen = False
        self._stop = stop

    def is_set(self) -> bool:
        return self.is_seen or self._stop.is_set()
