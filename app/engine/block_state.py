"""A cache state on a server whose prefix cache is made of blocks: what can be found there is what it asked before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.engine.base import EngineInfo, GenerateRequest, Progress, Snapshot, StopFlag
from app.engine.block_history import BlockHistory
from app.engine.served_answer import Answer, Asked
from app.engine.token_pieces import TokenPieces
from app.errors import ContextOverflow, EngineDied, EngineError
from app.trajectory.step import IdArray, Rival, Step, as_ids
from app.trajectory.trajectory import RequestReport, Span

_FINISHED: Final = ("stop", "length")
_AGAIN: Final = "Run the pass again from its start."


Ask = Callable[[GenerateRequest, bool, StopFlag], Asked]
"""ask(request, fresh, stop) -> the server's answer; `fresh` is the State's first request, kept from the cache."""

Changed = Callable[[StopFlag], str | None]
"""changed(stop) -> a sentence where the server is no longer the one that was connected to."""


@dataclass(frozen=True)
class Surroundings:
    """What a State is on its server. `block` is the cache's, in tokens (1: unknown).

    `first_alone`: the first request can meet nothing; `later_alone`: later ones can meet only this State's own. Where
    they are, more cached tokens than that are a contradiction.
    """

    info: EngineInfo
    pieces: TokenPieces
    block: int
    first_alone: bool
    later_alone: bool
    changed: Changed


class BlockState:
    """One State: it remembers what it asked for, and holds the server's counts against it."""

    def __init__(self, around: Surroundings, ask: Ask) -> None:
        self._around = around
        self._send = ask
        self._history = BlockHistory(around.block)
        self._is_fresh = True
        self._held = 0  # tokens in whole blocks of the last request and its evaluated answer

    def generate(self, request: GenerateRequest, stop: StopFlag) -> Iterator[Progress | Step | RequestReport]:
        """Answer one request. The steps come together when the whole answer is there; a stop before brings none."""
        info, prompt = self._around.info, as_ids(request.prompt_ids)
        if len(prompt) == 0:
            raise EngineError("The prompt is empty.", "A request needs at least one token.")
        room = info.n_ctx - len(prompt)
        if room < 1:
            raise ContextOverflow(
                f"The prompt has {len(prompt):,} tokens; the context holds {info.n_ctx:,} with the answer."
            )
        yield Progress(0, len(prompt), 0)
        # More than fits is not always refused: vLLM 0.32.0 hung.
        request = replace(request, max_tokens=min(request.max_tokens, room))
        held = self._held
        try:
            most, asked = self._ask(request, prompt, stop)
        except EngineDied:
            if not stop.is_set():
                raise
            yield RequestReport(None, None, (), "cancelled")  # the connection was cut: nothing of it is known
            return
        answer = asked.answer
        if not answer.ids or answer.finish_reason not in _FINISHED:
            raise EngineError(f"The server ended its answer with {answer.finish_reason or 'nothing'!r}.")
        yield Progress(len(prompt), len(prompt), asked.cached or 0)
        steps = self._steps(answer, request.rivals, stop)
        finish_reason = answer.finish_reason
        for step in steps:
            if stop.is_set():
                finish_reason = "cancelled"
                break
            yield step
        report = self._report(prompt, asked, steps, most, finish_reason, stop)
        yield replace(report, held_before=held)

    def rebuild(self, ids: IdArray, spans: Sequence[Span]) -> None:  # noqa: ARG002
        """Not possible: such a server decides itself how it fills its blocks."""
        raise EngineError(f"A cache state of {self._around.info.name} cannot be filled entry by entry.", _AGAIN)

    def snapshot(self) -> Snapshot:
        """Not possible: such a server hands out no blocks."""
        raise EngineError(f"A cache state of {self._around.info.name} cannot be saved.", _AGAIN)

    def close(self) -> None:
        """Nothing to give back: blocks that nobody asks for are evicted."""

    def _ask(self, request: GenerateRequest, prompt: IdArray, stop: StopFlag) -> tuple[int | None, Asked]:
        """The answer, and how many tokens could have come from the cache at the most (None: nobody knows)."""
        alone = self._around.first_alone if self._is_fresh else self._around.later_alone
        most = self._history.most(prompt) if alone else None
        self._history.add(prompt)  # before the answer: it may be in the cache even if the answer never comes
        asked = self._send(request, self._is_fresh, stop)
        self._is_fresh = False
        evaluated = as_ids([*prompt.tolist(), *asked.answer.ids[:-1]])
        self._history.add(evaluated)
        self._held = len(evaluated) // self._around.block * self._around.block
        return most, asked

    def _steps(self, answer: Answer, rivals: int, stop: StopFlag) -> list[Step]:
        pieces = self._around.pieces
        told = [entry.rivals[:rivals] if entry else () for entry in answer.entries]
        pieces.learn([*answer.ids, *(token_id for row in told for token_id, _ in row)], answer.text, stop)
        return [
            Step(
                token_id,
                entry.logprob if entry else None,
                pieces.piece(token_id),
                tuple(Rival(rival, logprob, pieces.piece(rival)) for rival, logprob in row),
            )
            for token_id, entry, row in zip(answer.ids, answer.entries, told, strict=True)
        ]

    def _report(
        self, prompt: IdArray, asked: Asked, steps: Sequence[Step], most: int | None, finish_reason: str, stop: StopFlag
    ) -> RequestReport:
        answer, cached = asked.answer, asked.cached
        notes = [asked.note] if asked.note else []
        if cached is not None and most is not None and cached < most:
            notes.append(f"The cache gave {cached} tokens of {most} that it had held: blocks were evicted.")
        if not _rebuilds(answer, steps, self._around.info.eog_ids):
            notes.append("The tokens' bytes do not rebuild the server's text.")
        problems = [*_problems(prompt, answer), *_cache_problems(cached, most)]
        changed = self._around.changed(stop)
        if changed:
            problems.append(changed)
        return RequestReport(
            cached_tokens=cached,
            evaluated_tokens=None if cached is None else len(prompt) - cached,
            chunks=(),
            finish_reason=finish_reason,
            problem="; ".join(problems) + "." if problems else None,
            note=" ".join(notes) or None,
            raw_request=asked.request,
            raw_response=asked.response,
        )


def _problems(prompt: IdArray, answer: Answer) -> Iterator[str]:
    if answer.prompt_ids not in (None, tuple(prompt.tolist())):
        yield "the server says that other ids went in than were sent"
    if answer.prompt_tokens != len(prompt):
        yield f"the server counted {answer.prompt_tokens} prompt tokens, {len(prompt)} were sent"
    if answer.completion_tokens != len(answer.ids):
        yield f"the server counted {answer.completion_tokens} answer tokens and returned {len(answer.ids)} ids"


def _cache_problems(cached: int | None, most: int | None) -> Iterator[str]:
    if cached is not None and most is not None and cached > most:
        yield (
            f"{cached} prompt tokens came from the cache, which can have held {most} of them from this State: "
            "somebody else's requests are in it"
        )


def _rebuilds(answer: Answer, steps: Sequence[Step], eog_ids: frozenset[int]) -> bool:
    """Whether the pieces are the server's text, which lacks the end token and what is no whole character at its end."""
    pieces = [step.piece for step in steps]
    if steps[-1].token_id in eog_ids:
        pieces.pop()
    text = b"".join(pieces).decode("utf-8", errors="replace")
    return text.rstrip("\ufffd") == answer.text.rstrip("\ufffd")
