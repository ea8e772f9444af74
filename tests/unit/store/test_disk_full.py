from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path as FilePath

import pytest

from app.errors import StoreError
from app.trajectory.step import as_ids
from app.trajectory.trajectory import RequestReport
from tests.builders import step
from tests.unit.store.endless import BATCH
from tests.unit.store.recordings import add_pass, open_request, reading, recording


@pytest.mark.parametrize("most_bytes", [200_000, 999_999, 6_000_000])
def test_where_the_system_takes_no_more_bytes_there_is_a_sentence_and_the_steps_stay(
    tmp_path: FilePath, most_bytes: int
) -> None:
    file = tmp_path / "a.forkpoint"
    command = [sys.executable, "-m", "tests.unit.store.endless", str(file), str(most_bytes)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[-1].startswith("full ")
    assert "a.forkpoint cannot" in said[-1]
    assert "what was recorded until now is kept" in said[-1]
    taken = int(said[-2].split()[1])
    with reading(file) as reader:
        assert taken - BATCH <= reader.trajectory(1).step_count <= taken
        assert taken > BATCH
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_after_a_full_disk_the_recorder_goes_on_where_it_stopped(tmp_path: FilePath) -> None:
    file = tmp_path / "a.forkpoint"
    with recording(file) as recorder:
        _, pass_id = add_pass(recorder)
        trajectory_id = open_request(recorder, pass_id)
        recorder.append(trajectory_id, 0, [step(5)])
        (pages,) = recorder._connection.execute("PRAGMA page_count").fetchone()
        recorder._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match="The disk is full") as caught:
            recorder.append(trajectory_id, 0, [step(id) for id in range(2_000)])
        assert "Free some space" in caught.value.hint
        with pytest.raises(StoreError, match="The disk is full"):
            recorder.save_snapshot(pass_id, as_ids([1]), bytes(1_000_000), {}, 1)
        with reading(file) as reader:
            assert reader.trajectory(trajectory_id).requests[0].steps.token_ids.tolist() == [5]
        recorder._connection.execute(f"PRAGMA max_page_count = {pages + 1_000}")
        recorder.append(trajectory_id, 0, [step(6)])
        recorder.finish_request(trajectory_id, 0, RequestReport(0, 3, (3,), "stop"), (), (), ())
    with reading(file) as reader:
        assert reader.trajectory(trajectory_id).requests[0].steps.token_ids.tolist() == [5, 6]
        assert reader.pieces(1).keys() == set(range(5, 11))


def test_a_snapshot_that_sqlite_cannot_hold_is_a_sentence(tmp_path: FilePath) -> None:
    with recording(tmp_path / "a.forkpoint") as recorder:
        _, pass_id = add_pass(recorder)
        recorder._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)  # instead of a real 1 GB
        with pytest.raises(StoreError, match="too large"):
            recorder.save_snapshot(pass_id, as_ids([1]), bytes(1_000_001), {}, 1)
        with reading(tmp_path / "a.forkpoint") as reader:
            assert reader.snapshot(pass_id) is None
