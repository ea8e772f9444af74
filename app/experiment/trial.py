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

    @property
    def answer_ids(self) -> list[int]:
        """The sampled ids."""
        return [step.token_id for step in self.steps]


Playing = Mapping[Path, Sequence[Played]]
"""A candidate run from scratch on both paths: the history, then the request that forks."""


class Trials:
    """Runs candidates on an engine. Raises Stopped, or EngineDied, where the person stopped it."""

    def __init__(self, asking: Asking, info: EngineInfo, target: Target) -> None:
        self._asking = asking
        self._states = WarmStates(asking, info)
        self._target = target
        self._recomputed: dict[tuple[int, ...], list[int]] = {}

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

    def play(self, candidate: Candidate) -> Playing | None:
        """Run it from scratch on both paths; None where it does not fork the same, or not at its last request."""
        asked = (*candidate.history, Asked(candidate.prompt, self._target.step + 1))
        self._asking.begin_pass()
        cached = self._on_one_state(asked, 1)
        self._asking.begin_pass()
        recompute = [played for number, each in enumerate(asked, 1) for played in self._on_one_state((each,), number)]
        answers = [[played.answer_ids for played in side] for side in (cached, recompute)]
        if answers[0][:-1] != answers[1][:-1] or not self._is_the_fork(answers[0][-1], answers[1][-1]):
            return None
        return {Path.CACHED: cached, Path.RECOMPUTE: recompute}

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

    def _on_one_state(self, asked: Sequence[Asked], first: int) -> list[Played]:
        """Requests served one after the other from an empty State; `first` is the number of the first of them."""
        ledger = KvLedger()
        with self._asking.closing(self._asking.open_state()) as state:
            return [
                self._answer(state, ledger, each, f"{self._target.episode_id} r{number}")
                for number, each in enumerate(asked, first)
            ]

    def _answer(self, state: State, ledger: KvLedger, asked: Asked, writer: str) -> Played:
        items = list(self._asking.items(state, asked, self._target.rivals))
        report = items[-1] if items else None
        if not isinstance(report, RequestReport):
            raise EngineDied("The engine ended its answer without a report.", "Shrink again to go on.")
        prompt, steps = as_ids(asked.prompt), tuple(item for item in items if isinstance(item, Step))
        answer = [step.token_id for step in steps]
        spans = ledger.take(writer, prompt, report.cached_tokens, report.chunks, answer)
        return Played(prompt, steps, report, spans)


class _Enough:
    """Set once enough was seen, or where the person stopped."""

    def __init__(self, stop: StopFlag) -> None:
        self.is_seen = False
        self._stop = stop

    def is_set(self) -> bool:
        return self.is_seen or self._stop.is_set()
