"""*Shrink* on the scripted engine: what counts, what is recorded, and how a search is taken up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path as FilePath
from shutil import copy
from threading import Event
from typing import TypeVar

import pytest

from app.engine.base import EngineInfo
from app.engine.scripted import Mishap, ScriptedEngine, steps_of, tokenize
from app.errors import StoreError
from app.experiment.again import run_again
from app.experiment.plans import RunRequest, from_plan
from app.experiment.shrink import Shrinker
from app.experiment.shrink_request import ShrinkRequest
from app.session import Session, resume_run, shrink
from app.session.shrinking import source_of
from app.store.recorder import Recorder
from app.trajectory.events import Event as RunEvent
from app.trajectory.events import PairCompared, RunEnded, RunFailed, RunStarted, Shrunk
from app.trajectory.pair import Pair
from app.trajectory.reproducer import reproducer_of
from app.trajectory.step import IdArray, Step
from app.trajectory.trajectory import ExperimentInfo, Path, Request, Status
from tests.unit.experiment.test_runner import Run

T = TypeVar("T")
Answer = Callable[[IdArray, int], Sequence[Step]]

TURN = tokenize("user\n", False)
"""What the made-up model must have seen to answer otherwise from a cache."""


def model(prompt: IdArray, cached: int) -> list[Step]:
    """Forks at its sixth byte where the cache holds more than half of a prompt in which a user speaks."""
    is_turned = cached > len(prompt) // 2 and bytes(TURN) in bytes(i for i in prompt.tolist() if i < 256)
    return steps_of("Yes, so it is." if is_turned else "Yes, no it is.", [1.0] * 5 + [0.02])


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    """Two recorded episodes; both fork in their second request."""
    path = tmp_path / "run.forkpoint"
    Run(path, ScriptedEngine(model), RunRequest(episodes="0-1", repeat=1))
    return path


class Search:
    """A search to its end, with what it told. `watch` sees each event, and may stop it."""

    def __init__(
        self,
        file: FilePath,
        engine: ScriptedEngine | None = None,
        *,
        episode_id: str = "units-01",
        budget_s: float = 600.0,
        out: FilePath | None = None,
        watch: Callable[[RunEvent, Event], None] = lambda *_: None,
    ) -> None:
        self.events: list[RunEvent] = []
        self.file, self.engine, self.stop = out or file, engine or ScriptedEngine(model), Event()
        with closing(Session.open(file)) as session:
            info = next(each for each in session.experiments() if each.plan["kind"] == "pair")
            pair = session.pair(info.id, episode_id)
            reproducer = reproducer_of(pair, session.pair_reader(info.id).earlier(pair.cached), info.plan)
        request = ShrinkRequest(reproducer, info, pair.cached.family, 1, budget_s, self.file, 0.1)

        def tell(event: RunEvent) -> None:
            self.events.append(event)
            watch(event, self.stop)

        Shrinker(lambda: self.engine, request, tell, self.stop).run()

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def last(self) -> Shrunk:
        return self.of(Shrunk)[-1]

    @property
    def experiment_id(self) -> int:
        return self.of(RunStarted)[-1].experiment_id

    def found(self) -> tuple[ExperimentInfo, Pair]:
        with closing(Session.open(self.file)) as session:
            info = session.experiment(self.experiment_id)
            return info, session.pair(info.id, info.plan["episode_ids"][0])


def stop_after(tries: int) -> Callable[[RunEvent, Event], None]:
    def watch(event: RunEvent, stop: Event) -> None:
        if isinstance(event, Shrunk) and event.tries == tries:
            stop.set()

    return watch


def asked_of(request: Request) -> tuple[list[int], int]:
    return request.prompt.ids.tolist(), len(request.steps)


def test_the_smallest_pair_is_an_experiment_of_its_own(file: FilePath) -> None:
    search = Search(file)
    info, pair = search.found()
    assert search.events[-1] == RunEnded(2, "shrunk", "units-01")
    assert (info.title, info.status) == ("shrink · units-01 · scripted", Status.DONE)
    warm_up, forked = pair.cached.requests
    assert asked_of(warm_up) == (TURN[:3], 1), "half and one more of the five tokens that the fork needs"
    assert forked.prompt.ids.tolist() == TURN
    fork = pair.comparison.fork
    assert fork is not None and fork.label == "2:6"
    assert (fork.cached and fork.cached.piece, fork.recompute and fork.recompute.piece) == (b"s", b"n")
    assert search.last.is_minimal and search.last.tokens_now == 3 + 1 + 5
    assert search.last.tokens_before > 100 * search.last.tokens_now
    assert "1-minimal" in search.last.sentence


def test_the_recorded_pair_is_valid_and_repeats_exactly(file: FilePath) -> None:
    search = Search(file)
    _, pair = search.found()
    assert pair.comparison.valid, (pair.comparison.problems, pair.comparison.unproven)
    assert {path: (repeats.runs, repeats.exact) for path, repeats in pair.comparison.repeats.items()} == {
        "cached": (2, True),
        "recompute": (2, True),
    }
    assert [request.report and request.report.cached_tokens for request in pair.cached.requests] == [0, 3]
    assert [span.writer for span in pair.cached.requests[1].spans] == ["units-01 r1", "units-01 r2"]
    with closing(Session.open(file)) as session:
        assert all(info.valid for info in session.passes(search.experiment_id))
        (row,) = session.rows(search.experiment_id)
    assert [event.row for event in search.of(PairCompared)] == [row]
    assert (row.diverged, row.request, row.step) == (True, 1, 5)


def test_the_experiment_that_was_searched_in_stays_as_it_is(file: FilePath) -> None:
    with closing(Session.open(file)) as session:
        before = session.experiment(1), session.rows(1), session.summary(1)
    Search(file)
    with closing(Session.open(file)) as session:
        assert (session.experiment(1), session.rows(1), session.summary(1)) == before
        assert session.summary(2).pairs == 1


def test_both_paths_of_the_smallest_pair_run_again(file: FilePath) -> None:
    info, pair = Search(file).found()
    request, _ = from_plan(info.plan)
    with closing(ScriptedEngine(model)) as engine:
        assert run_again(engine, pair, request, lambda _: None, Event()) == {Path.CACHED: True, Path.RECOMPUTE: True}


def test_the_smallest_pair_can_be_shrunk_and_exported_like_any_other(file: FilePath) -> None:
    info, pair = Search(file).found()
    reproducer = reproducer_of(pair, (), info.plan)
    assert [(w.prompt_ids.tolist(), w.max_tokens) for w in reproducer.history] == [(TURN[:3], 1)]
    assert reproducer.token_count == 3 + 1 + 5


def test_a_candidate_that_forks_only_once_does_not_count(file: FilePath) -> None:
    asked: list[bytes] = []
    search = Search(file, ScriptedEngine(flaky(asked)), watch=stop_after(30))
    assert search.last.tries == 30 and len(asked) > 30
    _, pair = search.found()
    assert pair.cached.requests[-1].prompt.ids.tobytes() in asked[:RECORDED]


def flaky(seen: list[bytes]) -> Answer:
    """After the recorded requests, every prompt forks when a cache is used for it the first time, and never again."""

    def answers(prompt: IdArray, cached: int) -> Sequence[Step]:
        if len(seen) < RECORDED or prompt.tobytes() in seen[:RECORDED]:
            seen.append(prompt.tobytes())
            return model(prompt, cached)
        is_new = bool(cached) and prompt.tobytes() not in seen
        seen.extend([prompt.tobytes()] if cached else [])
        return steps_of("Yes, so it is." if is_new else "Yes, no it is.")

    return answers


RECORDED = 6
"""Two warm-up requests and the one that forks, on both paths."""


def test_a_fork_before_the_last_request_is_not_the_fork(file: FilePath) -> None:
    """The history's own answers may differ between the paths once something was taken out of it."""

    def earlier(prompt: IdArray, cached: int) -> list[Step]:
        """Every request forks once it is shorter than recorded."""
        return steps_of("Yes, so it is." if cached > len(prompt) // 2 else "Yes, no it is.")

    search = Search(file, ScriptedEngine(earlier))
    _, pair = search.found()
    assert pair.comparison.fork is not None
    assert pair.comparison.fork.request == len(pair.cached.requests) - 1


def test_a_search_that_is_stopped_keeps_what_it_found_and_goes_on(file: FilePath, tmp_path: FilePath) -> None:
    whole = Search(file, out=tmp_path / "whole.forkpoint")
    first = Search(file, watch=stop_after(20))
    assert first.events[-1] == RunEnded(2, "stopped", "units-01")
    info, pair = first.found()
    assert info.status is Status.DONE and pair.comparison.fork is not None
    assert first.last.tokens_now < first.last.tokens_before and "stopped" in first.last.sentence
    second = Search(file)
    assert second.experiment_id == first.experiment_id, "it is the same search"
    assert second.last.is_minimal and second.last.tokens_now == whole.last.tokens_now
    assert second.last.tries == whole.last.tries - first.last.tries, "nothing is tried twice"
    assert second.found()[1].cached.requests[-1].prompt.ids.tolist() == TURN


def test_a_search_that_is_killed_goes_on_from_its_last_try(file: FilePath, tmp_path: FilePath) -> None:
    left = tmp_path / "left.forkpoint"

    def as_a_kill_leaves_it(event: RunEvent, _: Event) -> None:
        if isinstance(event, Shrunk) and event.tries == 20:
            for name in ("", "-wal"):
                copy(f"{file}{name}", f"{left}{name}")

    whole = Search(file, watch=as_a_kill_leaves_it)
    with closing(Session.open(left)) as session:
        assert session.experiment().status is Status.INTERRUPTED
        assert [row.code for row in session.rows(session.experiment().id)] == ["open"]
    again = Search(left)
    assert again.last.is_minimal and again.last.tries == whole.last.tries - 20
    assert again.found()[1].comparison.fork == whole.found()[1].comparison.fork


def test_the_time_ends_a_search_between_two_tries(file: FilePath) -> None:
    search = Search(file, budget_s=0)
    assert search.events[-1] == RunEnded(2, "shrunk", "units-01")
    assert search.last.tries == 0 and "stopped by the time" in search.last.sentence
    _, pair = search.found()
    assert pair.comparison.fork is not None and search.last.tokens_now == search.last.tokens_before


def test_a_fork_that_does_not_show_is_a_sentence_and_leaves_nothing(file: FilePath) -> None:
    search = Search(file, ScriptedEngine(lambda *_: steps_of("Yes, no it is.")))
    failed = search.events[-1]
    assert isinstance(failed, RunFailed) and "does not show again" in failed.message and failed.hint
    with closing(Session.open(file)) as session:
        assert [info.id for info in session.experiments()] == [1]


def test_an_engine_that_dies_leaves_what_was_found(file: FilePath) -> None:
    search = Search(file, ScriptedEngine(model, mishaps=[Mishap(60, 2, "die")]))
    failed = search.events[-1]
    assert isinstance(failed, RunFailed) and "has ended" in failed.message
    info, pair = search.found()
    assert info.status is Status.DONE and pair.comparison.fork is not None
    assert sum(len(request.prompt.ids) for request in pair.cached.requests) < search.last.tokens_before
    assert Search(file).last.is_minimal


def test_another_model_is_refused(file: FilePath) -> None:
    class Other(ScriptedEngine):
        def describe(self) -> EngineInfo:
            info = super().describe()
            return replace(info, model={**info.model, "sha256": "other"})

    failed = Search(file, Other(model)).events[-1]
    assert isinstance(failed, RunFailed) and "SHA-256" in failed.message


def test_another_set_up_is_another_search(file: FilePath) -> None:
    first = Search(file, watch=stop_after(20))
    other = Search(file, ScriptedEngine(model, n_ctx=8192), watch=stop_after(20))
    assert (first.experiment_id, other.experiment_id) == (2, 3)
    assert other.of(Shrunk)[0].tokens_now == other.last.tokens_before, "it starts from what was recorded"
    assert Search(file).experiment_id == 2


def test_the_result_may_lie_in_another_file(file: FilePath, tmp_path: FilePath) -> None:
    before = file.read_bytes()
    search = Search(file, out=tmp_path / "small.forkpoint")
    assert search.found()[0].id == 1 and file.read_bytes() == before
    assert Search(file, out=search.file).experiment_id == 1


def test_time_in_the_engine_is_told_from_time_beside_it(file: FilePath) -> None:
    last = Search(file, budget_s=0).last
    assert 0 < last.engine_seconds <= last.seconds


@pytest.fixture
def opened(file: FilePath) -> Iterator[Session]:
    with closing(Session.open(file)) as session:
        yield session


def test_a_search_is_not_resumed_as_a_run(file: FilePath) -> None:
    """What a killed search leaves is marked interrupted; resuming it would play the episode."""
    search = Search(file)
    with closing(Recorder(file)) as recorder:
        recorder.finish_experiment(search.experiment_id, Status.INTERRUPTED)
    with pytest.raises(StoreError, match="search for a smaller pair") as refused:
        resume_run(file, search.experiment_id)
    assert "forkpoint shrink" in refused.value.hint


def test_a_pair_that_did_not_fork_cannot_be_shrunk(tmp_path: FilePath) -> None:
    path = tmp_path / "equal.forkpoint"
    Run(path, ScriptedEngine(), RunRequest(episodes="0", repeat=1))
    with closing(Session.open(path)) as session, pytest.raises(StoreError, match="did not fork"):
        shrink(session, "files-00", 1.0)


@pytest.mark.parametrize("experiment_id", [None, 1, 2])
def test_a_search_is_found_by_the_pair_that_it_shrinks(file: FilePath, experiment_id: int | None) -> None:
    Search(file)
    with closing(Session.open(file)) as session:
        assert source_of(session, "units-01", experiment_id).id == 1


def test_an_episode_that_is_not_there_is_a_sentence(opened: Session) -> None:
    with pytest.raises(StoreError, match="holds no notes-07") as refused:
        shrink(opened, "notes-07", 1.0)
    assert refused.value.hint
