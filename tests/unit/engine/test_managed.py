"""A llama-server of our own: its command, its log, its end with ours, and a fresh one for each pass."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.engine.llama_server.managed import ManagedEngine, ManagedServer, command, find_binary
from app.engine.server_settings import ManagedSettings
from app.errors import EngineDied, EngineError, SettingsError
from tests.unit.engine.conversation import ask, converse, first_prompt
from tests.unit.engine.llama_servers import llama_server_binary, settings

ROOT = Path(__file__).parents[3]
Start = Callable[..., ManagedServer]


def ends_within(pid: int, seconds: float) -> bool:
    """Whether the process `pid` ends in time; needs no right to reap it."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def test_the_command_names_every_setting_by_the_server_s_own_flags() -> None:
    own = ManagedSettings(threads=3, cache_ram=0, cache_reuse=64, ctx_checkpoints=4, cache_prompt=False, parallel=2,
                          flash_attention=True, cache_type_k="q8_0", arguments=("--kv-unified",))  # fmt: skip
    words = command(Path("m.gguf"), own, 8081, slots=Path("saved"))
    typed = " ".join(words)
    assert words[0] == "llama-server" and words[-1] == "--kv-unified"
    for part in (
        "--model m.gguf", "--host 127.0.0.1 --port 8081", "--ctx-size 4096", "--parallel 2", "--batch-size 2048",
        "--ubatch-size 512", "--threads 3 --threads-batch 3", "--flash-attn on", "--cache-type-k q8_0",
        "--cache-type-v f16", "--cache-ram 0", "--cache-reuse 64", "--ctx-checkpoints 4", "--swa-full",
        "--no-cache-prompt", "--slot-save-path saved/", "--n-gpu-layers 0",
    ):  # fmt: skip
        assert part in typed
    untouched = " ".join(command(Path("m.gguf"), ManagedSettings(slot_save=False), 8081))
    for flag in ("--cache-ram", "--cache-reuse", "--ctx-checkpoints", "--no-cache-prompt", "--slot-save-path"):
        assert flag not in untouched


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"threads": -1}, "threads is -1"),
        ({"parallel": 0}, "parallel is 0"),
        ({"cache_ram": -2}, "cache_ram is -2"),
        ({"threads": 10_000}, "threads is 10,000"),
        ({"cache_type_v": "q3"}, "cache_type_v 'q3'"),
        ({"arguments": ("--api-key", "secret")}, "--api-key cannot be given"),
        ({"arguments": ("--api-key=secret",)}, "--api-key cannot be given"),
        ({"arguments": ("--api_key", "secret")}, "--api-key cannot be given"),  # llama-server takes it for the same
        ({"arguments": ("-hfd", "a/b", "--mmproj_url", "c")}, "--mmproj-url, -hfd cannot be given"),
        ({"arguments": ("--host", "0.0.0.0", "-hf", "a/b")}, "--host, -hf cannot be given"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used_are_a_sentence_without_the_secret(wrong: dict[str, object], match: str) -> None:
    with pytest.raises(SettingsError, match=match) as refused:
        ManagedSettings(**wrong)  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)


def test_without_a_binary_the_hint_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match=r"No llama-server was found.*make server"):
        find_binary(ManagedSettings())
    with pytest.raises(SettingsError, match="There is no llama-server at"):
        find_binary(ManagedSettings(binary=tmp_path / "none"))
    (tmp_path / "llama-server").touch(mode=0o755)
    assert find_binary(ManagedSettings()) == tmp_path / "llama-server"


def test_a_file_that_is_no_program_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    wrong, model = tmp_path / "llama-server", tmp_path / "m.gguf"
    for file in (wrong, model):
        file.write_text("no program")
    with pytest.raises(SettingsError, match="cannot be started"):
        ManagedServer(model, ManagedSettings(binary=wrong))


@pytest.mark.model
def test_flags_that_the_server_refuses_are_an_error_with_its_own_words(model_path: Path) -> None:
    with pytest.raises(EngineError, match="did not start with these settings") as refused:
        ManagedServer(model_path, settings(arguments=("--no-such-flag",)))
    assert "invalid argument: --no-such-flag" in refused.value.hint


@pytest.mark.model
def test_a_damaged_model_is_an_error_with_the_server_s_own_words(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF and nothing more")
    with pytest.raises(EngineError, match="did not start") as refused:
        ManagedServer(tmp_path / "m.gguf", settings())
    assert "Its last lines" in refused.value.hint


@pytest.mark.model
def test_loading_is_told_and_a_stop_ends_it(model_path: Path) -> None:
    said: list[str] = []
    stop = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        stop.set()

    begin = time.monotonic()
    with pytest.raises(EngineDied, match="stopped while it loaded"):
        ManagedServer(model_path, settings(), stop=stop, say=say)
    assert time.monotonic() - begin < 2
    assert said and said[0].startswith("llama-server loads the model (0.")


@pytest.mark.model
def test_variables_of_llama_cpp_in_the_environment_change_nothing(
    model_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_N_PARALLEL", "3")
    monkeypatch.setenv("LLAMA_ARG_ALIAS", "from-the-environment")
    server = start(model_path)
    connection = server.connect()
    props = connection.get("/props").json()
    connection.close()
    assert props["total_slots"] == 1 and props["model_alias"] == model_path.name


@pytest.mark.model
def test_the_log_is_there_while_it_runs_and_closing_ends_it(model_path: Path, start: Start) -> None:
    server = start(model_path)
    assert "listening on" in server.log()
    assert server.slot_folder.is_dir()
    assert server.ended(0) is None
    server.close()
    server.close()
    assert ends_within(server.pid, 1)
    assert not server.slot_folder.exists()


@pytest.mark.model
def test_each_pass_has_a_fresh_process_and_the_engine_stays_what_it_is(managed_engine: ManagedEngine) -> None:
    info, first = managed_engine.describe(), managed_engine.server
    state = managed_engine.open_state()
    old = converse(managed_engine, state, 8)
    managed_engine.begin_pass()
    assert managed_engine.server.pid != first.pid and ends_within(first.pid, 1)
    assert managed_engine.describe() is info
    with pytest.raises(EngineError, match="replaced by a fresh one"):
        ask(state, first_prompt(managed_engine))
    again = converse(managed_engine, managed_engine.open_state(), 8)
    for before, after in zip(old, again, strict=True):
        assert before.same_as(after)
        assert before.report.cached_tokens == after.report.cached_tokens


@pytest.mark.model
def test_a_snapshot_outlives_its_process(managed_engine: ManagedEngine) -> None:
    state = managed_engine.open_state()
    last = converse(managed_engine, state, 8)[-1]
    snapshot = state.snapshot()
    assert len(snapshot.data) > 10_000
    original = ask(state, last.prompt + last.ids[:-1] + [33, 44], 6)
    managed_engine.begin_pass()
    copy = ask(managed_engine.restore(snapshot), original.prompt, 6)
    assert copy.same_as(original)
    assert copy.report.cached_tokens == len(snapshot.ids) and copy.report.problem is None
    assert list(managed_engine.server.slot_folder.iterdir()) == []


@pytest.mark.model
def test_what_is_recorded_holds_the_command_but_no_path(managed_engine: ManagedEngine, model_path: Path) -> None:
    info = managed_engine.describe()
    recorded = str(info.settings["command"])
    assert recorded.startswith(f"llama-server --model {model_path.name} ")
    assert str(model_path.parent) not in repr((info.build, info.settings, info.model))
    report = ask(managed_engine.open_state(), first_prompt(managed_engine), 2).report
    assert str(model_path.parent) not in f"{report.raw_request}{report.raw_response}"
    assert info.name == "llama-server (managed)" and info.capabilities.reset
    assert info.settings["total_slots"] == 1 and info.settings["n_ctx"] == 1024
    assert len(str(info.model["sha256"])) == 64


@pytest.mark.model
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_killed_server_is_an_event_that_carries_its_last_lines(model_path: Path, when: str) -> None:
    engine = ManagedEngine(model_path, settings())
    prompt = first_prompt(engine)
    state = engine.open_state()
    if when == "during":
        threading.Timer(0.5, os.kill, (engine.server.pid, signal.SIGKILL)).start()
    else:
        if when == "after":
            ask(state, prompt, 3)
        os.kill(engine.server.pid, signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(EngineDied, match="llama-server ended by signal SIGKILL") as died:
        ask(state, prompt, 900)
    assert time.monotonic() - begin < 2
    assert "What was recorded stays" in died.value.hint and "Its last lines" in died.value.hint
    engine.begin_pass()  # a new history can begin where the old one died
    assert ask(engine.open_state(), prompt, 3).report.cached_tokens == 0
    engine.close()
    engine.close()


@pytest.mark.model
def test_the_server_ends_when_forkpoint_is_killed(model_path: Path) -> None:
    code = f"""
from pathlib import Path
from app.engine.llama_server.managed import ManagedServer
from app.engine.server_settings import ManagedSettings

if __name__ == "__main__":
    server = ManagedServer(Path({str(model_path)!r}), ManagedSettings(Path({str(llama_server_binary())!r}), 512))
    print(server.pid, flush=True)
    input()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None and parent.stdin is not None
    server = int(parent.stdout.readline())
    assert not ends_within(server, 0.2)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    parent.stdin.close()
    assert ends_within(server, 1)


@pytest.mark.model
def test_the_server_ends_even_when_its_guard_is_killed(model_path: Path, start: Start) -> None:
    server = start(model_path)
    guard = int(Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert guard != os.getpid()
    os.kill(guard, signal.SIGKILL)
    assert ends_within(server.pid, 1)
    end = server.ended(1)
    assert end is not None and "SIGKILL" in end.message
