"""A recorded fork asked again on an engine of this machine: does it show here?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Event
from typing import Any

from app.engine.base import Engine, GenerateRequest, Sampling, State
from app.errors import EngineDied, EngineError
from app.experiment.again import spans_up_to
from app.experiment.pass_run import Stopped
from app.experiment.plans import MOST_RIVALS
from app.experiment.replay_environment import differences
from app.trajectory.compare import drift, find_fork
from app.trajectory.episode import Outcome
from app.trajectory.events import Event as RunEvent
from app.trajectory.events import Notice
from app.trajectory.pair import Fork, ForkKind
from app.trajectory.reproducer import ReplayResult, ReplayVerdict, Reproducer, Served
from app.trajectory.step import IdArray, Step, StepBlock, as_ids, shared_length
from app.trajectory.trajectory import Path, Prompt, Request, RequestReport, Status, Trajectory

Tell = Callable[[RunEvent], None]


def replay(
    engine: Engine, reproducer: Reproducer, environment: Mapping[str, Any], tell: Tell, stop: Event
) -> ReplayResult:
    """Serve the history and the request on the cached path, the request on the recompute path, and compare.

    Where the engine can fill a State entry by entry and the record says how, the history is rebuilt instead of served
    again: exact, and in one go. `environment` is the record of where the fork was recorded. What the engine cannot do
    is a verdict. Raises Stopped where `stop` was set, EngineDied where the engine ended by itself.
    """
    attempt = _Attempt(engine, reproducer, environment, tell, stop)
    try:
        return attempt.run()
    except EngineDied as error:
        if stop.is_set():
            raise Stopped from error
        raise
    except EngineError as error:
        return attempt.result("cannot be compared", str(error))


class _Attempt:
    """One replay on one engine."""

    def __init__(
        self, engine: Engine, reproducer: Reproducer, environment: Mapping[str, Any], tell: Tell, stop: Event
    ) -> None:
        self.engine, self.reproducer, self.tell, self.stop = engine, reproducer, tell, stop
        self.info = engine.describe()
        self.differences = differences(environment, self.info)
        self.served: list[Served] = []
        self.answers: dict[Path, StepBlock] = {}

    def run(self) -> ReplayResult:
        """Both paths, one after the other: a server may hold one State at a time."""
        if reason := self._refusal():
            return self.result("cannot be compared", reason)
        self.engine.begin_pass()
        for path in (Path.CACHED, Path.RECOMPUTE):
            state = self.engine.open_state()
            try:
                if path is Path.CACHED:
                    self._prepare(state)
                self.tell(Notice(f"{path} path: request {self.reproducer.fork.request + 1} is being answered…"))
                recorded = self.reproducer.cached_tokens if path is Path.CACHED else 0
                self.answers[path] = self._ask(
                    state, f"{path} path", self.reproducer.prompt_ids, self._most_tokens(), recorded, None
                )
            finally:
                state.close()
        return self._judge()

    def result(self, verdict: ReplayVerdict, because: str, fork: Fork | None = None) -> ReplayResult:
        """What was found, with whatever was answered by now."""
        cached, recompute = (self.answers.get(path, StepBlock.empty()) for path in (Path.CACHED, Path.RECOMPUTE))
        return ReplayResult(
            self.reproducer.episode_id, verdict, because, self.differences, tuple(self.served), cached, recompute, fork
        )

    def _refusal(self) -> str:
        """Why there is no point in asking; "" where there is."""
        other = next((d for d in self.differences if d.name == "model sha256"), None)
        if other and other.here != "not told" and other.recorded != "not told":
            return "The model file here is not the recorded one (SHA-256 differs)."
        capabilities = self.info.capabilities
        if capabilities.token_ids is False or self.info.level != "ids":
            return "This engine takes or gives no token ids."
        if capabilities.recompute is False:
            return "This engine cannot keep a request from the cache, so that there is no recompute path."
        return ""

    def _most_tokens(self) -> int:
        """Past the fork as far as the record went."""
        return max(self.reproducer.max_tokens, (self.reproducer.fork.step or 0) + 1)

    def _prepare(self, state: State) -> None:
        """Bring the State to where it was when the forked request came."""
        reproducer, reused = self.reproducer, self.reproducer.cached_tokens
        spans = spans_up_to(reproducer.spans, reused or 0)
        exact = all(span.kind == "decode" or (span.kind == "prefill" and span.chunk) for span in spans)
        if self.info.capabilities.rebuild and reused and exact:
            self.tell(Notice(f"cached path: the cache is being filled with {reused:,} tokens as recorded…"))
            state.rebuild(reproducer.prompt_ids[:reused], spans)
            return
        for number, one in enumerate(reproducer.history, 1):
            self.tell(Notice(f"cached path: warm-up request {number} of {len(reproducer.history)}, {one.writer}…"))
            self._ask(state, one.writer, one.prompt_ids, one.max_tokens, one.cached_tokens, one.answer_ids)

    def _ask(
        self, state: State, name: str, prompt: IdArray, most: int, recorded: int | None, answer: IdArray | None
    ) -> StepBlock:
        """One request; what it took from the cache and whether its answer is as recorded is noted."""
        asked = self.reproducer
        sampling = Sampling(asked.temperature, asked.top_k, asked.top_p, asked.seed)
        rivals = min(max(2, asked.rivals), MOST_RIVALS)
        steps: list[Step] = []
        report: RequestReport | None = None
        for item in state.generate(GenerateRequest(prompt, most, sampling, rivals=rivals), self.stop):
            if isinstance(item, Step):
                steps.append(item)
            elif isinstance(item, RequestReport):
                report = item
        if self.stop.is_set() or report is None or report.finish_reason == "cancelled":
            raise Stopped
        if report.problem:
            raise EngineError(f"{name}: {report.problem}")
        ids = as_ids(step.token_id for step in steps)
        same = shared_length(ids, ids if answer is None else answer)
        deviates = answer is not None and same < max(len(ids), len(answer))
        self.served.append(Served(name, recorded, report.cached_tokens, same if deviates else None))
        return StepBlock.pack(steps, rivals)

    def _judge(self) -> ReplayResult:
        fork = self._fork()
        if reason := self._contradiction():
            return self.result("cannot be compared", reason, fork)
        recorded = self.reproducer.fork
        unproven = "" if self.served[-1].cached is not None else (
            " The engine does not report what it takes from the cache, so the paths are unproven."
        )  # fmt: skip
        if fork is None:
            return self.result("does not fork", f"Both answers are equal. {self._drift()}{unproven}")
        if fork.kind is ForkKind.TOKEN and _place(fork) == _place(recorded):
            return self.result("reproduced", f"Same request, same token, same two tokens.{unproven}", fork)
        where = "into other tokens" if fork.step == recorded.step else f"not at token {(recorded.step or 0) + 1}"
        return self.result("forks elsewhere", f"It forks at {fork.place}, {where}.{unproven}", fork)

    def _contradiction(self) -> str:
        """Where the cache was not used as recorded, as a sentence."""
        for one in self.served:
            if None not in (one.recorded_cached, one.cached) and one.recorded_cached != one.cached:
                first = next((s for s in self.served if s.deviates_at is not None), None)
                why = (
                    first and f" The answer to {first.name} was another, from token {(first.deviates_at or 0) + 1} on."
                )
                return (
                    f"The cache was not used as recorded: {one.name} took {one.cached} tokens from it instead of "
                    + (f"{one.recorded_cached}.{why or ''}")
                )
        return ""

    def _fork(self) -> Fork | None:
        fork = find_fork(self._side(Path.CACHED), self._side(Path.RECOMPUTE))
        return fork and replace(fork, request=self.reproducer.fork.request)

    def _drift(self) -> str:
        changes = drift(self._side(Path.CACHED), self._side(Path.RECOMPUTE))
        known = changes[changes == changes]
        return f"The largest change of a logprob is {known.max():.6f} nats." if len(known) else ""

    def _side(self, path: Path) -> Trajectory:
        """The answered request as an episode of one request, for the definitions of `compare`."""
        request = Request(
            0, Prompt(self.reproducer.prompt_ids, 0, ()), self.answers[path], RequestReport(None, None, (), "stop")
        )
        name = self.reproducer.episode_id
        return Trajectory(0, 0, name, "", path, 1, Status.DONE, (request,), Outcome("none"))


def _place(fork: Fork) -> tuple[int | None, ...]:
    sides = (fork.cached, fork.recompute)
    return (fork.step, *(side.token_id if side else None for side in sides))
