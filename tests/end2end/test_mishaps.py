"""What a person may do wrong, and what a machine may do to a run, through the commands in real processes.

The model is one of a few kilobytes with random weights in the real engine, so that each takes a moment.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.end2end.test_commands import FORKPOINT, forkpoint, rows
from tests.unit.engine.tiny_models import write_sliding_window_model

pytestmark = pytest.mark.model

EPISODES = ("imported-talk-1", "imported-talk-2")


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`run` and what makes it short: a tiny model and two conversations of three turns."""
    folder = tmp_path_factory.mktemp("tiny")
    turns = ("Hello there, how are you?", "And now, what do you say?", "Is that so?")
    body = json.dumps({"messages": [{"role": "user", "content": turn} for turn in turns]})
    (folder / "talk.jsonl").write_text(f"{body}\n{body}\n")
    model = write_sliding_window_model(folder / "tiny.gguf")
    return ["run", "--model", str(model), "--import", str(folder / "talk.jsonl"), "--threads", "1", "--repeat", "1"]


@pytest.fixture(scope="module")
def whole(options: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "whole.forkpoint"
    forkpoint(*options, "--out", out)
    return out


def shown(file: Path) -> list[str]:
    return [forkpoint("show", file, "--episode", episode, "--csv").stdout for episode in EPISODES]


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What a person reads: the sentence and an indented hint, never a trace."""
    assert "Traceback" not in done.stderr
    message, hint = done.stderr.split("Error: ", 1)[1].split("\n", 1)
    assert message and hint.strip()
    return message


@pytest.mark.parametrize("moment", ["both paths", "talk-1 cached: done", "talk-2 cached: done"])
def test_a_run_killed_at_any_moment_is_listed_and_goes_on_to_the_same_end(
    options: list[str], whole: Path, tmp_path: Path, moment: str
) -> None:
    out = tmp_path / "killed.forkpoint"
    command = [*FORKPOINT, *options, "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if moment in line:
                break
        os.killpg(process.pid, signal.SIGKILL)
    assert forkpoint("list", out).stdout.count("Not finished yet") >= 1
    unfinished = forkpoint("compare", out, "--episode", EPISODES[1], "--json", code=2)
    assert "Traceback" not in unfinished.stderr
    forkpoint("resume", out)
    assert shown(out) == shown(whole)
    again = forkpoint("resume", out, code=2)
    assert "complete" in sentence(again)


def test_a_full_disk_ends_the_run_in_a_sentence_and_the_run_goes_on_where_there_is_room(
    options: list[str], whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "full.forkpoint"
    blocks = 300  # of 512 or 1024 bytes, as the shell counts: room for the first trajectories only
    command = f'ulimit -f {blocks}; exec "$@"'
    full = subprocess.run(
        ["/bin/sh", "-c", command, "sh", *FORKPOINT, *options, "--out", str(out)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert full.returncode == 2, full.stderr
    assert "full.forkpoint cannot" in sentence(full)
    assert f"Go on with: forkpoint resume {out}" in full.stderr
    assert forkpoint("list", out).stdout.count("Not finished yet") >= 1
    forkpoint("resume", out)
    assert shown(out) == shown(whole)


def test_a_second_run_into_a_file_that_is_written_is_a_sentence(options: list[str], tmp_path: Path) -> None:
    out = tmp_path / "busy.forkpoint"
    first = subprocess.Popen([*FORKPOINT, *options, "--out", str(out)], stderr=subprocess.PIPE, text=True)
    assert first.stderr is not None
    for line in first.stderr:
        if "both paths" in line:
            break
    first.send_signal(signal.SIGSTOP)
    second = forkpoint(*options, "--out", out, code=2)
    assert "being written by another" in sentence(second)
    assert forkpoint("list", out).stdout.count("imported-talk") == 2
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert [row["valid"] for row in rows(out)] == [True, True]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--n-ctx", "-5"], "n_ctx is -5"),
        (["--threads", "100000"], "threads is 100,000"),
        (["--seed", "-1"], "seed is -1"),
        (["--rivals", "100000"], "rivals is 100000"),
        (["--repeat", "0"], "repeat is 0"),
    ],
)
def test_a_wrong_option_is_a_sentence(options: list[str], tmp_path: Path, wrong: list[str], said: str) -> None:
    out = tmp_path / "x.forkpoint"
    assert said in sentence(forkpoint(*options, *wrong, "--out", out, code=2))
    assert not out.exists()


def test_a_file_of_another_program_is_not_written_to(options: list[str], tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("Not yours.\n" * 100)
    assert "no Forkpoint file" in sentence(forkpoint(*options, "--out", foreign, code=2))
    assert "exists already" in sentence(forkpoint("unpack", foreign, "--out", foreign, code=2))
    assert foreign.read_text() == "Not yours.\n" * 100


def test_what_is_not_there_is_a_sentence_also_with_json(whole: Path, tmp_path: Path) -> None:
    for args in (
        ["list", whole, "--experiment", "9"],
        ["compare", whole, "--episode", "none"],
        ["compare", whole, "--episode", EPISODES[0], "--repeat", "9"],
    ):
        done = forkpoint(*args, "--json", code=2)
        sentence(done)
        assert done.stdout == ""
    empty = tmp_path / "empty.forkpoint"
    empty.touch()
    sentence(forkpoint("list", empty, code=2))


def test_names_outside_ascii_are_as_good_as_others(options: list[str], tmp_path: Path) -> None:
    out = tmp_path / "Gespräch – läuft 😀.forkpoint"
    done = forkpoint(*options, "--repeat-first", 9, "--max-tokens", 4, "--out", out, "--json")
    assert json.loads(done.stdout)["file"] == str(out)
    assert len(rows(out)) == 2


def test_a_reader_that_hears_enough_leaves_no_trace_on_the_terminal(whole: Path) -> None:
    command = " ".join([*FORKPOINT, "show", str(whole), "--episode", EPISODES[0], "--csv"])
    done = subprocess.run(f"{command} | head -1", shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("path,request") and done.stderr == ""
