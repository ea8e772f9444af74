"""Small made-up trajectories for tests of what only reads them. Never shown to a user, never a measurement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.trajectory.episode import Message, Outcome, ToolCall, ToolResult
from app.trajectory.step import Rival, Step, StepBlock, as_ids
from app.trajectory.trajectory import Path, Prompt, Request, RequestReport, Span, Status, Trajectory

WORDS = (" the", " a", "\n", " 14", " 15", '{"', "tool", '":', " Tuesday", " é", "}", ".")


def step(token_id: int, margin: float = 2.0, logprob: float = -0.1, piece: bytes | None = None, k: int = 5) -> Step:
    """A step whose best rival is the token itself and whose second lies `margin` nats below."""
    piece = piece if piece is not None else WORDS[token_id % len(WORDS)].encode()
    rivals = [Rival(token_id, logprob, piece)]
    rivals += [
        Rival(token_id + n, logprob - margin - 0.7 * (n - 1), WORDS[(token_id + n) % len(WORDS)].encode())
        for n in range(1, k)
    ]
    return Step(token_id, logprob, piece, tuple(rivals))


def request(
    index: int,
    prompt_ids: Sequence[int],
    steps: Sequence[Step],
    *,
    cached: int | None = 0,
    turn: int | None = None,
    calls: tuple[ToolCall, ...] = (),
    results: tuple[ToolResult, ...] = (),
    added: tuple[Message, ...] = (Message("user", "Move it to the next free hour."),),
    finish_reason: str = "stop",
) -> Request:
    total = len(prompt_ids)
    evaluated = None if cached is None else total - cached
    spans: tuple[Span, ...] = (Span(0, total, "prefill", f"made-00 r{index + 1}", total),)
    if cached:
        spans = (
            Span(0, cached // 2, "prefill", "made-00 r1", cached // 2),
            Span(cached // 2, cached - cached // 2, "decode", f"made-00 r{index}"),
            Span(cached, total - cached, "prefill", f"made-00 r{index + 1}", total - cached),
        )
    return Request(
        index=index,
        prompt=Prompt(as_ids(prompt_ids), index if turn is None else turn, added),
        steps=StepBlock.pack(steps, 5),
        report=RequestReport(
            cached_tokens=cached,
            evaluated_tokens=evaluated,
            chunks=() if evaluated is None else (evaluated,),
            finish_reason=finish_reason,
            held_before=cached,
            first_token_ms=120.0,
            prefill_ms=110.0,
            decode_ms=17.0 * len(steps),
        ),
        calls=calls,
        results=results,
        spans=spans,
    )


def trajectory(
    requests: Sequence[Request],
    *,
    path: Path = Path.CACHED,
    id: int = 1,
    episode_id: str = "made-00",
    repeat: int = 1,
    status: Status = Status.DONE,
    outcome: Outcome = Outcome("reached"),
) -> Trajectory:
    return Trajectory(id, id, episode_id, "made", path, repeat, status, tuple(requests), outcome)


def forked_pair_of_trajectories(
    requests: int = 4, steps_each: int = 30, fork_request: int = 2, fork_step: int = 16, seed: int = 7
) -> tuple[Trajectory, Trajectory]:
    """A cached and a recompute trajectory that fork at (fork_request, fork_step), counted from 0, by a near tie."""
    rng = np.random.default_rng(seed)
    sides: dict[Path, list[Request]] = {Path.CACHED: [], Path.RECOMPUTE: []}
    prompts = {path: list(range(1, 41)) for path in sides}
    for index in range(requests):
        ids = rng.integers(100, 400, steps_each)
        margins = rng.gamma(2.0, 1.6, steps_each) + 0.02
        for path, built in sides.items():
            own = ids.copy()
            drift = rng.normal(0, 0.03, steps_each) if path is Path.CACHED else np.zeros(steps_each)
            if index == fork_request:
                margins[fork_step] = 0.04
                own[fork_step] += path is Path.CACHED
                own[fork_step + 1 :] += 3 if path is Path.CACHED else 0
            if index > fork_request:
                own += 1 if path is Path.CACHED else 0
            taken = [
                step(int(token), float(margin + abs(change)), float(-0.2 + change))
                for token, margin, change in zip(own, margins, drift, strict=True)
            ]
            hit = len(prompts[path]) - 6 if path is Path.CACHED and index else 0
            call = ToolCall("move_event", {"id": 7, "hour": 14 + index}, '{"tool": "move_event"}')
            built.append(
                request(
                    index,
                    prompts[path],
                    taken,
                    cached=hit,
                    calls=(call,),
                    results=(ToolResult("move_event", '{"id": 7, "title": "review", "hour": 13}', True),),
                )
            )
            prompts[path] = prompts[path] + own.tolist() + [5, 6, 7, 8, 9, 10]
    return (
        trajectory(sides[Path.CACHED], path=Path.CACHED, id=1),
        trajectory(sides[Path.RECOMPUTE], path=Path.RECOMPUTE, id=2),
    )
