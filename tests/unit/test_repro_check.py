"""Scripts are run before an export, with what is at hand; what is missing is said and leaves the rest alone."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import pytest

from app.bundle.format import BundleContents
from app.session import ScriptRunner
from tests.unit.bundle.made_bundles import ENVIRONMENT, contents_of_two_pairs

EMBEDDED, SERVER = "pairs/01-made-00/repro_embedded.py", "pairs/01-made-00/repro_server.py"
SAYS = "import sys, os\nprint(sys.argv[1:3])\nprint(os.getcwd())\nsys.exit(1)\n"


@pytest.fixture
def model(tmp_path: FilePath) -> FilePath:
    file = tmp_path / "made.gguf"
    file.write_bytes(b"GGUF")
    return file


def contents(model: FilePath) -> BundleContents:
    """A bundle whose record names this model file."""
    made = contents_of_two_pairs()
    environment: dict[str, Any] = dict(ENVIRONMENT)
    environment["model"] = {"name": model.name, "sha256": hashlib.sha256(model.read_bytes()).hexdigest()}
    return replace(made, experiment=replace(made.experiment, environment=environment))


def test_a_script_runs_in_a_folder_of_its_own_with_the_model_and_its_exit_code_is_kept(
    model: FilePath, tmp_path: FilePath
) -> None:
    told: list[str] = []
    runner = ScriptRunner(model, tmp_path / "no-such-server")
    printed = runner(contents(model), {EMBEDDED: SAYS, SERVER: SAYS}, told.append, threading.Event())
    arguments, folder, code = printed[EMBEDDED].splitlines()
    assert arguments == str(["--model", str(model)]) and code == "exit code 1"
    assert FilePath(folder) != FilePath.cwd() and not FilePath(folder).exists(), "and nothing of it stays"
    assert printed.keys() == {EMBEDDED}, "without a llama-server its script is not run"
    assert any(said.startswith("The server forms were not run. There is no llama-server at") for said in told)


def test_scripts_are_not_run_with_another_model(model: FilePath) -> None:
    made, told = contents(model), list[str]()
    model.write_bytes(b"another")
    assert ScriptRunner(model)(made, {EMBEDDED: SAYS}, told.append, threading.Event()) == {}
    assert told == [
        "The repro scripts were not run. made.gguf is not the recorded model, or not there. "
        "Name its file with --model."
    ]  # fmt: skip


def test_scripts_for_a_server_that_is_not_started_here_are_not_run_and_it_is_said_how_to(model: FilePath) -> None:
    made, told = contents(model), list[str]()
    vllm = replace(made, experiment=replace(made.experiment, environment=dict(ENVIRONMENT) | {"engine": "vllm"}))
    assert ScriptRunner(model)(vllm, {SERVER: SAYS}, told.append, threading.Event()) == {}
    assert told == [
        "The repro scripts were not run: no vllm is started here. Run repro_server.py against one, with --url."
    ]


def test_a_stop_ends_a_script_within_a_second_and_nothing_is_said_to_have_been_printed(
    model: FilePath, tmp_path: FilePath
) -> None:
    stop, runner = threading.Event(), ScriptRunner(model, tmp_path / "none")
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    began = time.monotonic()
    endless = "import threading\nthreading.Event().wait()\n"
    assert runner(contents(model), {EMBEDDED: endless}, lambda _: None, stop) == {}
    assert time.monotonic() - began < 1.3
    timer.join()
