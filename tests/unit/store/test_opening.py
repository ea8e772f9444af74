from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path as FilePath
from shutil import copy

import pytest

from app.errors import StoreError
from app.store import schema
from app.store.reader import Reader
from app.store.recorder import Recorder
from app.trajectory.step import as_ids
from tests.builders import forked_pair_of_trajectories, step
from tests.unit.store.recordings import add_pass, content, open_request, reading, record, recording

SECOND = schema.Migration(
    "0002_mood", "Made up for a test.", "ALTER TABLE experiments ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm';"
)


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    """A closed file with one trajectory, id 1."""
    path = tmp_path / "a.forkpoint"
    with recording(path) as recorder:
        record(recorder, add_pass(recorder)[1], forked_pair_of_trajectories()[0])
    return path


def edit(file: FilePath, script: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)


def test_the_file_type_is_recognisable(file: FilePath) -> None:
    assert file.read_bytes()[:16] == b"SQLite format 3\0"
    assert file.read_bytes()[68:72] == b"Fkpt"


@pytest.mark.parametrize("opener", [Reader, Recorder])
def test_a_newer_file_is_refused_and_left_alone(file: FilePath, opener: type[Reader | Recorder]) -> None:
    edit(file, f"PRAGMA user_version = {schema.schema_version() + 1}")
    before = file.read_bytes()
    with pytest.raises(StoreError, match="written by a newer Forkpoint"):
        opener(file)
    assert file.read_bytes() == before


def test_an_older_file_is_copied_and_then_migrated(file: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, SECOND])
    with recording(file) as recorder:
        recorder.add_experiment("newer", {}, {})
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT mood FROM experiments").fetchall() == [("calm",), ("calm",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.schema_version(),)
    kept = file.with_name(f"a.forkpoint.before-v{schema.schema_version()}")
    monkeypatch.undo()
    assert len(kept.read_bytes()) == len(before)
    with reading(kept) as reader:
        assert content(reader.trajectory(1)) == content(forked_pair_of_trajectories()[0])
    with pytest.raises(StoreError, match="newer"):
        Reader(file)


def test_an_older_file_is_read_without_being_touched(file: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    before = file.read_bytes()
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, SECOND])
    with reading(file) as reader:
        assert content(reader.trajectory(1)) == content(forked_pair_of_trajectories()[0])
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_migration_that_fails_leaves_the_file_as_it_was(file: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = schema.Migration("0002_broken", "Made up.", SECOND.script + "\nINSERT INTO nowhere VALUES (1);")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, broken])
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            Recorder(file)
    with reading(file) as reader:
        assert reader.trajectory(1).step_count == 120


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON pieces BEGIN DELETE FROM requests; END", "trigger 't' is not one of ours"),
        ("CREATE VIEW v AS SELECT 1", "view 'v' is not one of ours"),
        ("CREATE TABLE extra (x)", "table 'extra' is not one of ours"),
        (
            "CREATE TRIGGER _sqlite_t AFTER INSERT ON _sqlite_migrations BEGIN SELECT 1; END",
            "trigger '_sqlite_t' is not",
        ),
        ("DROP TABLE derived", "table 'derived' is missing"),
        ("ALTER TABLE pieces ADD COLUMN x TEXT DEFAULT 'y'", "table 'pieces' was changed"),
        ("DROP TABLE derived; CREATE VIEW derived AS SELECT 1 AS experiment_id", "'derived' was changed"),
        ("PRAGMA application_id = 7", "no Forkpoint file"),
    ],
)
@pytest.mark.parametrize("opener", [Reader, Recorder])
def test_tables_that_are_not_ours_are_refused(
    file: FilePath, change: str, sentence: str, opener: type[Reader | Recorder]
) -> None:
    edit(file, change)
    with pytest.raises(StoreError, match=sentence):
        opener(file)


@pytest.mark.parametrize("opener", [Reader, Recorder])
@pytest.mark.parametrize("content", [b"not a database " * 100, b"x", b"GGUF" + bytes(5000)])
def test_a_file_of_another_kind_is_a_sentence(
    tmp_path: FilePath, content: bytes, opener: type[Reader | Recorder]
) -> None:
    other = tmp_path / "other.forkpoint"
    other.write_bytes(content)
    with pytest.raises(StoreError, match="no Forkpoint file"):
        opener(other)
    assert other.read_bytes() == content


def test_an_empty_file_is_a_sentence_to_a_reader_and_a_new_file_to_a_recorder(tmp_path: FilePath) -> None:
    empty = tmp_path / "empty.forkpoint"
    empty.touch()
    with pytest.raises(StoreError, match="no Forkpoint file"):
        Reader(empty)
    with recording(empty), reading(empty) as reader:
        assert reader.experiments() == []


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.97])
def test_a_file_cut_short_is_a_sentence(file: FilePath, share: float) -> None:
    os.truncate(file, int(file.stat().st_size * share))
    with pytest.raises(StoreError, match=r"cut short|no Forkpoint file"):
        Reader(file)
    with pytest.raises(StoreError, match=r"cut short|no Forkpoint file"):
        Recorder(file)


def test_damage_in_the_middle_is_a_sentence(file: FilePath) -> None:
    data = bytearray(file.read_bytes())
    data[8192:] = os.urandom(len(data) - 8192)
    file.write_bytes(data)
    with pytest.raises(StoreError, match="cut short"), reading(file) as reader:
        reader.trajectory(1)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_bytes_are_damaged_reading_ends_in_a_value_or_a_sentence(file: FilePath, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(file.read_bytes())
    for _ in range(rng.choice([1, 10, 300])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    file.write_bytes(data)
    try:
        with reading(file) as reader:
            for experiment in reader.experiments():
                reader.pieces(experiment.id)
                for info in reader.passes(experiment.id):
                    reader.snapshot(info.id)
                    for trajectory_id in reader.trajectory_ids(info.id).values():
                        content(reader.trajectory(trajectory_id))
    except StoreError as error:
        assert error.message


def test_a_missing_file_and_a_folder_are_sentences(tmp_path: FilePath) -> None:
    with pytest.raises(StoreError, match="There is no file"):
        Reader(tmp_path / "none.forkpoint")
    with pytest.raises(StoreError, match="There is no file"):
        Reader(tmp_path)
    with pytest.raises(StoreError, match="cannot be written"):
        Recorder(tmp_path / "no folder" / "a.forkpoint")


def test_a_read_only_folder_opens_for_reading(
    file: FilePath, public_folder: FilePath, request: pytest.FixtureRequest
) -> None:
    there = FilePath(copy(file, public_folder))
    there.chmod(0o444)
    public_folder.chmod(0o555)
    request.getfixturevalue("no_rights")
    with reading(there) as reader:
        assert content(reader.trajectory(1)) == content(forked_pair_of_trajectories()[0])
    with pytest.raises(StoreError, match="cannot be written"):
        Recorder(there)


def test_a_read_only_file_opens_for_reading(
    file: FilePath, public_folder: FilePath, request: pytest.FixtureRequest
) -> None:
    there = FilePath(copy(file, public_folder))
    there.chmod(0o444)
    public_folder.chmod(0o777)
    request.getfixturevalue("no_rights")
    with reading(there) as reader:
        assert reader.trajectory(1).step_count == 120
    with pytest.raises(StoreError, match="read-only"):
        Recorder(there)


def test_an_unclosed_file_in_a_read_only_folder_is_a_sentence(
    file: FilePath, public_folder: FilePath, request: pytest.FixtureRequest
) -> None:
    with recording(file) as recorder:
        recorder.append(open_request(recorder, 1), 0, [step(5)])
        there = FilePath(copy(file, public_folder))
        log = FilePath(copy(f"{file}-wal", public_folder))
    there.chmod(0o444)
    log.chmod(0o444)
    public_folder.chmod(0o555)
    request.getfixturevalue("no_rights")
    with pytest.raises(StoreError, match="not closed properly"):
        Reader(there)


def test_what_a_dead_writer_left_in_its_log_is_read(file: FilePath, tmp_path: FilePath) -> None:
    (tmp_path / "left").mkdir()
    with recording(file) as recorder:
        recorder.append(open_request(recorder, 1), 0, [step(5), step(6)])
        there = FilePath(copy(file, tmp_path / "left"))
        copy(f"{file}-wal", tmp_path / "left")
    with reading(there) as reader:
        assert reader.trajectory(2).requests[0].steps.token_ids.tolist() == [5, 6]
    assert list(there.parent.iterdir()) == [there]


def test_a_reader_cannot_change_the_file(file: FilePath) -> None:
    with reading(file) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._connection.execute("DELETE FROM requests")


def test_a_new_file_gives_space_back_and_uses_a_log(tmp_path: FilePath) -> None:
    with recording(tmp_path / "a.forkpoint") as recorder:
        recorder.save_snapshot(add_pass(recorder)[1], as_ids([1]), b"", {}, 0)
        with closing(sqlite3.connect(tmp_path / "a.forkpoint")) as connection:
            assert connection.execute("PRAGMA auto_vacuum").fetchone() == (schema.schema_version(),)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
