from __future__ import annotations

import sqlite3
from pathlib import Path as FilePath

import numpy as np
import pytest

from app.store.recorder import Recorder
from app.trajectory.episode import Outcome
from app.trajectory.step import as_ids
from app.trajectory.trajectory import Path, Prompt, RequestReport, Span, Status
from tests.builders import forked_pair_of_trajectories, step
from tests.unit.store.recordings import add_pass, open_request, reading, record, recording

REPORT = RequestReport(0, 3, (3,), "stop")


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    return tmp_path / "a.forkpoint"


def rows(file: FilePath, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_a_finished_request_is_one_row_of_blobs_that_numpy_reads(file: FilePath) -> None:
    with recording(file) as recorder:
        trajectory_id = open_request(recorder, add_pass(recorder)[1])
        for start in range(0, 150, 64):
            recorder.append(trajectory_id, 0, [step(id) for id in range(start, min(start + 64, 150))])
        assert rows(file, "SELECT length(token_ids) / 4 FROM open_steps ORDER BY id") == [(64,), (64,), (22,)]
        recorder.finish_request(trajectory_id, 0, REPORT, (), (), ())
    assert rows(file, "SELECT count(*) FROM open_steps") == [(0,)]
    [(ids, rivals, rival_ids)] = rows(file, "SELECT token_ids, rivals, rival_ids FROM requests")
    assert isinstance(ids, bytes) and isinstance(rival_ids, bytes)
    assert np.frombuffer(ids, "<i4").tolist() == list(range(150))
    assert rivals == 5
    assert np.frombuffer(rival_ids, "<i4").reshape(150, 5)[7].tolist() == [7, 8, 9, 10, 11]


def test_a_prompt_is_stored_as_what_is_new_since_the_previous_prompt_and_answer(file: FilePath) -> None:
    with recording(file) as recorder:
        trajectory_id = open_request(recorder, add_pass(recorder)[1])  # 1 2 3
        recorder.append(trajectory_id, 0, [step(9), step(9)])
        recorder.finish_request(trajectory_id, 0, REPORT, (), (), ())
        recorder.start_request(trajectory_id, 1, Prompt(as_ids([1, 2, 3, 9, 9, 4]), 1, ()))
    stored = rows(file, "SELECT shared_ids, new_ids FROM requests ORDER BY request_index")
    assert stored == [(0, as_ids([1, 2, 3]).tobytes()), (5, as_ids([4]).tobytes())]


def test_spans_are_stored_once_while_the_cache_keeps_them(file: FilePath) -> None:
    spans = [Span(n, 1, "prefill", f"made-00 r{n + 1}", 1) for n in range(3)]
    with recording(file) as recorder:
        trajectory_id = open_request(recorder, add_pass(recorder)[1])
        recorder.finish_request(trajectory_id, 0, REPORT, (), (), spans[:2])
        recorder.start_request(trajectory_id, 1, Prompt(as_ids([1, 2, 3, 4]), 1, ()))
        recorder.finish_request(trajectory_id, 1, REPORT, (), (), spans)
        recorder.start_request(trajectory_id, 2, Prompt(as_ids([1, 2, 3, 4]), 2, ()))
        recorder.finish_request(trajectory_id, 2, REPORT, (), (), [spans[0], Span(1, 3, "prefill", "made-00 r3", 3)])
    with reading(file) as reader:
        found = [tuple(request.spans) for request in reader.trajectory(trajectory_id).requests]
    assert found == [tuple(spans[:2]), tuple(spans), (spans[0], Span(1, 3, "prefill", "made-00 r3", 3))]
    assert rows(file, "SELECT shared_spans FROM requests ORDER BY request_index") == [(0,), (2,), (1,)]


def test_steps_for_a_request_that_is_not_open_are_a_bug(file: FilePath) -> None:
    with recording(file) as recorder:
        trajectory_id = open_request(recorder, add_pass(recorder)[1])
        with pytest.raises(ValueError, match="request 1 of trajectory 1 is not open"):
            recorder.append(trajectory_id, 1, [step(5)])
        recorder.finish_request(trajectory_id, 0, REPORT, (), (), ())
        with pytest.raises(ValueError, match="request 0 of trajectory 1 is not open"):
            recorder.append(trajectory_id, 0, [step(5)])


def test_closing_leaves_one_file_even_after_a_reader_that_stays_longer(file: FilePath) -> None:
    recorder = Recorder(file)
    record(recorder, add_pass(recorder)[1], forked_pair_of_trajectories()[0])
    with reading(file) as reader:
        reader.experiments()
        recorder.close()
        recorder.close()
        assert rows(file, "SELECT count(*) FROM requests") == [(4,)]
    assert [path.name for path in file.parent.iterdir()] == ["a.forkpoint"]


def test_a_new_file_without_an_experiment_can_be_left_out(tmp_path: FilePath) -> None:
    new, kept = tmp_path / "new.forkpoint", tmp_path / "kept.forkpoint"
    Recorder(new).close(keep_empty=False)
    assert list(tmp_path.iterdir()) == []
    for path in (new, kept):
        Recorder(path).close()
    Recorder(kept).close(keep_empty=False)  # this one did not make it
    with recording(new) as recorder:
        add_pass(recorder)
        recorder.close(keep_empty=False)
    assert new.exists() and kept.exists()


def test_a_dropped_snapshot_gives_its_space_back(file: FilePath) -> None:
    data = np.random.default_rng(1).bytes(3_000_000)
    with recording(file) as recorder:
        pass_id = add_pass(recorder)[1]
        recorder.save_snapshot(pass_id, as_ids([1, 2]), b"older", {"n": 1}, 3)
        recorder.save_snapshot(pass_id, as_ids([1, 2, 3]), data, {"n": 2}, 4)
        with reading(file) as reader:
            kept = reader.snapshot(pass_id)
            assert kept is not None
            assert (kept.ids.tolist(), kept.data, kept.meta, kept.episodes_done) == ([1, 2, 3], data, {"n": 2}, 4)
    assert file.stat().st_size > 3_000_000
    with recording(file) as recorder:
        recorder.drop_snapshot(pass_id)
    assert file.stat().st_size < 200_000
    with reading(file) as reader:
        assert reader.snapshot(pass_id) is None


def test_what_a_dead_process_left_running_becomes_interrupted(file: FilePath) -> None:
    with recording(file) as recorder:
        done, _ = add_pass(recorder)
        recorder.finish_experiment(done, Status.DONE)
        recorder.finish_pass(1, Status.DONE, True, ())
        experiment_id, pass_id = add_pass(recorder)
        finished = open_request(recorder, pass_id)
        recorder.finish_trajectory(finished, Status.DONE, Outcome("reached"))
        recorder.append(trajectory_id := open_request(recorder, pass_id), 0, [step(5)])
    with recording(file) as recorder, reading(file) as reader:
        assert recorder.interrupt_running() == 1
        assert [info.status for info in reader.experiments()] == [Status.INTERRUPTED, Status.DONE]
        assert [info.status for info in reader.passes(experiment_id)] == [Status.INTERRUPTED]
        assert reader.trajectory(finished).status is Status.DONE
        assert reader.trajectory(trajectory_id).status is Status.INTERRUPTED
        assert reader.trajectory(trajectory_id).requests[0].steps.token_ids.tolist() == [5]
        assert recorder.interrupt_running() == 0


def test_a_pass_that_is_resumed_is_running_again_and_unjudged(file: FilePath) -> None:
    with recording(file) as recorder, reading(file) as reader:
        experiment_id, pass_id = add_pass(recorder)
        recorder.finish_pass(pass_id, Status.INTERRUPTED, False, ["An episode is missing."])
        recorder.finish_experiment(experiment_id, Status.INTERRUPTED)
        [before] = reader.passes(experiment_id)
        assert (before.valid, before.invalid_reasons) == (False, ("An episode is missing.",))
        recorder.resume_pass(pass_id)
        [info] = reader.passes(experiment_id)
        assert (info.status, info.valid, info.invalid_reasons) == (Status.RUNNING, None, ())
        assert reader.experiments()[0].status is Status.RUNNING


def test_equal_environments_are_stored_once(file: FilePath) -> None:
    with recording(file) as recorder:
        for path in Path:
            add_pass(recorder, path)
    assert rows(file, "SELECT count(*) FROM environments") == [(1,)]
