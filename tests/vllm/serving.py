"""A real vLLM server in one of three configurations, on a free loopback port."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]
VENV = Path(os.environ.get("VLLM_VENV", ROOT / ".venv-vllm"))
MODEL = VENV / "model"
READY_SECONDS = 300


@dataclass(frozen=True)
class Configuration:
    """What STUDY calls a path's numbers depend on; everything else is the same in all three."""

    name: str
    dtype: str
    threads: int

    @property
    def environment(self) -> dict[str, str]:
        bind = "0" if self.threads == 1 else "nobind"
        return {"VLLM_CPU_OMP_THREADS_BIND": bind, "OMP_NUM_THREADS": str(self.threads), "OMP_WAIT_POLICY": "PASSIVE"}


CLEAN = Configuration("clean", "bfloat16", 1)
TOLERANCE = Configuration("tolerance", "float32", 1)
DRIFT = Configuration("drift", "bfloat16", 2)

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_LOOPBACK_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
}

_FLAGS = (
    *("--served-model-name", "smollm2", "--host", "127.0.0.1", "--enforce-eager", "--max-model-len", "1024"),
    *("--max-num-seqs", "4", "--block-size", "32", "--enable-prefix-caching", "--max-logprobs", "20"),
)


def computes_bfloat16() -> bool:
    """Whether this processor has bfloat16 instructions: vLLM loads other kernels then than on plain AVX2."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    return bool({"avx512_bf16", "amx_bf16"}.intersection(flags))


@contextmanager
def serving(configuration: Configuration, log: Path, *flags: str) -> Iterator[str]:
    """The URL of a server that is ready; it is ended at the end. `flags` are added to the command line."""
    port = _free_port()
    command = [str(VENV / "bin/python"), "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODEL), *_FLAGS]
    command += ["--port", str(port), "--dtype", configuration.dtype, *flags]
    environment = {**os.environ, **_ENVIRONMENT, **configuration.environment}
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            _await(url, server, log)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _await(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    pause = Event()
    for _ in range(READY_SECONDS):
        if server.poll() is not None:
            raise RuntimeError(f"vLLM ended: {log.read_text()[-3000:]}")
        try:
            with urlopen(f"{url}/health", timeout=2):
                return
        except (URLError, ConnectionError, TimeoutError):
            pause.wait(1)
    raise RuntimeError(f"vLLM was not ready after {READY_SECONDS} s: {log.read_text()[-3000:]}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
