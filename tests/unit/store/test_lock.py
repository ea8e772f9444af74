from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest

from app.store.lock import FileInUse, why_read_only
from app.store.recorder import Recorder
from tests.unit.store.recordings import reading, recording

HOLD = """
import sys
from pathlib import Path
from app.store.recorder import Recorder
recorder = Recorder(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path: FilePath) -> FilePath:
    return tmp_path / "a.forkpoint"


@pytest.fixture
def holder(file: FilePath) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes the file."""
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_writer_in_the_same_process_is_refused(file: FilePath) -> None:
    with recording(file) as first:
        with pytest.raises(FileInUse, match="another Forkpoint window"):
            Recorder(file)
        first.add_experiment("goes on", {}, {})
    with recording(file), reading(file) as reader:
        assert len(reader.experiments()) == 1


def test_a_link_to_the_file_is_the_same_file(file: FilePath) -> None:
    with recording(file):
        link = file.with_name("link.forkpoint")
        link.symlink_to(file)
        with pytest.raises(FileInUse):
            Recorder(link)


def test_a_second_process_can_read_and_not_write(file: FilePath, holder: subprocess.Popen[str]) -> None:
    assert holder.poll() is None
    with pytest.raises(FileInUse):
        Recorder(file)
    assert "another Forkpoint window" in why_read_only(file)
    with reading(file) as reader:
        assert reader.experiments() == []


def test_a_killed_writer_holds_nothing(file: FilePath, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    assert why_read_only(file) == ""
    with recording(file) as recorder:
        recorder.add_experiment("after", {}, {})
    assert [path.name for path in file.parent.iterdir()] == ["a.forkpoint"]


def test_closing_twice_does_not_take_the_lock_of_the_next_writer(file: FilePath) -> None:
    first = Recorder(file)
    first.close()
    with recording(file):
        first.close()
        with pytest.raises(FileInUse):
            Recorder(file)
