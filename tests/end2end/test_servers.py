"""Runs and the doctor on real servers: every engine plays the same experiment, and each set-up gets its own verdict."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.engine.default_model import default_model
from app.engine.llama_server.managed import ManagedServer
from app.engine.server_settings import KEY_VARIABLE
from app.session import Session
from app.trajectory.pair import Pair
from app.trajectory.trajectory import Trajectory
from tests.unit.engine.broken_server import BrokenServer, Received, answer
from tests.unit.engine.llama_servers import llama_server_binary, settings
from tests.unit.engine.real_servers import llama_cpp_python

pytestmark = pytest.mark.model
FORKPOINT = (sys.executable, "-m", "app")
TALK = [
    {"role": "user", "content": "List five animals and say one thing about each."},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "Now sort them by size, the largest first."},
    {"role": "assistant", "content": ""},
    {"role": "user", "content": "Which of them can swim? Explain in two sentences."},
]


def forkpoint(*args: object, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*FORKPOINT, *map(str, args)], capture_output=True, text=True, timeout=600, check=False)
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("talk") / "animals.json"
    file.write_text(json.dumps(TALK))
    return file


@contextmanager
def llama_server(**changes: object) -> Iterator[str]:
    server = ManagedServer(default_model(), settings(**changes))
    try:
        yield server.url
    finally:
        server.close()


def pair_of(file: Path) -> Pair:
    session = Session.open(file)
    try:
        info = session.experiment()
        return session.pair(info.id, info.plan["episode_ids"][0])
    finally:
        session.close()


def run(talk: Path, folder: Path, engine: str, *more: object) -> Pair:
    out = folder / "run.forkpoint"
    forkpoint("run", "--import", talk, "--engine", engine, "--threads", 1, "--n-ctx", 1024, "--out", out, *more)
    return pair_of(out)


def counts(side: Trajectory) -> list[tuple[int | None, int | None]]:
    return [(r.report.cached_tokens, r.report.evaluated_tokens) for r in side.requests if r.report]


def test_embedded_and_llama_server_agree_on_every_cached_count(talk: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    embedded = run(talk, tmp_path / "own", "embedded", "--repeat", 1)
    managed = run(talk, tmp_path, "managed", "--repeat", 2, "--server-binary", llama_server_binary())
    for pair in (embedded, managed):
        assert pair.comparison.valid, pair.comparison.problems + pair.comparison.unproven
    assert managed.comparison.repeats["cached"].exact and managed.comparison.repeats["recompute"].exact
    assert counts(managed.recompute)[0] == counts(embedded.recompute)[0]
    for ours, theirs in ((embedded.cached, managed.cached), (embedded.recompute, managed.recompute)):
        for left, right, mine, its in zip(ours.requests, theirs.requests, counts(ours), counts(theirs), strict=True):
            if left.prompt.ids.tolist() != right.prompt.ids.tolist():
                break  # their answers parted before: from here on they are not asked the same
            assert mine == its


def test_a_pair_runs_on_a_llama_server_elsewhere(talk: Path, tmp_path: Path) -> None:
    with llama_server() as url:
        pair = run(talk, tmp_path, url, "--repeat", 1)
    assert pair.comparison.valid, pair.comparison.problems
    assert [cached for cached, _ in counts(pair.recompute)] == [0, 0, 0]
    assert all(cached for cached, _ in counts(pair.cached)[1:])


def test_a_key_opens_a_gateway_below_a_path_and_lies_nowhere_afterwards(
    talk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, wrong = "sk-forkpoint-0123456789", "sk-mistyped-9876543210"
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "home"))

    def gateway(connection: socket.socket, request: Received) -> None:
        if request.headers.get("authorization") != f"Bearer {key}":
            told = request.headers.get("authorization", "nothing")  # some say a wrong key back
            answer({"error": {"message": f"{told} opens nothing"}}, "401 Unauthorized")(connection, request)
            return
        passed = httpx.request(
            request.method, url + request.target.removeprefix("/llm/a"), content=request.body, trust_env=False
        )
        answer(passed.content, f"{passed.status_code} {passed.reason_phrase}")(connection, request)

    words = ("run", "--import", talk, "--max-tokens", 8, "--repeat", 1, "--out", tmp_path / "run.forkpoint")
    with llama_server() as url, BrokenServer(gateway) as front:
        there = ("--engine", f"{front.url}/llm/a/")
        keyless = forkpoint(*words, *there, code=2)
        monkeypatch.setenv(KEY_VARIABLE, wrong)
        refused = forkpoint(*words, *there, code=2)
        monkeypatch.setenv(KEY_VARIABLE, key)
        done = forkpoint(*words, *there)
    assert "wants an API key" in keyless.stderr and KEY_VARIABLE in keyless.stderr
    assert f"does not accept the API key from {KEY_VARIABLE}" in refused.stderr
    exported = forkpoint(
        "export", tmp_path / "run.forkpoint", "--pair", "imported-animals", "--out", tmp_path / "f.zip"
    )
    with zipfile.ZipFile(tmp_path / "f.zip") as bundle:
        bundle.extractall(tmp_path / "bundle")
    said = "".join(each.stdout + each.stderr for each in (keyless, refused, done, exported))
    kept = [said.encode(), *(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())]
    assert len(kept) > 10 and not any(secret.encode() in data for data in kept for secret in (key, wrong))


def test_on_llama_cpp_pythons_server_a_pair_stays_unproven_and_a_repeat_counts(talk: Path, tmp_path: Path) -> None:
    with llama_cpp_python(default_model(), tmp_path / "log.txt") as url:
        pair = run(talk, tmp_path, url, "--repeat", 1)
        assert pair.verdict.code in ("unproven", "invalid") and not pair.comparison.valid
        assert any("did not report how many tokens" in reason for reason in pair.comparison.unproven)
        repeat = run(talk, tmp_path, url, "--kind", "repeat")
    assert repeat.comparison.valid and repeat.names == ("second run", "first run")
    assert repeat.comparison.level != "ids"


@pytest.mark.parametrize(("cache_ram", "restored"), [(0, False), (512, True)])
def test_a_server_level_cache_shows_in_the_counts_of_a_second_run(
    tmp_path: Path, cache_ram: int, restored: bool
) -> None:
    """The study's third experiment: two adjacent passes in one server process, canonical order."""
    out = tmp_path / "run.forkpoint"
    words = ("--server-binary", llama_server_binary(), "--cache-ram", cache_ram, "--threads", 1)
    forkpoint("run", "--engine", "managed", "--kind", "repeat", "--episodes", "0-1", *words, "--out", out)
    pair = pair_of(out)
    assert pair.comparison.valid, pair.comparison.problems
    (first, _), (second, evaluated) = counts(pair.recompute)[0], counts(pair.cached)[0]
    assert first == 0 and second is not None and evaluated is not None
    assert (second > evaluated) is restored


SET_UPS: dict[str, dict[str, object]] = {
    "llama-server default": {},
    "--cache-ram 0": {"cache_ram": 0},
    "--no-cache-prompt": {"cache_prompt": False},
}


@pytest.fixture(scope="module")
def diagnoses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the doctor says of four set-ups, each known to it by its URL alone."""
    found = {}
    for name, changes in SET_UPS.items():
        with llama_server(**changes) as url:
            found[name] = json.loads(forkpoint("doctor", url, "--yes", "--probes", 2, "--json", code=None).stdout)
    with llama_cpp_python(default_model(), tmp_path_factory.mktemp("doctor") / "log.txt") as url:
        said = forkpoint("doctor", url, "--yes", "--probes", 2, "--json", code=None)
        found["llama-cpp-python"] = json.loads(said.stdout)
    return found


def test_the_doctor_gives_four_set_ups_four_verdicts(diagnoses: dict[str, dict[str, Any]]) -> None:
    assert len({diagnosis["verdict"] for diagnosis in diagnoses.values()}) == 4


@pytest.mark.parametrize(
    ("name", "exit_code", "server_cache", "history"),
    [
        ("llama-server default", 1, ("WARN", "Yes, it is on:"), "A again at once and A after X gives"),
        ("--cache-ram 0", 1, ("OK", "No, or it is off:"), "Yes: A again at once gives"),
        (
            "--no-cache-prompt",
            0,
            ("OK", "Yes, it is on, but only for requests that ask"),
            "No: A, A again, and A after X",
        ),
        ("llama-cpp-python", 1, ("UNKNOWN", "It cannot be seen"), ""),
    ],
)
def test_each_verdict_is_the_right_one(
    diagnoses: dict[str, dict[str, Any]], name: str, exit_code: int, server_cache: tuple[str, str], history: str
) -> None:
    diagnosis = diagnoses[name]
    caches, served, *_ = diagnosis["findings"]
    assert diagnosis["exit_code"] == exit_code
    assert caches["status"] == server_cache[0] and caches["answer"].startswith(server_cache[1])
    assert history in served["answer"]
