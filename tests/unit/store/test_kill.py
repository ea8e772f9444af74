from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path as FilePath

import numpy as np
import pytest

from app.trajectory.trajectory import Status
from tests.builders import step
from tests.unit.store.endless import BATCH, BATCHES_A_REQUEST
from tests.unit.store.recordings import reading, recording


def kill_after(file: FilePath, batches: int) -> int:
    """Kill -9 a recording process once it has taken that many batches, at whatever it is doing by then.

    Returns how many steps it had taken.
    """
    command = [sys.executable, "-m", "tests.unit.store.endless", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(batches):
            process.stdout.readline()
        process.kill()
        rest = process.stdout.read().splitlines()
    return int(rest[-1].split()[1]) if rest else batches * BATCH


@pytest.mark.parametrize("seed", range(4))
def test_kill_9_at_any_moment_loses_at_most_64_steps_and_corrupts_nothing(tmp_path: FilePath, seed: int) -> None:
    file = tmp_path / "a.forkpoint"
    taken = kill_after(file, random.Random(seed).randint(1, 400))
    with reading(file) as reader:  # even before any writer has cleaned up
        found = reader.trajectory(1)
        assert found.status is Status.RUNNING
        assert taken - BATCH <= found.step_count <= taken
    with recording(file) as recorder:
        assert recorder.interrupt_running() == 1
    with reading(file) as reader:
        again = reader.trajectory(1)
        assert again.status is Status.INTERRUPTED
        assert again.step_count == found.step_count
        for request in again.requests[:-1]:
            assert len(request.steps) == BATCH * BATCHES_A_REQUEST
        for request in again.requests:
            assert (request.steps.token_ids == np.arange(len(request.steps)) % BATCH).all()
            assert request.steps.piece_bytes == b"".join(step(id).piece for id in request.steps.token_ids.tolist())
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
