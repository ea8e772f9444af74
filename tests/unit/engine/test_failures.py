"""The engine's process dies, is killed, is stopped, or its parent goes: each for real."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from app.engine.base import GenerateRequest, Progress
from app.engine.embedded.engine import EmbeddedEngine
from app.engine.process import ChildProcess
from app.engine.settings import EmbeddedSettings
from app.errors import EngineDied, EngineError, ModelFileError
from app.trajectory.step import Step, as_ids
from tests.unit.engine.conftest import SETTINGS
from tests.unit.engine.conversation import ask, first_prompt
from tests.unit.engine.tiny_models import write_sliding_window_model

pytestmark = pytest.mark.model

ROOT = Path(__file__).parents[3]


def ends_within(pid: int, seconds: float) -> bool:
    """Whether the process `pid` ends in time; needs no right to reap it."""
    handle = os.pidfd_open(pid)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def test_a_killed_engine_is_an_event_within_a_second(doomed: EmbeddedEngine) -> None:
    state = doomed.open_state()
    steps = 0
    with pytest.raises(EngineDied, match="SIGKILL") as died:
        for item in state.generate(GenerateRequest(as_ids(first_prompt(doomed)), 500), threading.Event()):
            if isinstance(item, Step):
                steps += 1
                if steps == 3:
                    assert doomed.pid is not None
                    os.kill(doomed.pid, signal.SIGKILL)
                    begin = time.monotonic()
    assert time.monotonic() - begin < 1
    assert "What was recorded stays" in died.value.hint
    with pytest.raises(EngineDied):
        doomed.open_state()
    state.close()


def _abort(connection: Connection, path: Path) -> None:
    import llama_cpp

    from app.engine.embedded.llama_model import LlamaModel
    from app.engine.embedded.llama_state import LlamaState

    state = LlamaState(LlamaModel(path, replace(SETTINGS, n_batch=64, n_ubatch=64)))
    connection.send("ready")
    too_many = (llama_cpp.llama_token * 100)(*range(100))
    llama_cpp.llama_decode(state.context, llama_cpp.llama_batch_get_one(too_many, 100))


def test_an_abort_in_native_code_is_an_event_that_carries_its_last_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    process = ChildProcess("abort", _abort, write_sliding_window_model(tmp_path / "tiny.gguf"))
    assert process.receive() == "ready"
    begin = time.monotonic()
    with pytest.raises(EngineDied, match="SIGABRT") as died:
        process.receive()
    assert time.monotonic() - begin < 1
    assert "GGML_ASSERT" in died.value.hint
    process.close()
    assert capfd.readouterr() == ("", "")


def test_nothing_native_is_printed_to_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    engine = EmbeddedEngine(write_sliding_window_model(tmp_path / "tiny.gguf"), SETTINGS)
    engine.close()
    assert capfd.readouterr() == ("", "")


def test_a_stop_during_a_long_prefill_kills_the_engine_within_a_second(model_path: Path) -> None:
    engine = EmbeddedEngine(model_path, replace(SETTINGS, n_ctx=2048, n_ubatch=2048))
    state = engine.open_state()
    stop = threading.Event()
    prompt = (first_prompt(engine) * 100)[:2000]
    with pytest.raises(EngineDied, match="stopped in the middle"):
        for item in state.generate(GenerateRequest(as_ids(prompt), 5), stop):
            assert isinstance(item, Progress)
            threading.Timer(0.2, stop.set).start()
            begin = time.monotonic()
    assert time.monotonic() - begin < 1.2
    engine.close()


def test_the_child_ends_when_its_parent_is_killed_in_the_middle_of_a_prefill(model_path: Path) -> None:
    code = f"""
import sys, threading
from pathlib import Path
from app.engine.base import GenerateRequest
from app.engine.embedded.engine import EmbeddedEngine
from app.engine.settings import EmbeddedSettings
from app.trajectory.step import as_ids

if __name__ == "__main__":
    engine = EmbeddedEngine(Path({str(model_path)!r}), EmbeddedSettings(threads=1, n_ctx=2048, n_ubatch=2048))
    answer = engine.open_state().generate(GenerateRequest(as_ids(range(100, 2000)), 500), threading.Event())
    next(answer)
    print(engine.pid, flush=True)
    next(answer)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert not ends_within(child, 0.2)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert ends_within(child, 1)


def test_ctrl_c_is_the_parent_s_business(engine: EmbeddedEngine) -> None:
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGINT)
    assert engine.tokenize("still here", special=False)


def test_a_closed_engine_leaves_no_process_and_says_that_it_is_closed(model_path: Path) -> None:
    before = set(multiprocessing.active_children())
    engine = EmbeddedEngine(model_path, SETTINGS)
    state = engine.open_state()
    pid = engine.pid
    assert pid is not None
    engine.close()
    engine.close()
    state.close()
    assert set(multiprocessing.active_children()) == before
    with pytest.raises(EngineDied, match="closed"):
        engine.open_state()


def test_a_missing_model_is_a_sentence_and_leaves_no_process(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(ModelFileError, match="cannot be read"):
        EmbeddedEngine(tmp_path / "none.gguf", SETTINGS)
    assert set(multiprocessing.active_children()) == before


def test_a_model_that_this_build_cannot_run_is_a_sentence_with_llama_cpp_s_reason(tmp_path: Path) -> None:
    path = write_sliding_window_model(tmp_path / "unknown.gguf")
    path.write_bytes(path.read_bytes().replace(b"gemma3", b"gemma0"))
    with pytest.raises(ModelFileError, match="cannot be loaded") as refused:
        EmbeddedEngine(path, SETTINGS)
    assert "unknown model architecture" in refused.value.hint


def test_settings_that_do_not_go_together_are_a_sentence(tmp_path: Path) -> None:
    path = write_sliding_window_model(tmp_path / "tiny.gguf")
    with pytest.raises(EngineError, match="cannot make a context"):
        EmbeddedEngine(path, replace(SETTINGS, type_v="q8_0", flash_attention=False))


@pytest.mark.parametrize("wrong", [-1, 49152, 2_000_000_000])
def test_a_prompt_with_an_id_beyond_the_vocabulary_is_a_sentence(engine: EmbeddedEngine, wrong: int) -> None:
    state = engine.open_state()
    with pytest.raises(EngineError, match=f"holds id {wrong}"):
        ask(state, [1, 2, wrong])
    assert ask(state, first_prompt(engine), 2).report.cached_tokens == 0
    state.close()


def test_a_model_that_speaks_half_characters_and_never_ends_is_recorded_as_it_is(tmp_path: Path) -> None:
    engine = EmbeddedEngine(write_sliding_window_model(tmp_path / "tiny.gguf"), EmbeddedSettings(threads=1, n_ctx=256))
    state = engine.open_state()
    answer = ask(state, [(index * 7) % 250 + 3 for index in range(200)], 1000)
    assert answer.report.finish_reason == "length" and len(answer.steps) == 57
    with pytest.raises(UnicodeDecodeError):
        answer.steps[0].piece.decode()
    engine.close()


def test_two_states_do_not_touch_each_other(engine: EmbeddedEngine) -> None:
    one, two = engine.open_state(), engine.open_state()
    prompt = first_prompt(engine)
    ask(one, prompt, 4)
    assert ask(two, prompt, 4).report.cached_tokens == 0
    assert ask(one, prompt, 4).report.cached_tokens == len(prompt) - 1
    one.close()
    two.close()


def test_the_parent_stays_free_of_llama_cpp() -> None:
    code = "import sys, app.engine.embedded.engine, app.engine.opening; print('llama_cpp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
