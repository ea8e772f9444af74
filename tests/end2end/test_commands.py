"""The commands on the real engine: what a person types, in real processes, with the files that it leaves."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.model
FORKPOINT = (sys.executable, "-m", "app")
COMPARE_KEYS = {
    "episode", "diverged", "kind", "request", "step", "cached", "recompute", "repeats", "tool_calls_changed",
    "outcome_changed", "valid", "verdict",
}  # fmt: skip


def forkpoint(*args: object, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*FORKPOINT, *map(str, args)], capture_output=True, text=True, timeout=600, check=False)
    if code is not None:
        assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes on both paths, twice, as `forkpoint run` leaves them."""
    out = tmp_path_factory.mktemp("run") / "two.forkpoint"
    done = forkpoint("run", "--episodes", "0-1", "--threads", 1, "--out", out, "--json")
    report = json.loads(done.stdout)
    assert [pair["episode"] for pair in report["pairs"]] == ["files-00", "units-01"]
    return out


def rows(file: Path) -> list[dict[str, Any]]:
    return list(json.loads(forkpoint("list", file, "--json").stdout)["pairs"])


def test_every_pair_of_a_run_is_valid_and_repeats_exactly(recorded: Path) -> None:
    for row in rows(recorded):
        assert row["valid"] is True, row["problems"]
        done = forkpoint("compare", recorded, "--episode", row["episode"], "--json", code=None)
        found = json.loads(done.stdout)
        assert found.keys() >= COMPARE_KEYS
        assert found["repeats"] == {"cached": True, "recompute": True}
        assert done.returncode == int(found["diverged"]), "exit code says whether the paths forked"
        assert row["diverged"] == found["diverged"] and row["kind"] == found["kind"]


def test_compare_agrees_with_the_tokens_that_show_prints(recorded: Path) -> None:
    for row in rows(recorded):
        listed = list(
            csv.DictReader(io.StringIO(forkpoint("show", recorded, "--episode", row["episode"], "--csv").stdout))
        )
        answers: dict[tuple[str, str], list[str]] = {}
        for line in listed:
            answers.setdefault((line["path"], line["request"]), []).append(line["token_id"])
        numbers = sorted({int(request) for _, request in answers})
        first = next(
            (n for n in numbers if answers.get(("cached", str(n))) != answers.get(("recompute", str(n)))), None
        )
        assert first == row["request"]


def test_recompute_never_hits_and_cached_does(recorded: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(forkpoint("show", recorded, "--episode", "units-01", "--csv").stdout)))
    assert {line["cached_tokens"] for line in lines if line["path"] == "recompute"} == {"0"}
    assert all(int(line["cached_tokens"]) > 0 for line in lines if line["path"] == "cached" and line["request"] != "1")


def test_unpacked_tables_hold_the_same_steps(recorded: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.db"
    forkpoint("unpack", recorded, "--out", plain)
    shown = list(csv.DictReader(io.StringIO(forkpoint("show", recorded, "--episode", "files-00", "--csv").stdout)))
    with sqlite3.connect(plain) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        count = connection.execute(
            "SELECT count(*) FROM steps s JOIN trajectories t ON t.id = s.trajectory JOIN passes p ON p.id = t.pass "
            "WHERE t.episode = 'files-00' AND p.repeat = 1"
        ).fetchone()[0]
    connection.close()
    assert {"steps", "rivals", "requests", "trajectories", "passes", "experiments"} <= tables
    assert count == len(shown)


def test_a_killed_run_goes_on_where_it_was_and_repeats_what_an_unbroken_run_gives(
    recorded: Path, tmp_path: Path
) -> None:
    out = tmp_path / "killed.forkpoint"
    command = [*FORKPOINT, "run", "--episodes", "0-1", "--repeat", "1", "--threads", "1", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "units-01 cached: done" in line:  # so that the second episode's recompute path is under way
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.stderr.close()
    process.wait()
    assert [row["diverged"] is None for row in rows(out)] == [False, True]
    forkpoint("resume", out)
    assert all(row["valid"] for row in rows(out))
    for episode in ("files-00", "units-01"):
        first, second = (forkpoint("show", file, "--episode", episode, "--csv").stdout for file in (recorded, out))
        assert first == second, "the resumed run has other ids or logprobs"


def test_ctrl_c_stops_within_a_second_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    out = tmp_path / "stopped.forkpoint"
    command = [*FORKPOINT, "run", "--episodes", "0-3", "--threads", "1", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "files-00 cached: done" in line:
                break
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        code = process.wait(timeout=30)
    assert time.monotonic() - asked < 5, "the whole command, interpreter and all, ends soon after"
    assert code == 130
    assert "resume" in rest
    assert out.exists() and not out.with_name(out.name + "-wal").exists()


def test_a_file_that_is_no_model_gets_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 100)
    done = forkpoint("run", "--model", broken, "--episodes", "0", "--out", tmp_path / "x.forkpoint", code=2)
    assert "broken.gguf" in done.stderr
    assert "Traceback" not in done.stderr
