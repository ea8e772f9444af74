"""What an OpenAI-compatible server keeps of the requests that went through one State, as far as it tells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from app.engine.base import GenerateRequest, Progress, Snapshot, StopFlag
from app.engine.openai.shape import Completion, read_completion, without_arrays
from app.errors import EngineDied, EngineError
from app.trajectory.step import IdArray, Step
from app.trajectory.trajectory import RequestReport, Span

if TYPE_CHECKING:
    from app.engine.openai.engine import OpenAIEngine


class OpenAIState:
    """What a server keeps of the requests that went through this State; its first one follows a sentinel."""

    def __init__(self, engine: OpenAIEngine) -> None:
        self._engine = engine
        self._before: tuple[str, int] | None = None  # the last prompt, and the tokens that the server counted in it
        self.was_asked = False

    def generate(self, request: GenerateRequest, stop: StopFlag) -> Iterator[Progress | Step | RequestReport]:
        """Answer one request; the report comes last. The answer comes whole, its steps follow at once."""
        engine, total = self._engine, len(request.prompt_ids)
        text, is_exact = engine.text_of(request.prompt_ids)
        if not text:
            raise EngineError("The prompt is empty.", "A request needs at least one word.")
        yield Progress(0, total, 0)
        is_first = not self.was_asked
        try:
            if is_first:
                engine.serve_sentinel(text, stop)
            raw, problems = engine.complete(self, text, request, stop)
        except EngineDied:
            if not stop.is_set():
                raise
            self.was_asked = False  # nobody knows what the server holds now
            yield RequestReport(None, None, (), "cancelled", raw_request=_json(engine.body(text, request)))
            return
        answer = read_completion(raw)
        if answer is None:
            raise EngineError("The server's answer has no choices with a text.", "Look at the server's log.")
        self.was_asked = True
        steps, placed = engine.steps(answer, request.rivals)
        yield Progress(total, total, 0)
        yield from steps
        problems += self._contradictions(text, answer, is_first=is_first)
        yield RequestReport(
            cached_tokens=answer.cached,
            evaluated_tokens=_rest(answer),
            chunks=(),
            finish_reason="length" if _was_cut(answer, request.max_tokens) else "stop",
            checks=_counts(answer),
            problem=_sentence(problems),
            note=_sentence(_notes(steps, is_exact=is_exact, placed=placed)),
            raw_request=_json(engine.body(text, request)),
            raw_response=_json(without_arrays(raw) if placed else raw),
        )

    def rebuild(self, ids: IdArray, spans: Sequence[Span]) -> None:
        """Not to be had: a server evaluates prompts, in chunks of its own choice."""
        raise EngineError(
            f"A server's cache cannot be filled entry by entry ({len(ids)} tokens in {len(spans)} spans).",
            "Run the pass again from its start.",
        )

    def snapshot(self) -> Snapshot:
        """Not to be had over this protocol."""
        raise EngineError("The server's cache cannot be saved over this protocol.", "Run the pass from its start.")

    def close(self) -> None:
        """Nothing to give back: the server keeps what it wants."""

    def _contradictions(self, text: str, answer: Completion, *, is_first: bool) -> list[str]:
        problems = []
        if is_first and answer.cached:
            problems.append(f"the request was to be kept from the cache, yet {answer.cached} tokens came from it")
        before, count = self._before, answer.prompt_tokens
        if count is not None:
            if before is not None and text.startswith(before[0]) and count < before[1]:
                problems.append(f"the prompt grew, yet the server counts {count} tokens after {before[1]}: it was cut")
            self._before = (text, count)
            if answer.cached is not None and answer.cached > count:
                problems.append(f"{answer.cached} cached tokens are more than the prompt's {count}")
        return problems


def _notes(steps: Sequence[Step], *, is_exact: bool, placed: bool) -> list[str]:
    notes = []
    if not is_exact:
        notes.append("the prompt holds bytes that are no text; they were sent as U+FFFD")
    if not placed:
        return [*notes, "the server's entries do not rebuild its text, or it gave none: the steps are words"]
    bare = sum(step.logprob is None for step in steps)
    if bare:
        notes.append(f"{bare} of {len(steps)} steps came without a logprob of their own")
    return notes


def _was_cut(answer: Completion, max_tokens: int) -> bool:
    return answer.stop == "length" or (not answer.stop and answer.answer_tokens == max_tokens)


def _rest(answer: Completion) -> int | None:
    """Prompt tokens that were evaluated; None where one of the counts is not reported, or they contradict."""
    if answer.cached is None or answer.prompt_tokens is None or answer.cached > answer.prompt_tokens:
        return None
    return answer.prompt_tokens - answer.cached


def _counts(answer: Completion) -> dict[str, int]:
    told = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.answer_tokens}
    return {name: count for name, count in told.items() if count is not None}


def _sentence(parts: Sequence[str]) -> str | None:
    return f"{'; '.join(parts)}." if parts else None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
