"""A Server and the BrokenServer that it talks to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.engine.http.server import Server
from app.engine.server_settings import KEY_VARIABLE, ServerSettings
from tests.unit.engine.broken_server import Behaviour, BrokenServer

KEY = "sk-test-0123456789abcdef"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KEY_VARIABLE, "SSL_CERT_FILE", *PROXIES, *map(str.lower, PROXIES)):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def serving(behaviour: Behaviour, settings: ServerSettings | None = None) -> Iterator[tuple[BrokenServer, Server]]:
    with BrokenServer(behaviour) as broken:
        server = Server(broken.url, settings or ServerSettings())
        try:
            yield broken, server
        finally:
            server.close()


def stop_after(seconds: float) -> threading.Event:
    stop = threading.Event()
    threading.Timer(seconds, stop.set).start()
    return stop
