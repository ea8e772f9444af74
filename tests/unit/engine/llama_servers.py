"""Real llama-servers for tests: where the binary is, and processes that a test may kill, restart or talk to besides."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.http.server import Server
from app.engine.llama_server.engine import LlamaServerEngine
from app.engine.llama_server.managed import ManagedEngine, ManagedServer
from app.engine.server_settings import ManagedSettings, ServerSettings

VARIABLE = "FORKPOINT_LLAMA_SERVER"
REMOTE = ServerSettings(read_timeout_s=60)


def llama_server_binary() -> Path:
    """The one that the set-up built, else the one that the environment names; without either the test fails."""
    beside = Path(sys.executable).with_name("llama-server")
    named = os.environ.get(VARIABLE)
    binary = beside if beside.is_file() or not named else Path(named)
    if not binary.is_file():
        pytest.fail(f"There is no llama-server beside Python: `make test` builds it ({VARIABLE} may name another one).")
    return binary


def settings(**changes: object) -> ManagedSettings:
    """One thread and the context of the embedded engine in these tests."""
    own = ManagedSettings(binary=llama_server_binary(), threads=1, ctx_size=1024)
    return replace(own, **changes)  # type: ignore[arg-type]


@contextmanager
def remote(server: ManagedServer, own: ServerSettings = REMOTE) -> Iterator[LlamaServerEngine]:
    """An engine that knows of `server` no more than its URL."""
    engine = LlamaServerEngine(Server(server.url, own), own)
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="session")
def llama_server(model_path: Path) -> Iterator[ManagedServer]:
    """A llama-server with the default model; nobody may kill it. Its prompt cache would make tests meet each other."""
    server = ManagedServer(model_path, settings(cache_ram=0))
    yield server
    server.close()


@pytest.fixture(scope="session")
def managed_engine(model_path: Path) -> Iterator[ManagedEngine]:
    engine = ManagedEngine(model_path, settings(cache_ram=0))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def remote_engine(llama_server: ManagedServer) -> Iterator[LlamaServerEngine]:
    with remote(llama_server) as engine:
        yield engine


@pytest.fixture
def start() -> Iterator[Callable[..., ManagedServer]]:
    """Starts a server that the test may kill: start(model, port=0, **changes of its settings)."""
    servers: list[ManagedServer] = []

    def run(model: Path, port: int = 0, **changes: object) -> ManagedServer:
        servers.append(ManagedServer(model, settings(**changes), port=port))
        return servers[-1]

    yield run
    for server in servers:
        server.close()
