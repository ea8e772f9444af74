"""Servers of other people's making, as real processes: import the fixtures where they are needed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

READY_SECONDS = 60.0
N_CTX = 1024


@pytest.fixture(scope="session")
def llama_cpp_python_server(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of llama-cpp-python's own server with the default model, logprobs on, one thread, 1,024 tokens."""
    with llama_cpp_python(model_path, tmp_path_factory.mktemp("llama_cpp") / "log.txt") as url:
        yield url


@contextlib.contextmanager
def llama_cpp_python(model: Path, log: Path, *flags: str) -> Iterator[str]:
    """Run `python -m llama_cpp.server` on a free loopback port; whatever happens, it ends with the block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--host", "127.0.0.1", "--port", str(port),
        "--n_ctx", str(N_CTX), "--n_threads", "1", "--n_threads_batch", "1", "--verbose", "false",
        *(flags or ("--logits_all", "true")),
    ]  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        _await(url, process, log)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    with httpx.Client(timeout=5) as client:
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{url}/v1/models").is_success:
                    return
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
    pytest.fail(f"the server did not come up:\n{log.read_text(errors='replace')[-2000:]}")
