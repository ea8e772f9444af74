"""Run both again here: the forked request answered once more on both paths, from states filled as they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any

from app.engine.base import Engine, GenerateRequest
from app.errors import EngineError
from app.experiment.plans import RunRequest
from app.trajectory.compare import blocks_differ
from app.trajectory.events import Again
from app.trajectory.events import Event as RunEvent
from app.trajectory.pair import Pair
from app.trajectory.step import Step, StepBlock
from app.trajectory.trajectory import Path, Request, Span, Trajectory


def run_again(
    engine: Engine, pair: Pair, plan: RunRequest, tell: Callable[[RunEvent], None], stop: Event
) -> dict[Path, bool]:
    """Answer the forked request (the last one where nothing forked) again on both paths, and compare bit for bit.

    Tells an Again before and after each path. Returns path -> identical. Raises EngineError where the engine cannot
    fill a state, or where that request was never answered.
    """
    fork = pair.comparison.fork
    found = {}
    for path, name, side in (
        (Path.RECOMPUTE, pair.names[1], pair.recompute),
        (Path.CACHED, pair.names[0], pair.cached),
    ):
        index = min(fork.request if fork else len(side.requests) - 1, len(side.requests) - 1)
        if index < 0 or side.requests[index].report is None:
            raise EngineError("That request was not answered, so it cannot be run again.", "Run the episode again.")
        tell(Again(path, f"{name} again: request {index + 1} is being answered…", None))
        difference = answer_again(engine, side, side.requests[index], plan, stop)
        if stop.is_set():
            break
        sentence = f"{name} again: " + (difference or "identical, every id and every logprob")
        tell(Again(path, sentence, not difference))
        found[path] = not difference
    return found


def require_same_model(engine: Engine, environment: Mapping[str, Any]) -> None:
    """Raise EngineError where the engine's model file is not the recorded one: its answers would say nothing."""
    recorded = environment.get("model", {}).get("sha256")
    if recorded != engine.describe().model.get("sha256"):
        raise EngineError("The model file is not the one that was recorded (SHA-256 differs).", "Start a new run.")


def answer_again(engine: Engine, side: Trajectory, request: Request, plan: RunRequest, stop: Event) -> str:
    """Where the new answer differs from the stored one, "" where every id and logprob is bit-identical."""
    state = engine.open_state()
    try:
        kept = request.report.cached_tokens if request.report else None
        if side.path is Path.CACHED and kept:
            state.rebuild(request.prompt.ids[:kept], spans_up_to(request.spans, kept))
        asked = GenerateRequest(request.prompt.ids, plan.max_tokens, plan.sampling, rivals=plan.rivals)
        steps = [item for item in state.generate(asked, stop) if isinstance(item, Step)]
    finally:
        state.close()
    return blocks_differ(request.steps, StepBlock.pack(steps, plan.rivals))


def spans_up_to(spans: Sequence[Span], length: int) -> list[Span]:
    """The part of `spans` that lies before position `length`."""
    return [
        Span(span.start, min(span.length, length - span.start), span.kind, span.writer, span.chunk)
        for span in spans
        if span.start < length
    ]
