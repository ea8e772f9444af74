"""A real fork leaves the machine: exported, carried to an empty profile, verified, replayed, and shown without us."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from app.engine.default_model import default_model
from tests.unit.engine.llama_servers import VARIABLE, llama_server_binary
from tests.unit.engine.tiny_models import write_sliding_window_model

pytestmark = pytest.mark.model
FORKPOINT = (sys.executable, "-m", "app")


def forkpoint(*args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FORKPOINT, *map(str, args)], env=os.environ | environment, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The first episode that forks on this machine, and its file."""
    out = tmp_path_factory.mktemp("run") / "fork.forkpoint"
    done = forkpoint("run", "--episodes", "0-7", "--until-fork", "--threads", 1, "--out", out, "--json")
    report = json.loads(done.stdout)
    assert report["ended"] == "forked", done.stderr
    (episode,) = [pair["episode"] for pair in report["pairs"] if pair["diverged"]]
    return out, episode


@pytest.fixture(scope="module")
def exported(recorded: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The bundle, carried to another folder, and what the export printed."""
    file, episode = recorded
    bundle = tmp_path_factory.mktemp("carried") / "b.zip"
    named = {VARIABLE: str(llama_server_binary())}
    done = forkpoint("export", file, "--pair", episode, "--out", bundle, "--json", **named)
    assert done.returncode == 0, done.stderr
    return bundle, json.loads(done.stdout)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a person who has never used Forkpoint."""
    home = str(tmp_path_factory.mktemp("home"))
    return {"HOME": home} | {f"XDG_{name}_HOME": home for name in ("CONFIG", "DATA", "STATE", "CACHE")}


def replay(bundle: Path, *args: object, **environment: str) -> tuple[int, dict[str, Any]]:
    done = forkpoint("replay", bundle, "--json", *args, **environment)
    assert done.stdout, done.stderr
    (found,) = json.loads(done.stdout)["replays"]
    return done.returncode, found


def script_in(bundle: Path, name: str, folder: Path) -> Path:
    with zipfile.ZipFile(bundle) as parts:
        (part,) = [part for part in parts.namelist() if part.endswith(f"/{name}")]
        script = folder / name
        script.write_bytes(parts.read(part))
    return script


def run_embedded(script: Path, model: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", script, "--model", model], cwd=script.parent, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


def test_the_scripts_were_run_before_the_export_and_the_fork_showed_in_each(
    exported: tuple[Path, dict[str, Any]],
) -> None:
    printed = {name.rpartition("/")[2]: text for name, text in exported[1]["printed"].items()}
    assert printed.keys() == {"repro_embedded.py", "repro_server.py", "repro.sh"}
    for text in printed.values():
        assert "The fork shows at token" in text and text.endswith("exit code 0"), text


def test_a_carried_bundle_is_whole_and_its_fork_is_reproduced(
    exported: tuple[Path, dict[str, Any]], profile: dict[str, str]
) -> None:
    bundle, _ = exported
    assert forkpoint("verify", bundle, **profile).returncode == 0
    code, found = replay(bundle, **profile)
    assert (code, found["verdict"], found["differences"]) == (0, "reproduced", [])
    assert (
        found["here"]["request"] == found["reported"]["request"] and found["here"]["step"] == found["reported"]["step"]
    )
    for path in ("cached", "recompute"):
        assert found["here"][path] == found["reported"][path], "tokens and margins are the same, bit for bit"


def test_an_embedded_fork_is_tried_on_a_llama_server_and_survives_there(
    exported: tuple[Path, dict[str, Any]], profile: dict[str, str]
) -> None:
    binary = llama_server_binary()
    code, found = replay(exported[0], "--engine", "managed", "--server-binary", binary, **profile)
    assert (code, found["verdict"]) == (0, "reproduced"), found["because"]
    assert "engine" in [one["name"] for one in found["differences"]]
    assert [one["cached"] for one in found["served"][-2:]] == [found["served"][-2]["recorded_cached"], 0]


def test_the_embedded_script_needs_nothing_of_the_app_and_tells_a_fork_from_none(
    exported: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    model = default_model()
    script = script_in(exported[0], "repro_embedded.py", tmp_path)
    text = script.read_text(encoding="utf-8")
    names = {alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names}
    assert names - set(sys.stdlib_module_names) == {"llama_cpp", "numpy"}
    assert run_embedded(script, model).returncode == 0
    script.write_text(text.replace('DATA["history"]:', 'DATA["history"][:0]:'), encoding="utf-8")
    done = run_embedded(script, model)
    assert done.returncode == 2 and "The cache gave 0 tokens" in done.stdout, "without its history it proves nothing"
    script.write_text(re.sub(r'"step": (\d+)', r'"step": 1\1', text), encoding="utf-8")
    done = run_embedded(script, model)
    assert done.returncode == 1 and "Another fork" in done.stdout, "it is not where the record says"


def test_a_bundle_of_another_model_cannot_be_compared(exported: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    model = write_sliding_window_model(tmp_path / "tiny.gguf")
    code, found = replay(exported[0], "--model", model)
    assert (code, found["verdict"]) == (2, "cannot be compared") and "SHA-256 differs" in found["because"]


def test_an_altered_and_a_redacted_bundle_are_not_replayed(
    recorded: tuple[Path, str], exported: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    altered = tmp_path / "altered.zip"
    with zipfile.ZipFile(exported[0]) as old, zipfile.ZipFile(altered, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + (b"exit 0\n" if name.endswith(".sh") else b""))
    code, found = replay(altered)
    assert code == 2 and "not as it was written" in found["because"]
    redacted = tmp_path / "redacted.zip"
    file, episode = recorded
    done = forkpoint("export", file, "--pair", episode, "--out", redacted, "--redact", "light")
    assert done.returncode == 0, done.stderr
    code, found = replay(redacted)
    assert code == 2 and "redacted" in found["because"]


def test_a_file_of_data_is_replayed_pair_by_pair(recorded: tuple[Path, str]) -> None:
    file, episode = recorded
    done = forkpoint("replay", file)
    assert done.returncode == 2 and "--pair" in done.stderr
    code, found = replay(file, "--pair", episode)
    assert (code, found["verdict"]) == (0, "reproduced")
