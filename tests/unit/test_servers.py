"""Servers before a run: the connection test and the pulse, at real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from app.errors import SettingsError
from app.session import ConnectionTest, ManagedSettings, Pulse, ServerSettings, find_server, server_command
from app.session.servers import PULSE_S

WAIT_S = 10.0


class Health(BaseHTTPRequestHandler):
    """Answers /health as llama-server does while it loads, and knows no other path."""

    def do_GET(self) -> None:
        self.send_response(503 if self.path == "/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()
        asked: list[float] = self.server.asked  # type: ignore[attr-defined]
        asked.append(time.monotonic())

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def loading() -> Iterator[tuple[str, list[float]]]:
    """The address of a server that loads its model, and when it was asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Health)
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", server.asked  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of something that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def await_(said: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    beat = threading.Event()
    while not said():
        assert time.monotonic() < end, "it did not happen"
        beat.wait(0.01)


def test_whatever_answers_by_http_is_there(loading: tuple[str, list[float]]) -> None:
    pulse = Pulse(loading[0], ServerSettings())
    await_(lambda: pulse.is_there is not None)
    pulse.close()
    assert pulse.is_there is True


def test_a_kind_and_v1_in_the_address_do_not_hide_a_server(loading: tuple[str, list[float]]) -> None:
    pulse = Pulse(f"openai+{loading[0]}/v1", ServerSettings())
    await_(lambda: pulse.is_there is not None)
    pulse.close()
    assert pulse.is_there is True


def test_nobody_is_not_there(nobody: str) -> None:
    pulse = Pulse(nobody, ServerSettings())
    await_(lambda: pulse.is_there is not None)
    pulse.close()
    assert pulse.is_there is False


def test_a_server_is_asked_at_most_every_two_seconds_and_not_after_the_end(loading: tuple[str, list[float]]) -> None:
    pulse = Pulse(loading[0], ServerSettings())
    await_(lambda: len(loading[1]) == 2)
    pulse.close()
    assert loading[1][1] - loading[1][0] >= PULSE_S - 0.05
    assert not threading.Event().wait(PULSE_S + 0.3)
    assert len(loading[1]) == 2


def test_a_test_of_nobody_says_so(nobody: str) -> None:
    test = ConnectionTest(nobody, ServerSettings())
    assert test.join(WAIT_S)
    assert test.info is None
    assert test.failure is not None
    assert "Nothing listens" in test.failure.message


def test_a_test_of_something_that_hangs_is_given_up_within_a_second(silent: str) -> None:
    test = ConnectionTest(silent, ServerSettings())
    assert not test.join(0.3)
    began = time.monotonic()
    test.stop()
    assert test.join(WAIT_S)
    assert time.monotonic() - began < 1.0
    assert test.failure is not None


def test_the_environment_names_the_server_where_none_is_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named, chosen = tmp_path / "named", tmp_path / "chosen"
    for file in (named, chosen):
        file.touch()
    monkeypatch.setenv("FORKPOINT_LLAMA_SERVER", str(named))
    assert find_server(None) == named
    assert find_server(chosen) == chosen
    with pytest.raises(SettingsError, match="There is no llama-server"):
        find_server(tmp_path / "absent")


def test_the_command_is_what_one_would_type() -> None:
    managed = ManagedSettings(binary=Path("llama server"), cache_ram=0, threads=1)
    line = server_command(Path("model.gguf"), managed)
    assert line.startswith("'llama server' --model model.gguf ")
    assert "--cache-ram 0" in line
