"""The two token strips around the fork, and the provenance bar above each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.bundle.report_positions import centre
from app.bundle.report_tables import request_at, shown_request
from app.bundle.report_words import SIDES, count_text, id_text, known, nats, side_names, token_text
from app.trajectory.margin_series import MarginSeries
from app.trajectory.pair import Fork, ForkKind, Pair
from app.trajectory.trajectory import Request, Span

AROUND_TOKENS = 12
"""Tokens before and after the fork that the strips show."""
MOST_CHARACTERS = 180
"""Characters on each side of the fork: long tokens would push it out of sight."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a strip; `kind` is "fork", "near" (a near tie), "after" (the fork: not comparable) or ""."""

    text: str
    hint: str
    kind: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of the provenance bar: left edge and width in percent of the prompt, and how it was written."""

    left: float
    width: float
    kind: str


@dataclass(frozen=True)
class Strip:
    """One side around the fork: `side` is one of SIDES, `name` what it is called.

    `before` and `after` count tokens of the request that are not shown. `fresh` is where that begins which this request
    evaluated itself, in percent of the prompt; None where it was not reported.
    """

    side: str
    name: str
    counts: str
    tokens: tuple[Token, ...] = ()
    before: int = 0
    after: int = 0
    bars: tuple[Bar, ...] = ()
    fresh: float | None = None


def strips(pair: Pair, near_tie: float, *, redacted: bool) -> tuple[Strip, Strip]:
    """Both sides, AROUND_TOKENS before and after the fork; without one, the largest change of margin."""
    fork, series = pair.comparison.fork, MarginSeries.of(pair.cached, pair.recompute, pair.comparison.fork)
    index, at = series.locate(centre(series))
    if fork is not None and (fork.step is None or fork.kind is ForkKind.PROMPT):
        index, at = min(fork.request, shown_request(pair)), fork.step or 0
    ties = (series.recompute[slice(*series.starts[index : index + 2].tolist())] < near_tie).tolist()
    made = []
    for side, name, run in zip(SIDES, side_names(pair), (pair.cached, pair.recompute), strict=True):
        request = request_at(run, index)
        if request is None:
            made.append(Strip(side, name, f"no request {index + 1}"))
            continue
        prompt = fork is not None and fork.kind is ForkKind.PROMPT
        writer = _Writer(pair, request, fork, ties, redacted)
        total = len(request.prompt.ids if prompt else request.steps)
        tokens, before = _window(at, total, writer.asked if prompt else writer.answered)
        after = total - before - len(tokens)
        if fork is not None and fork.step == at == total:
            tokens.append(Token("ends here", f"It ends before token {at + 1}.", "fork"))
        made.append(Strip(side, name, _counts(request), tuple(tokens), before, after, *_bars(request)))
    return made[0], made[1]


@dataclass(frozen=True)
class _Writer:
    """Makes the tokens of one request's strip. `ties` says of each step whether it is a near tie."""

    pair: Pair
    request: Request
    fork: Fork | None
    ties: Sequence[bool]
    redacted: bool

    def answered(self, step: int) -> Token:
        """A token of the answer, from 0."""
        steps, token_id = self.request.steps, int(self.request.steps.token_ids[step])
        hint = (
            f"{self.request.index + 1}:{step + 1}, id {id_text(token_id)}, "
            f"logprob {nats(known(steps.logprobs[step]))}, margin {nats(known(steps.margins[step]))}"
        )
        kind = self._kind(step) or ("near" if self.ties[step] else "")
        return Token(token_text(steps.piece(step), token_id, redacted=self.redacted), hint, kind)

    def asked(self, position: int) -> Token:
        """A token of the prompt, from 0."""
        token_id = int(self.request.prompt.ids[position])
        text = token_text(self.pair.pieces.get(token_id), token_id, redacted=self.redacted)
        return Token(text, f"prompt token {position + 1}, id {id_text(token_id)}", self._kind(position))

    def _kind(self, at: int) -> str:
        if self.fork is None:
            return ""
        place, fork = (self.request.index, at), (self.fork.request, -1 if self.fork.step is None else self.fork.step)
        return "fork" if place == fork else "after" if place > fork else ""


def _window(at: int, total: int, token: Callable[[int], Token]) -> tuple[list[Token], int]:
    """The tokens around `at`, and which is the first; fewer of them where they are long."""
    at = min(at, total)
    shown = [token(at)] if at < total else []
    room, first = MOST_CHARACTERS, at
    while first > max(at - AROUND_TOKENS, 0) and (room := room - len((one := token(first - 1)).text)) >= 0:
        shown.insert(0, one)
        first -= 1
    room, last = MOST_CHARACTERS, at + 1
    while last < min(at + AROUND_TOKENS + 1, total) and (room := room - len((one := token(last)).text)) >= 0:
        shown.append(one)
        last += 1
    return shown, first


def _counts(request: Request) -> str:
    report = request.report
    if report is None:
        return "did not end"
    return f"{count_text(report.cached_tokens)} cached · {count_text(report.evaluated_tokens)} evaluated"


def _bars(request: Request) -> tuple[tuple[Bar, ...], float | None]:
    total, evaluated = len(request.prompt.ids), request.report.evaluated_tokens if request.report else None
    fresh = None if evaluated is None or not total else 100 * (total - evaluated) / total
    return tuple(_bar(span, number, total) for number, span in enumerate(request.spans)) if total else (), fresh


def _bar(span: Span, number: int, total: int) -> Bar:
    kind = f"prefill{number % 2}" if span.kind == "prefill" else span.kind
    return Bar(100 * span.start / total, 100 * span.length / total, kind)
