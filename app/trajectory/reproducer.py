"""What somebody else needs to make the fork show again: the requests served before, then the one that forked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from app.errors import StoreError
from app.trajectory.pair import Fork, ForkKind, Pair
from app.trajectory.step import IdArray, StepBlock, shared_length
from app.trajectory.trajectory import Request, Span

ReplayVerdict = Literal["reproduced", "forks elsewhere", "does not fork", "cannot be compared"]


@dataclass(frozen=True, eq=False)
class WarmUp:
    """A request served before the forked one: ask it, and the cache holds `prompt_ids` and `answer_ids` less the last.

    `writer` names it as spans do, e.g. "files-00 r3". `max_tokens` is how many steps to ask for; of an answer that was
    recorded, its own length. `cached_tokens` is what the engine reported to have reused for it, None where it did not
    say. Both arrays are int32.
    """

    writer: str
    prompt_ids: IdArray
    answer_ids: IdArray
    max_tokens: int
    cached_tokens: int | None = None

    @property
    def held_ids(self) -> IdArray:
        """What a State holds that last answered it: the prompt and the answer less the last token, int32."""
        return np.concatenate([self.prompt_ids, self.answer_ids[:-1]])


@dataclass(frozen=True, eq=False)
class Reproducer:
    """A warm-up history, then one request: cached after the history, recompute from an empty cache.

    `fork` is where the two answers part, of kind TOKEN with both sides; its request is this one, counted from 0 in the
    episode. `shared_ids` int32 [fork.step] are the answer's ids before it. `spans` say how the cached path's entries of
    the prompt were written, `cached_tokens` how many of them were reused (None: not reported). `temperature` 0 is
    greedy; then the other sampling values mean nothing.
    """

    episode_id: str
    history: tuple[WarmUp, ...]
    prompt_ids: IdArray
    cached_tokens: int | None
    spans: tuple[Span, ...]
    max_tokens: int
    rivals: int
    temperature: float
    top_k: int
    top_p: float
    seed: int
    fork: Fork
    shared_ids: IdArray

    @property
    def token_count(self) -> int:
        """The size of it: tokens of all prompts, and of the answers that the history asks for."""
        return len(self.prompt_ids) + sum(len(warm_up.prompt_ids) + warm_up.max_tokens for warm_up in self.history)


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as it was recorded: `name`, e.g. "build ggml_commit", and both values as text."""

    name: str
    recorded: str
    here: str


@dataclass(frozen=True, slots=True)
class Served:
    """One request of a replay: what it took from the cache, recorded and here (None: not reported), and the first
    token of its answer, from 0, that was another than recorded (None: all are equal, or it had none to compare)."""

    name: str
    recorded_cached: int | None
    cached: int | None
    deviates_at: int | None = None


@dataclass(frozen=True, eq=False)
class ReplayResult:
    """What a replay found: both new answers, where they part (`fork`), and what was served for them.

    `because` is the verdict's reason as a sentence; `differences` are those of the environment.
    """

    episode_id: str
    verdict: ReplayVerdict
    because: str
    differences: tuple[Difference, ...]
    served: tuple[Served, ...]
    cached: StepBlock
    recompute: StepBlock
    fork: Fork | None


def why_no_reproducer(pair: Pair) -> str:
    """Why nothing can be asked again for this pair, as a sentence; "" where it can."""
    fork, comparison = pair.comparison.fork, pair.comparison
    if fork is None:
        return "The two paths did not fork."
    if fork.kind is not ForkKind.TOKEN or fork.step is None:
        return f"The two paths part by their {fork.kind}, not at a sampled token."
    if comparison.is_run_to_run:
        return "The fork is between two runs of one path, not between the cached and the recompute path."
    if comparison.level != "ids":
        return f"The engine gave no token ids; its answers were compared by their {comparison.level}."
    if pair.cached.requests[fork.request].report is None:
        return "The cached path did not finish the forked request."
    return ""


def warm_up_of(writer: str, request: Request) -> WarmUp:
    """A recorded request as a warm-up request of later ones."""
    answer = request.steps.token_ids
    cached = request.report.cached_tokens if request.report else None
    return WarmUp(writer, request.prompt.ids, answer, len(answer), cached)


def reproducer_of(pair: Pair, earlier: Sequence[WarmUp], plan: Mapping[str, Any]) -> Reproducer:
    """The reproducer of a forked pair.

    `earlier` are the requests of earlier episodes of the cached pass in the order served, more than are needed or just
    those; the episode's own are taken from the pair. `plan` is the experiment's. Raises StoreError where the pair has
    no reproducer, or the plan cannot be read.
    """
    if reason := why_no_reproducer(pair):
        raise StoreError(reason, "Choose a pair that forked at a token.")
    fork, cached = pair.comparison.fork, pair.cached
    assert fork is not None and fork.step is not None
    request = cached.requests[fork.request]
    own = [warm_up_of(f"{cached.episode_id} r{r.index + 1}", r) for r in cached.requests[: fork.request]]
    sampling = plan.get("sampling")
    if not isinstance(sampling, Mapping):
        raise StoreError("The plan of this run does not say how tokens were chosen.", "It may be damaged.")
    return Reproducer(
        episode_id=cached.episode_id,
        history=needed([*earlier, *own], request),
        prompt_ids=request.prompt.ids,
        cached_tokens=request.report.cached_tokens if request.report else None,
        spans=tuple(request.spans),
        max_tokens=_count(plan, "max_tokens"),
        rivals=_count(plan, "rivals"),
        temperature=_number(sampling, "temperature"),
        top_k=_count(sampling, "top_k"),
        top_p=_number(sampling, "top_p"),
        seed=_count(sampling, "seed"),
        fork=fork,
        shared_ids=request.steps.token_ids[: fork.step],
    )


def needed(served: Sequence[WarmUp], request: Request) -> tuple[WarmUp, ...]:
    """The least of `served`, in its order, that leaves the cache as `request` found it.

    Those that wrote entries which it reuses; and where one of them, or the request itself, would find more in the cache
    without the others than it did with them, the shortest one that takes that much away (it is asked for one token,
    and nobody knows what it would have reused). All of `served` where the engine did not say what it reused or how that
    was written, or keeps more than the last conversation.
    """
    reused = request.report.cached_tokens if request.report else None
    spans = [span for span in request.spans if reused is None or span.start < reused]
    if reused is None or any(span.kind == "unknown" for span in spans):
        return tuple(served)
    writers = {span.writer for span in spans}
    kept: list[WarmUp] = []
    done = 0
    for index in [i for i, warm_up in enumerate(served) if warm_up.writer in writers] + [len(served)]:
        prompt = served[index].prompt_ids if index < len(served) else request.prompt.ids
        between = served[done:index]
        left = _reusable(between[-1:] or kept[-1:], prompt)  # what the whole history leaves of the prompt
        if left != _reusable(kept[-1:], prompt):
            cuts = [w for w in between if _reusable([w], prompt) == left <= _reusable(kept[-1:], w.prompt_ids)]
            if not cuts:
                return tuple(served)
            cut = min(cuts, key=lambda warm_up: len(warm_up.prompt_ids))
            kept.append(replace(cut, answer_ids=cut.answer_ids[:1], max_tokens=1, cached_tokens=None))
        kept += served[index : index + 1]
        done = index + 1
    return tuple(kept)


def _reusable(last: Sequence[WarmUp], prompt: IdArray) -> int:
    """How many tokens of `prompt` a cache can reuse that last answered `last` (at most one request; none: empty)."""
    return shared_length(last[0].held_ids, prompt) if last else 0


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise StoreError(f"The plan of this run has no usable {name}.", "It may be damaged.")
    return float(value)


def _count(values: Mapping[str, Any], name: str) -> int:
    value = _number(values, name)
    if value != int(value) or value < 0:
        raise StoreError(f"The plan of this run has no usable {name}.", "It may be damaged.")
    return int(value)
