"""What goes wrong under way, through the whole runner and with the real engine on models of a few kilobytes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from app.errors import WorkloadError
from app.session import EmbeddedSettings, RunHandle, RunRequest, Session, resume_run, run_again, start_run
from app.trajectory.events import (
    Again,
    Event,
    RequestFinished,
    RunEnded,
    RunFailed,
    RunStarted,
    StepsTaken,
    TrajectoryFinished,
)
from app.trajectory.pair import Pair
from app.trajectory.trajectory import Status
from tests.unit.engine.tiny_models import write_sliding_window_model

pytestmark = pytest.mark.model

SETTINGS = EmbeddedSettings(n_ctx=2048, threads=1)
TURNS = ["Hello there, how are you?", "And now, what do you say?"]


@pytest.fixture
def request_(tmp_path: FilePath) -> RunRequest:
    """Two short conversations with a tiny model, once on each path."""
    talk = tmp_path / "talk.jsonl"
    bodies = [{"messages": [{"role": "user", "content": turn} for turn in (*TURNS, last)]} for last in ("A", "B")]
    talk.write_text("\n".join(map(json.dumps, bodies)))
    model = write_sliding_window_model(tmp_path / "tiny.gguf")
    return RunRequest(
        model=model, settings=SETTINGS, imported=talk, repeat=1, max_tokens=16, out=tmp_path / "run.forkpoint"
    )


def follow(handle: RunHandle, watch: Callable[[Event], None] = lambda _: None) -> list[Event]:
    """All events of a run, in order; `watch` sees each while the run goes on."""
    events: list[Event] = []
    alive = True
    while alive or handle.inbox:
        alive = not handle.join(0.01)
        while handle.inbox:
            events.append(handle.inbox.popleft())
            watch(events[-1])
    return events


def pairs_of(file: FilePath) -> Iterator[Pair]:
    with closing(Session.open(file)) as session:
        for episode_id in session.experiment().plan["episode_ids"]:
            yield session.pair(session.experiment().id, episode_id)


def ids_of(file: FilePath) -> list[list[list[int]]]:
    return [
        [request.steps.token_ids.tolist() for request in side.requests]
        for pair in pairs_of(file)
        for side in (pair.cached, pair.recompute)
    ]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGABRT])
def test_an_engine_that_dies_in_an_answer_is_a_sentence_and_the_run_goes_on_after_it(
    request_: RunRequest, tmp_path: FilePath, how: signal.Signals
) -> None:
    def kill_in_second_request(event: Event) -> None:
        if isinstance(event, RequestFinished) and event.trajectory_id == 3 and event.index == 0:
            children = [each for each in multiprocessing.active_children() if each.name == "forkpoint-engine"]
            (child,) = [each for each in children if each.pid not in others]
            assert child.pid is not None
            os.kill(child.pid, how)

    others = {each.pid for each in multiprocessing.active_children()}  # engines that other tests share
    handle = start_run(replace(request_, max_tokens=100))
    events = follow(handle, kill_in_second_request)
    failed = events[-1]
    assert isinstance(failed, RunFailed)
    assert how.name in failed.message and "What was recorded stays" in failed.hint
    with closing(Session.open(handle.path)) as session:
        assert session.experiment().status is Status.FAILED
        assert [row.valid for row in session.rows(1)] == [True, None]
    resumed = follow(resume_run(handle.path, 1))
    assert resumed[-1] == RunEnded(1, "complete")
    whole = start_run(replace(request_, max_tokens=100, out=tmp_path / "whole.forkpoint"))
    follow(whole)
    assert ids_of(handle.path) == ids_of(whole.path)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('no system role here') }}", "no system role here"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "had not ended"),
        ("{{ messages.__class__.__mro__ }}", "sandbox keeps away"),
    ],
)
def test_a_chat_template_that_misbehaves_leaves_pairs_that_do_not_count(
    request_: RunRequest, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch, template: str, reason: str
) -> None:
    monkeypatch.setattr("app.workload.chat.RENDER_SECONDS", 0.3)
    talk = tmp_path / "one.json"
    talk.write_text(json.dumps([{"role": "user", "content": "Hello"}]))
    model = write_sliding_window_model(tmp_path / "odd.gguf", template)
    handle = start_run(replace(request_, model=model, imported=talk))
    assert follow(handle)[-1] == RunEnded(1, "complete")
    (pair,) = pairs_of(handle.path)
    assert {side.outcome.kind for side in (pair.cached, pair.recompute)} == {"error"}
    assert reason in pair.verdict.headline and "not counted" in pair.verdict.headline
    assert not pair.comparison.valid
    with closing(Session.open(handle.path)) as session:
        assert (session.summary(1).pairs, session.summary(1).left_out) == (0, 1)


def test_a_template_that_cannot_be_parsed_ends_the_run_and_leaves_no_file(
    request_: RunRequest, tmp_path: FilePath
) -> None:
    handle = start_run(replace(request_, model=write_sliding_window_model(tmp_path / "bad.gguf", "{% for %}")))
    failed = follow(handle)[-1]
    assert isinstance(failed, RunFailed) and "mistake in line 1" in failed.message and failed.hint
    assert not handle.path.exists()


def test_a_model_cut_short_is_a_sentence_and_what_the_file_held_before_stays(request_: RunRequest) -> None:
    handle = start_run(request_)
    follow(handle)
    before = ids_of(handle.path)
    assert request_.model is not None
    os.truncate(request_.model, 500_000)
    failed = follow(start_run(request_))[-1]
    assert isinstance(failed, RunFailed) and "cut short" in failed.message and failed.hint
    assert ids_of(handle.path) == before


def test_a_run_does_not_go_on_with_another_model_of_the_same_name(request_: RunRequest) -> None:
    handle = start_run(request_)
    follow(handle, lambda event: handle.stop() if isinstance(event, StepsTaken) else None)
    assert request_.model is not None
    write_sliding_window_model(request_.model, "{{ messages[0].content }}")
    failed = follow(resume_run(handle.path, 1))[-1]
    assert isinstance(failed, RunFailed) and "model changed" in failed.message and "new run" in failed.hint


def test_both_paths_run_again_give_the_same_bits_and_another_model_is_refused(request_: RunRequest) -> None:
    handle = start_run(replace(request_, max_tokens=40))
    follow(handle)
    _, pair = pairs_of(handle.path)
    with closing(Session.open(handle.path)) as session:
        again = [event.identical for event in follow(run_again(session, pair, 1)) if isinstance(event, Again)]
        assert again == [None, True, None, True]
        assert request_.model is not None
        write_sliding_window_model(request_.model, "{{ messages[0].content }}")
        failed = follow(run_again(session, pair, 1))[-1]
    assert isinstance(failed, RunFailed) and "not the one that was recorded" in failed.message


def test_a_prompt_longer_than_the_context_is_an_outcome_and_the_next_episode_runs(request_: RunRequest) -> None:
    long = request_.imported
    assert long is not None
    bodies = [{"messages": [{"role": "user", "content": text}]} for text in ("word " * 200, "short")]
    long.write_text("\n".join(map(json.dumps, bodies)))
    handle = start_run(replace(request_, settings=replace(SETTINGS, n_ctx=256)))
    events = follow(handle)
    assert events[-1] == RunEnded(1, "complete")
    outcomes = [event.outcome for event in events if isinstance(event, TrajectoryFinished)]
    assert [outcome.kind for outcome in outcomes] == ["overflow", "overflow", "none", "none"]
    assert "n_ctx" in outcomes[0].detail
    first, second = pairs_of(handle.path)
    assert not first.comparison.valid and "the context holds 256" in first.verdict.headline
    assert second.cached.requests[0].report is not None


def test_a_window_rewound_beyond_its_start_is_noted_and_the_paths_stay_proven(request_: RunRequest) -> None:
    handle = start_run(replace(request_, settings=replace(SETTINGS, n_ubatch=32, swa_full=False), max_tokens=64))
    assert follow(handle)[-1] == RunEnded(1, "complete")
    _, second = pairs_of(handle.path)
    report = second.cached.requests[0].report
    assert report is not None and report.cached_tokens == 0
    assert report.note and "cannot go back" in report.note
    assert second.comparison.valid


def test_a_sliding_window_run_that_was_stopped_goes_on_with_its_whole_history(
    request_: RunRequest, tmp_path: FilePath
) -> None:
    """llama.cpp saves the last window only, also of a cache that holds everything: the state is filled anew."""
    request_ = replace(request_, max_tokens=64)
    handle = start_run(request_)
    follow(handle, lambda event: handle.stop() if isinstance(event, TrajectoryFinished) else None)
    assert follow(resume_run(handle.path, 1))[-1] == RunEnded(1, "complete")
    whole = start_run(replace(request_, out=tmp_path / "whole.forkpoint"))
    follow(whole)
    for resumed, unbroken in zip(pairs_of(handle.path), pairs_of(whole.path), strict=True):
        for ours, theirs in zip(resumed.cached.requests, unbroken.cached.requests, strict=True):
            assert ours.report is not None and theirs.report is not None
            assert ours.report.cached_tokens == theirs.report.cached_tokens
            assert ours.steps.rival_logprobs.tobytes() == theirs.steps.rival_logprobs.tobytes()


def test_half_characters_and_answers_without_an_end_are_recorded_as_they_are(request_: RunRequest) -> None:
    handle = start_run(request_)
    follow(handle)
    for pair in pairs_of(handle.path):
        for request in pair.cached.requests:
            assert request.report is not None and request.report.finish_reason == "length"
            assert len(request.steps) == request_.max_tokens
    with closing(sqlite3.connect(handle.path)) as connection:
        pieces = [piece for (piece,) in connection.execute("SELECT piece FROM pieces")]
    assert any(not _is_text(piece) for piece in pieces)


def test_an_id_beyond_the_tokenizer_in_an_import_is_an_outcome(request_: RunRequest) -> None:
    assert request_.imported is not None
    request_.imported.write_text('{"prompt": [1, 5, 99999]}')
    handle = start_run(request_)
    assert follow(handle)[-1] == RunEnded(1, "complete")
    (pair,) = pairs_of(handle.path)
    assert "99999" in pair.cached.outcome.detail
    assert not pair.comparison.valid


def test_an_import_with_an_unknown_role_is_a_sentence_before_anything_is_loaded(request_: RunRequest) -> None:
    assert request_.imported is not None and request_.out is not None
    request_.imported.write_text('[{"role": "wizard", "content": "x"}]')
    with pytest.raises(WorkloadError, match="unknown role “wizard”") as refused:
        start_run(request_)
    assert refused.value.hint
    assert not request_.out.exists()


def test_a_stop_while_the_model_loads_is_heard_and_leaves_no_file(request_: RunRequest) -> None:
    handle = start_run(request_)
    handle.stop()
    events = follow(handle)
    assert isinstance(events[-1], RunFailed) and "stopped while it loaded" in events[-1].message
    assert not any(isinstance(event, RunStarted) for event in events)
    assert not handle.path.exists()
    assert threading.active_count() < 10


def _is_text(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
