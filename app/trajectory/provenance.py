"""How every position of a State's KV cache came about: the cause of a fork, told per prompt position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from app.trajectory.step import IdArray, as_ids, shared_length
from app.trajectory.trajectory import Request, Span


class KvLedger:
    """Follows one State and knows how each position that it holds was written.

    The cached path keeps one for a whole pass; the recompute path opens a new one with every State.
    """

    def __init__(self, ids: Iterable[int] = (), spans: Sequence[Span] = ()) -> None:
        self._ids: IdArray = as_ids(ids)
        self._spans = tuple(spans)

    @property
    def spans(self) -> tuple[Span, ...]:
        """How the positions that the State holds now were written."""
        return self._spans

    def take(
        self,
        writer: str,
        prompt_ids: Iterable[int],
        cached: int | None,
        chunks: Sequence[int],
        answer_ids: Iterable[int],
    ) -> tuple[Span, ...]:
        """Book one request and return the spans of its whole prompt, as they stand at the answer's first token.

        `cached` prompt tokens keep their spans (a chunk that is cut keeps its original `chunk` size), the rest was
        evaluated in `chunks`, or in chunks of unknown size (`chunk` 0) where none are reported. Of an answer of m
        tokens the first m - 1 are decoded one by one; the last is sampled, not evaluated. Positions that cannot be
        known get kind "unknown" and the writer under which they became so: all where `cached` is None, those that were
        reused though this State never held them, and the evaluated ones where `chunks` do not add up to them.
        """
        prompt, answer = as_ids(prompt_ids), as_ids(answer_ids)
        total = len(prompt)
        reused = 0 if cached is None else min(cached, total)
        spans = _cut(self._spans, min(reused, shared_length(self._ids, prompt)))
        _extend(spans, "unknown", writer, reused)
        if cached is not None and not chunks and total > reused:
            spans.append(Span(reused, total - reused, "prefill", writer))
        elif cached is not None and sum(chunks) == total - reused:
            for chunk in chunks:
                _extend(spans, "prefill", writer, _end(spans) + chunk)
        _extend(spans, "unknown", writer, total)
        prompt_spans = tuple(spans)
        self._ids = np.concatenate([prompt, answer[:-1]])
        _extend(spans, "decode", writer, len(self._ids))
        self._spans = tuple(spans)
        return prompt_spans


def expected_cached(previous: Request, request: Request) -> int:
    """How many prompt tokens a State that last answered `previous` can reuse by llama-server's rule (DESIGN 3).

    The longest common prefix of the prompt and what the State holds (prompt and evaluated answer), less the last
    prompt token, which is always evaluated. Engines that cache in blocks report less, none can report more.
    """
    held = np.concatenate([previous.prompt.ids, previous.steps.token_ids[:-1]])
    return max(0, min(shared_length(held, request.prompt.ids), len(request.prompt.ids) - 1))


def _end(spans: Sequence[Span]) -> int:
    return spans[-1].start + spans[-1].length if spans else 0


def _cut(spans: Iterable[Span], length: int) -> list[Span]:
    """The spans of the first `length` positions; the last one may become shorter, its `chunk` stays."""
    return [replace(span, length=min(span.length, length - span.start)) for span in spans if span.start < length]


def _extend(spans: list[Span], kind: str, writer: str, end: int) -> None:
    """Cover positions up to `end`. Prefill chunks keep their boundaries; other neighbours of one writer merge."""
    start = _end(spans)
    if end <= start:
        return
    last = spans[-1] if spans else None
    if last and kind != "prefill" and (last.kind, last.writer) == (kind, writer):
        spans[-1] = replace(last, length=end - last.start)
    else:
        spans.append(Span(start, end - start, kind, writer, end - start if kind == "prefill" else 0))
