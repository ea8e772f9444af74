from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from app.errors import StoreError
from app.store import schema
from app.store.lock import WriterLock
from app.store.marks import read_marks, write_mark
from tests.builders import forked_pair_of_trajectories
from tests.unit.store.recordings import add_pass, open_request, reading, record, recording


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.forkpoint"
    with recording(path) as recorder:
        record(recorder, add_pass(recorder)[1], forked_pair_of_trajectories()[0])
    return path


@pytest.fixture
def older(file: Path) -> Path:
    """The file as the first version made it."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "DROP TABLE marks; PRAGMA user_version = 1; DELETE FROM _sqlite_migrations WHERE name = '0002_marks'"
        )
    return file


def test_a_mark_and_its_note_stay_in_the_file(file: Path) -> None:
    assert read_marks(file, 1) == {}
    write_mark(file, 1, "made-00", "forks near a “tie”\n")
    write_mark(file, 1, "made-01", "")
    write_mark(file, 1, "made-00", "forks for good")
    assert read_marks(file, 1) == {"made-00": "forks for good", "made-01": ""}
    assert read_marks(file, 2) == {}
    write_mark(file, 1, "made-00", None)
    write_mark(file, 1, "made-00", None)
    assert read_marks(file, 1) == {"made-01": ""}


def test_a_pair_of_no_experiment_cannot_be_marked(file: Path) -> None:
    with pytest.raises(StoreError, match="no experiment 7"):
        write_mark(file, 7, "made-00", "")


def test_pairs_are_marked_while_a_run_writes_the_file(file: Path) -> None:
    with recording(file) as recorder:
        experiment_id, pass_id = add_pass(recorder)
        open_request(recorder, pass_id)
        write_mark(file, experiment_id, "made-00", "while it runs")
        recorder.put_derived(experiment_id, "noise", {"steps": 1})
        assert read_marks(file, experiment_id) == {"made-00": "while it runs"}


def test_a_mark_waits_for_the_run_s_own_transaction(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        threading.Timer(0.2, lambda: busy.execute("COMMIT")).start()
        write_mark(file, 1, "made-00", "later")
    assert read_marks(file, 1) == {"made-00": "later"}


def test_an_older_file_has_no_marks_and_is_migrated_by_the_first_one(older: Path) -> None:
    before = older.read_bytes()
    assert read_marks(older, 1) == {}
    assert older.read_bytes() == before
    write_mark(older, 1, "made-00", "new")
    assert read_marks(older, 1) == {"made-00": "new"}
    assert older.with_name(f"{older.name}.before-v{schema.schema_version()}").exists()
    with reading(older) as reader:
        assert reader.trajectory(1).step_count == 120


def test_an_older_file_that_is_being_written_is_left_alone(older: Path) -> None:
    before = older.read_bytes()
    with closing(WriterLock(older)), pytest.raises(StoreError, match="older than marks"):
        write_mark(older, 1, "made-00", "")
    assert older.read_bytes() == before
