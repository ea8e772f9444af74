"""A file opened through the session: by two at once, read-only, from a newer version, half written."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path as FilePath
from shutil import copy

import pytest

from app.engine.scripted import ScriptedEngine
from app.errors import SettingsError, StoreError
from app.experiment.plans import RunRequest
from app.session import Sampling, Session, resume_run, start_run
from app.store.recorder import Recorder
from app.trajectory.events import RunFailed
from app.trajectory.report import pair_report
from app.trajectory.trajectory import Path, Status
from tests.unit.experiment.test_resume import StopAt
from tests.unit.experiment.test_runner import Run, forking

DIE = """
import os, signal, sys
from pathlib import Path
from app.store.recorder import Recorder
recorder = Recorder(Path(sys.argv[1]))
recorder.add_experiment("left running", {"episode_ids": [], "filler": "x" * 100_000}, {})
os.kill(os.getpid(), signal.SIGKILL)
"""

OPEN_ON_A_FULL_DISK = """
import resource, sys
from app.session import Session
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))  # SQLite's index of the log fits, the log is full
session = Session.open(sys.argv[1])
print(len(session.experiments()), session.notice)
"""


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    """Three planned episodes; the first is compared, the second stopped in its recompute path."""
    path = tmp_path / "run.forkpoint"
    request = RunRequest(episodes="0-2", repeat=1)
    Run(path, ScriptedEngine(forking), request, watch=StopAt("units-01", Path.RECOMPUTE))
    return path


def python(code: str, file: FilePath) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False)


def test_a_file_that_is_being_written_opens_for_reading_and_takes_no_second_run(file: FilePath) -> None:
    with closing(Recorder(file)), closing(Session.open(file)) as session:
        assert session.read_only and "being written by another" in session.notice
        assert session.pair(1, "files-00").comparison.fork is not None
        for handle in (start_run(RunRequest(episodes="0", out=file)), resume_run(file, 1)):
            assert handle.join(60)
            failed = handle.inbox[-1]
            assert isinstance(failed, RunFailed)
            assert "being written by another" in failed.message and "reading" in failed.hint
        assert [info.id for info in session.experiments()] == [1]


def test_a_read_only_file_opens_for_reading_and_takes_no_run(
    file: FilePath, public_folder: FilePath, request: pytest.FixtureRequest
) -> None:
    there = FilePath(copy(file, public_folder))
    there.chmod(0o444)
    public_folder.chmod(0o555)
    request.getfixturevalue("no_rights")
    with closing(Session.open(there)) as session:
        assert session.notice in ("run.forkpoint is read-only.", "run.forkpoint cannot be written.")
        assert [row.diverged for row in session.rows(1)] == [True, None, None]
        handle = start_run(RunRequest(episodes="0", out=there))
        assert handle.join(60)
        failed = handle.inbox[-1]
        assert isinstance(failed, RunFailed) and "cannot be written" in failed.message and failed.hint


def test_a_newer_file_is_a_sentence_and_left_alone(file: FilePath) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 999")
    before = file.read_bytes()
    with pytest.raises(StoreError, match="written by a newer Forkpoint") as refused:
        Session.open(file)
    assert refused.value.hint
    handle = start_run(RunRequest(episodes="0", out=file))
    assert handle.join(60)
    assert isinstance(handle.inbox[-1], RunFailed)
    assert file.read_bytes() == before


def test_what_a_killed_run_left_is_interrupted_when_it_is_opened(tmp_path: FilePath) -> None:
    file = tmp_path / "left.forkpoint"
    python(DIE, file)
    with closing(Session.open(file)) as session:
        assert session.experiment().status is Status.INTERRUPTED
        assert not session.read_only


def test_what_a_killed_run_left_opens_on_a_full_disk(tmp_path: FilePath) -> None:
    file = tmp_path / "left.forkpoint"
    python(DIE, file)
    done = python(OPEN_ON_A_FULL_DISK, file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 left.forkpoint cannot be written")


def test_an_unfinished_pair_is_neither_forked_nor_valid(file: FilePath) -> None:
    with closing(Session.open(file)) as session:
        report = pair_report(session.pair(1, "units-01"))
        rows = session.rows(1)
    assert (report["diverged"], report["valid"], report["code"]) == (None, None, "open")
    assert [(row.diverged, row.valid) for row in rows] == [(True, True), (None, None), (None, None)]


@pytest.mark.parametrize(("episode_id", "repeat"), [("calendar-02", 1), ("files-00", 2), ("none", 1), ("files-00", 0)])
def test_a_pair_that_is_not_there_is_a_sentence(file: FilePath, episode_id: str, repeat: int) -> None:
    with closing(Session.open(file)) as session, pytest.raises(StoreError, match="does not hold"):
        session.pair(1, episode_id, repeat)


def test_a_run_that_is_complete_does_not_go_on(tmp_path: FilePath) -> None:
    file = tmp_path / "whole.forkpoint"
    Run(file, ScriptedEngine(), RunRequest(episodes="0", repeat=1))
    with pytest.raises(StoreError, match="complete") as refused:
        resume_run(file, 1)
    assert refused.value.hint


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=-0.1),
        Sampling(temperature=float("nan")),
        Sampling(top_k=-1),
        Sampling(top_p=1.5),
        Sampling(seed=-1),
        Sampling(seed=2**32 - 1),
    ],
)
def test_sampling_that_llama_cpp_would_take_for_something_else_is_refused(sampling: Sampling) -> None:
    with pytest.raises(SettingsError, match="is") as refused:
        RunRequest(sampling=sampling)
    assert "It must be" in refused.value.hint
