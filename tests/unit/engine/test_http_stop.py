"""Hangs, timeouts and stops, on real sockets: a stop ends whatever goes on within a second."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.engine.http.server import Server
from app.engine.server_settings import ServerSettings
from app.errors import EngineDied
from tests.unit.engine.broken_server import (
    LOOPBACK_PEM,
    BrokenServer,
    answer,
    hang,
)
from tests.unit.engine.serving import HEAD, clean_environment, serving, stop_after

__all__ = ["clean_environment"]


def assert_stops(broken: BrokenServer, server: Server, at_most_s: float = 1.0) -> None:
    stop = stop_after(0.2)
    began = time.monotonic()
    with pytest.raises(EngineDied, match="was stopped"):
        server.post("/completion", {}, stop=stop)
    assert time.monotonic() - began < 0.2 + at_most_s
    assert broken.hung_up.wait(1), "the server did not see the client leave"
    broken.behaviour = answer({"after": "the stop"})
    assert server.post("/completion", {}, stop=threading.Event()).json() == {"after": "the stop"}
    assert server.connections == 2
    server.close()


@pytest.mark.parametrize("data", [b"", HEAD, HEAD + b'Content-Length: 90\r\n\r\n{"text": "half'])
def test_a_stop_ends_a_hanging_answer_within_a_second_and_the_server_sees_it(data: bytes) -> None:
    with BrokenServer(hang(data)) as broken:
        assert_stops(broken, Server(broken.url, ServerSettings()))


def test_a_stop_ends_a_hanging_answer_on_a_kept_connection() -> None:
    with BrokenServer(answer({})) as broken:
        server = Server(broken.url, ServerSettings())
        server.get("/props")
        broken.behaviour = hang()
        assert_stops(broken, server)


def test_a_stop_ends_an_endless_answer() -> None:
    def trickle(connection: socket.socket, _: object) -> None:
        connection.sendall(HEAD + b"Connection: close\r\n\r\n")
        while True:
            connection.sendall(b" ")
            if connection in select.select([connection], [], [], 0.02)[0]:
                raise ConnectionResetError("the client left")

    with BrokenServer(trickle) as broken:
        assert_stops(broken, Server(broken.url, ServerSettings(read_timeout_s=0.5)))


def test_a_stop_that_came_before_asks_nothing() -> None:
    stop = threading.Event()
    stop.set()
    with serving(answer({})) as (broken, server):
        with pytest.raises(EngineDied, match="was stopped"):
            server.get("/props", stop=stop)
        assert not broken.received


@contextmanager
def full_queue() -> Iterator[int]:
    """A port that takes no further connection and refuses none."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        try:
            yield address[1]
        finally:
            for each in waiting:
                each.close()


def test_a_connection_that_nobody_takes_runs_into_its_timeout() -> None:
    with full_queue() as port:
        server = Server(f"http://127.0.0.1:{port}", ServerSettings(connect_timeout_s=0.3))
        with pytest.raises(EngineDied, match=r"did not take the connection within 0\.3 s"):
            server.get("/props")
        server.close()


def test_a_stop_ends_a_connection_that_nobody_takes_within_a_second() -> None:
    with full_queue() as port:
        server = Server(f"http://127.0.0.1:{port}", ServerSettings(connect_timeout_s=3))
        began = time.monotonic()
        with pytest.raises(EngineDied, match="was stopped"):
            server.get("/props", stop=stop_after(0.2))
        assert time.monotonic() - began < 1.2
        server.close()


def test_an_answer_that_does_not_come_runs_into_its_timeout() -> None:
    with serving(hang(), ServerSettings(read_timeout_s=0.3)) as (broken, server):
        with pytest.raises(EngineDied, match=r"sent nothing for 0\.3 s.*--read-timeout-s"):
            server.post("/completion", {})
        assert broken.hung_up.wait(1)


def test_a_stop_ends_a_hanging_tls_answer_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(LOOPBACK_PEM))
    with BrokenServer(hang(), tls=True) as broken:
        assert_stops(broken, Server(broken.url, ServerSettings()))
