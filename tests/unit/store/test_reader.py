from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path as FilePath

import numpy as np
import pytest

from app.errors import StoreError
from app.trajectory.episode import Outcome, ToolCall, ToolResult
from app.trajectory.provenance import KvLedger
from app.trajectory.step import Step
from app.trajectory.trajectory import Path, RequestReport, Status
from tests.builders import forked_pair_of_trajectories, request, step, trajectory
from tests.unit.store.recordings import add_pass, content, open_request, reading, record, recording


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    return tmp_path / "a.forkpoint"


@pytest.mark.parametrize("steps_each", [30, 64, 130])
def test_a_recorded_trajectory_is_read_back_bit_for_bit(file: FilePath, steps_each: int) -> None:
    made, _ = forked_pair_of_trajectories(steps_each=steps_each)
    with recording(file) as recorder:
        trajectory_id = record(recorder, add_pass(recorder)[1], made)
        with reading(file) as reader:
            assert content(reader.trajectory(trajectory_id)) == content(made)
    with reading(file) as reader:  # the log is written back by now
        assert content(reader.trajectory(trajectory_id)) == content(made)


def test_everything_unusual_in_a_request_is_read_back(file: FilePath) -> None:
    steps = [
        Step(7, None, b"\xc3", ()),
        Step(8, float("-inf"), b"\xa9", step(8, k=2).rivals),
        Step(2_000_000_000, -0.25, b"", step(9, k=7).rivals),
    ]
    odd = dataclasses.replace(
        request(0, [5, 6], steps),
        report=RequestReport(
            None,
            None,
            (),
            "length",
            None,
            3,
            None,
            1.5,
            None,
            {"n_eval": 2},
            "counts differ",
            "a note",
            "{}",
            "[1]\x00",
        ),
        calls=(
            ToolCall("", None, "\ud83d no call", "The call is no JSON."),
            ToolCall("f", {"a": [None, 1.5, {"b": "é\ud83d"}]}, "x"),
        ),
        results=(ToolResult("f", "Größe\n\x00", False),),
        spans=(),
    )
    made = trajectory([odd], outcome=Outcome("error", "half a character: \ud83d"))
    with recording(file) as recorder:
        trajectory_id = record(recorder, add_pass(recorder)[1], made)
    with reading(file) as reader:
        found = reader.trajectory(trajectory_id)
    assert found.outcome.detail == "half a character: \\ud83d"
    assert content(dataclasses.replace(found, outcome=made.outcome)) == content(made)


def test_a_request_without_steps_keeps_its_report(file: FilePath) -> None:
    made = trajectory([request(0, [1, 2, 3], [], finish_reason="cancelled")])
    with recording(file) as recorder:
        trajectory_id = record(recorder, add_pass(recorder)[1], made)
    with reading(file) as reader:
        found = reader.trajectory(trajectory_id).requests[0]
    assert len(found.steps) == 0
    assert found.report == made.requests[0].report


def test_steps_of_an_open_request_are_readable_while_it_runs(file: FilePath) -> None:
    with recording(file) as recorder:
        trajectory_id = open_request(recorder, add_pass(recorder)[1])
        recorder.append(trajectory_id, 0, [step(5), step(6)])
        recorder.append(trajectory_id, 0, [step(7, k=3)])
        with reading(file) as reader:
            found = reader.trajectory(trajectory_id)
    assert found.status is Status.RUNNING
    assert found.requests[0].report is None
    assert found.requests[0].steps.token_ids.tolist() == [5, 6, 7]
    assert found.requests[0].steps.rival_ids[2].tolist() == [7, 8, 9, -1, -1]
    assert np.isnan(found.requests[0].steps.rival_logprobs[2, 3:]).all()
    assert [found.requests[0].steps.piece(i) for i in range(3)] == [step(i).piece for i in (5, 6, 7)]


def test_prompts_that_rewrite_history_are_rebuilt(file: FilePath) -> None:
    prompts: tuple[list[int], ...] = ([1, 2, 3], [1, 2, 3, 9, 4], [1, 7, 8], [], [5, 6], [5, 6, 9, 9, 10])
    made = trajectory([request(index, ids, [step(9), step(9)]) for index, ids in enumerate(prompts)])
    with recording(file) as recorder:
        trajectory_id = record(recorder, add_pass(recorder)[1], made)
    with reading(file) as reader:
        assert [r.prompt.ids.tolist() for r in reader.trajectory(trajectory_id).requests] == list(prompts)


def test_prompts_that_continue_each_other_share_their_memory(file: FilePath) -> None:
    made = trajectory([request(0, [1, 2], [step(9)]), request(1, [1, 2, 9, 4], [step(9)])])
    with recording(file) as recorder:
        trajectory_id = record(recorder, add_pass(recorder)[1], made)
    with reading(file) as reader:
        first, second = (r.prompt.ids for r in reader.trajectory(trajectory_id).requests)
    assert np.shares_memory(first, second)


def test_the_newest_pass_comes_first_and_the_newest_trajectory_counts(file: FilePath) -> None:
    made, _ = forked_pair_of_trajectories(requests=1)
    with recording(file) as recorder:
        experiment_id, older = add_pass(recorder)
        record(recorder, older, made)
        again = record(recorder, older, made)
        newer = recorder.add_pass(experiment_id, Path.CACHED, 1, ["made-00"], {})
    with reading(file) as reader:
        assert [info.id for info in reader.passes(experiment_id)] == [newer, older]
        assert reader.trajectory_ids(older) == {"made-00": again}
        assert reader.entries(older)["made-00"].outcome == made.outcome
        assert reader.trajectory_ids(newer) == {}


def test_experiments_come_newest_first_with_what_was_sealed(file: FilePath) -> None:
    with recording(file) as recorder:
        first = recorder.add_experiment("first", {"a": 1}, {"cpu": "x"})
        second = recorder.add_experiment("second", {"b": [float("nan")]}, {"cpu": "x"})
        recorder.finish_experiment(first, Status.DONE)
    with reading(file) as reader:
        newest, oldest = reader.experiments()
    assert (newest.id, newest.title, newest.status, newest.plan) == (second, "second", Status.RUNNING, {"b": ["NaN"]})
    assert (oldest.id, oldest.status, oldest.environment) == (first, Status.DONE, {"cpu": "x"})
    assert newest.created >= oldest.created
    assert newest.created.endswith("+00:00")


def test_an_environment_that_was_changed_after_the_run_is_noticed(file: FilePath) -> None:
    with recording(file) as recorder:
        recorder.add_experiment("first", {}, {"cpu": "x"})
    with sqlite3.connect(file) as edited:
        edited.execute("UPDATE environments SET body = ?", (json.dumps({"cpu": "a faster one"}),))
    edited.close()
    with reading(file) as reader, pytest.raises(StoreError, match="environment record was changed"):
        reader.experiments()


def test_the_bytes_of_every_mentioned_token_are_kept(file: FilePath) -> None:
    with recording(file) as recorder:
        experiment_id, pass_id = add_pass(recorder)
        recorder.append(open_request(recorder, pass_id), 0, [step(5), step(5)])
    with recording(file) as recorder:  # a later writer knows them too
        recorder.append(open_request(recorder, pass_id), 0, [step(5), step(6)])
    with reading(file) as reader:
        assert reader.pieces(experiment_id) == {id: step(id).piece for id in range(5, 11)}


def test_pieces_written_meanwhile_are_seen(file: FilePath) -> None:
    with recording(file) as recorder:
        experiment_id, pass_id = add_pass(recorder)
        trajectory_id = open_request(recorder, pass_id)
        with reading(file) as reader:
            recorder.append(trajectory_id, 0, [step(5)])
            assert reader.pieces(experiment_id) is reader.pieces(experiment_id)
            recorder.append(trajectory_id, 0, [step(6)])
            assert reader.pieces(experiment_id).keys() == set(range(5, 11))


def test_spans_that_continue_each_other_are_read_in_any_order(file: FilePath) -> None:
    ledger, prompt, requests = KvLedger(), list(range(4)), []
    for index in range(8):
        cached = 0 if index == 5 else max(0, len(prompt) - 3)
        spans = ledger.take(f"a r{index + 1}", prompt, cached, (len(prompt) - cached,), [9, 9])
        requests.append(dataclasses.replace(request(index, prompt, [step(9), step(9)]), spans=spans))
        prompt = [*prompt, 9, 9, 7]
    with recording(file) as recorder:
        trajectory_id = record(recorder, add_pass(recorder)[1], trajectory(requests))
    with reading(file) as reader:
        for order in (range(8), reversed(range(8)), (6, 2, 7, 0)):
            found = reader.trajectory(trajectory_id).requests
            assert all(tuple(found[index].spans) == requests[index].spans for index in order)
    assert found[7].spans[0] == requests[7].spans[0]
    assert found[7].spans[1:] == requests[7].spans[1:]
    assert len(found[7].spans) == len(requests[7].spans)


def test_derived_values_are_replaced_and_absent_ones_are_none(file: FilePath) -> None:
    with recording(file) as recorder:
        experiment_id, _ = add_pass(recorder)
        recorder.put_derived(experiment_id, "noise", {"nats": None})
        recorder.put_derived(experiment_id, "noise", [1, 2.5, "x"])
    with reading(file) as reader:
        assert reader.derived(experiment_id, "noise") == [1, 2.5, "x"]
        assert reader.derived(experiment_id, "rows") is None


def test_the_size_counts_the_log_too(file: FilePath) -> None:
    made, _ = forked_pair_of_trajectories(requests=2, steps_each=10)
    with recording(file) as recorder:
        pass_id = add_pass(recorder)[1]
        record(recorder, pass_id, made)
        recorder.append(open_request(recorder, pass_id), 0, [step(5)])
        with reading(file) as reader:
            assert reader.size_bytes() > file.stat().st_size
    assert not list(file.parent.glob("*-wal"))


@pytest.mark.parametrize(
    ("damage", "values"),
    [
        ("UPDATE requests SET logprobs = zeroblob(8)", ()),
        ("UPDATE requests SET rival_ids = zeroblob(7)", ()),
        ("UPDATE requests SET piece_bytes = zeroblob(999999)", ()),
        ("UPDATE requests SET shared_ids = 999999 WHERE request_index = 1", ()),
        ("UPDATE requests SET calls = ?", ('[{"name": 5}]',)),
        ("UPDATE requests SET new_spans = ?", ("[], []",)),
        ("UPDATE requests SET chunks = '[1, true]'", ()),
        ("UPDATE requests SET chunks = '{}'", ()),
        ("UPDATE requests SET shared_spans = 7", ()),
        ("UPDATE requests SET shared_spans = -1", ()),
        ("UPDATE requests SET added = ?", ("[" * 100_000,)),
        ("UPDATE requests SET calls = NULL, checks = 'nothing'", ()),
        ("UPDATE trajectories SET status = 'somewhere'", ()),
        ("UPDATE trajectories SET outcome = 'unheard of'", ()),
        ("UPDATE trajectories SET episode_id = CAST(x'ff' AS TEXT)", ()),
        ("UPDATE passes SET path = 'shortcut'", ()),
        ("DELETE FROM trajectories", ()),
    ],
)
def test_nonsense_in_a_received_file_is_a_sentence(file: FilePath, damage: str, values: tuple[str, ...]) -> None:
    made, _ = forked_pair_of_trajectories(requests=2)
    with recording(file) as recorder:
        trajectory_id = record(recorder, add_pass(recorder)[1], made)
    edited = sqlite3.connect(file, isolation_level=None)
    edited.execute(damage, values)
    edited.close()
    with reading(file) as reader, pytest.raises(StoreError):
        content(reader.trajectory(trajectory_id))
