"""The command shrink: what it prints, where the result goes, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import cli
from app.engine.scripted import ScriptedEngine, steps_of
from app.experiment.plans import RunRequest
from app.session import RunHandle, Session
from app.trajectory.step import IdArray, Step
from tests.unit.experiment.test_runner import Run
from tests.unit.experiment.test_shrink import model

Answer = Callable[[IdArray, int], Sequence[Step]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """One recorded episode, which forks in its second request."""
    path = tmp_path / "run.forkpoint"
    Run(path, ScriptedEngine(model), RunRequest(episodes="0", repeat=1))
    return path


@pytest.fixture
def forkpoint(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, on the scripted engine."""

    def invoke(*args: object, answers: Answer = model) -> Result:
        monkeypatch.setattr("app.session.shrinking.opener", lambda *_: lambda: ScriptedEngine(answers))
        return CliRunner().invoke(cli, [str(arg) for arg in args])

    return invoke


def test_the_json_object_has_sizes_before_and_after(file: Path, forkpoint: Callable[..., Result]) -> None:
    done = forkpoint("shrink", file, "--pair", "files-00", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["file"], report["experiment"], report["ended"], report["minimal"]) == (str(file), 2, "shrunk", True)
    assert report["requests"] == {"before": 2, "now": 2}
    assert 100 * report["tokens"]["now"] < report["tokens"]["before"]
    assert (report["pair"]["episode"], report["pair"]["request"], report["pair"]["step"]) == ("files-00", 2, 6)
    assert 0 < report["engine_seconds"] <= report["seconds"] and report["tries"] > 0


def test_a_person_is_told_how_far_it_has_come(file: Path, forkpoint: Callable[..., Result]) -> None:
    done = forkpoint("shrink", file, "--pair", "files-00")
    assert done.exit_code == 0, done.output
    first, *_, last = [line for line in done.stderr.splitlines() if "tries" in line]
    assert first.startswith("0 tries") and first.endswith("trying shorter warm-up prompts")
    assert last.endswith("1-minimal at token level: no single request, message or token can go")
    assert "experiment 2: Forked at request 2, token 6" in done.stdout and "2 → 2 requests" in done.stdout


def test_the_result_goes_where_it_was_told_to(file: Path, forkpoint: Callable[..., Result], tmp_path: Path) -> None:
    out = tmp_path / "small.forkpoint"
    done = forkpoint("shrink", file, "--pair", "files-00", "--out", out, "--json")
    assert json.loads(done.stdout)["file"] == str(out)
    with closing(Session.open(out)) as there, closing(Session.open(file)) as here:
        assert [len(session.experiments()) for session in (there, here)] == [1, 1]


def test_a_search_without_time_says_so(file: Path, forkpoint: Callable[..., Result]) -> None:
    done = forkpoint("shrink", file, "--pair", "files-00", "--budget-s", "0", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0 and not report["minimal"]
    assert report["tokens"]["now"] == report["tokens"]["before"]
    assert "stopped by the time" in done.stderr


def test_a_fork_that_does_not_show_here_is_exit_code_2(file: Path, forkpoint: Callable[..., Result]) -> None:
    done = forkpoint("shrink", file, "--pair", "files-00", "--json", answers=lambda *_: steps_of("No."))
    assert done.exit_code == 2 and not done.stdout
    assert "does not show again" in done.stderr and "Run both again" in done.stderr


def test_an_episode_that_is_not_there_is_exit_code_2(file: Path, forkpoint: Callable[..., Result]) -> None:
    done = forkpoint("shrink", file, "--pair", "notes-07")
    assert done.exit_code == 2 and "holds no notes-07" in done.stderr


def test_a_smaller_pair_is_exported_and_a_bundle_is_not_shrunk(
    file: Path, forkpoint: Callable[..., Result], tmp_path: Path
) -> None:
    """What a bundle names, e.g. a model's path, is a stranger's: nothing of it is opened."""
    forkpoint("shrink", file, "--pair", "files-00")
    bundle, out = tmp_path / "small.zip", tmp_path / "out.forkpoint"
    done = forkpoint("export", file, "--pair", "files-00", "--out", bundle, "--no-verify", "--gpu", "", "--launch", "")
    assert done.exit_code == 0, done.output
    assert forkpoint("verify", bundle).exit_code == 0
    done = forkpoint("shrink", bundle, "--pair", "files-00", "--out", out)
    assert done.exit_code == 2 and "A bundle is not shrunk" in done.stderr
    assert not out.exists()


def test_ctrl_c_keeps_what_was_found_and_the_same_command_goes_on(
    file: Path, forkpoint: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, stopped, stop = 0, threading.Event(), RunHandle.stop

    def interrupted(prompt: IdArray, cached: int) -> Sequence[Step]:
        nonlocal asked
        asked += 1
        if asked == 40:
            os.kill(os.getpid(), signal.SIGINT)
            stopped.wait(30)
        return model(prompt, cached)

    def stop_and_tell(handle: RunHandle) -> None:
        stop(handle)
        stopped.set()

    monkeypatch.setattr(RunHandle, "stop", stop_and_tell)
    done = forkpoint("shrink", file, "--pair", "files-00", "--json", answers=interrupted)
    assert done.exit_code == 130 and "goes on from here" in done.stderr
    report = json.loads(done.stdout)
    assert report["ended"] == "stopped" and report["tokens"]["now"] < report["tokens"]["before"]
    again = json.loads(forkpoint("shrink", file, "--pair", "files-00", "--json").stdout)
    assert (again["minimal"], again["experiment"]) == (True, report["experiment"])
