"""A real fork made smaller: it is a pair like any other, and forks at the same token when it is replayed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.model


def forkpoint(*args: object) -> tuple[int, dict[str, Any]]:
    """Exit code and the printed object."""
    command = [sys.executable, "-m", "app", *map(str, args), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_real_fork_shrinks_and_shows_again(tmp_path: Path) -> None:
    file, small = tmp_path / "fork.forkpoint", tmp_path / "small.forkpoint"
    _, ran = forkpoint("run", "--episodes", "0-7", "--until-fork", "--repeat", 1, "--threads", 1, "--out", file)
    assert ran["ended"] == "forked"
    (episode,) = [pair["episode"] for pair in ran["pairs"] if pair["diverged"]]
    _, before = forkpoint("compare", file, "--episode", episode)

    code, shrunk = forkpoint("shrink", file, "--pair", episode, "--budget-s", 10, "--out", small)
    assert (code, shrunk["ended"]) == (0, "shrunk")
    assert shrunk["tokens"]["now"] <= shrunk["tokens"]["before"] and shrunk["tries"] > 0
    assert shrunk["engine_seconds"] > 0.9 * shrunk["seconds"]

    code, after = forkpoint("compare", small, "--episode", episode)
    assert (code, after["valid"], after["kind"]) == (1, True, "token")
    assert after["request"] == shrunk["requests"]["now"]
    for path in ("cached", "recompute"):
        assert after[path]["token_id"] == before[path]["token_id"]
    code, replayed = forkpoint("replay", small, "--pair", episode)
    assert [each["verdict"] for each in replayed["replays"]] == ["reproduced"], replayed
    assert code == 0
