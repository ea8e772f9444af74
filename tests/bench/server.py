"""What the client of a llama-server costs: time beside the server's own, connections, memory over many requests.

Time is measured on a real server: the wall clock of an answer against the server's `prompt_ms` + `predicted_ms`. Memory
is measured against a process that replays one recorded real answer, so that 10,000 requests take a minute.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing.connection import Connection
from threading import Event

import numpy as np

from app.engine.base import GenerateRequest, StopFlag
from app.engine.default_model import default_model
from app.engine.http.server import Reply, Server
from app.engine.llama_server.engine import LlamaServerEngine
from app.engine.llama_server.managed import ManagedServer
from app.engine.llama_server.state import LlamaServerState
from app.engine.server_settings import ServerSettings
from app.trajectory.step import IdArray, Step, as_ids
from app.trajectory.trajectory import RequestReport
from tests.unit.engine.llama_servers import settings

STEPS = 64
ANSWERS = 12
OVERHEAD_BAR = 0.03
REQUESTS = 10_000
WARM_UP = 1_000
GROWTH_BAR_MIB = 4.0

Recorded = dict[str, tuple[int, str]]


def main() -> bool:
    """Print both figures; whether a bar is missed."""
    managed = ManagedServer(default_model(), settings(cache_ram=0))
    try:
        server = _Recorder(managed.url)
        engine = LlamaServerEngine(server, ServerSettings())
        first = _ask(engine.open_state())  # the refused question of the probe made the server close the connection
        assert first.cached_tokens == 0
        before = server.connections
        overhead = _overhead(engine)
        more = server.connections - before
        engine.close()
    finally:
        managed.close()
    growth, rate, kept = _growth(server.recorded)
    print(f"client overhead: {100 * overhead:.2f} % of wall time at {STEPS}-token answers with 5 rivals "
          f"(bar {100 * OVERHEAD_BAR:.0f} %), {more} new connections (bar 0)")  # fmt: skip
    print(f"memory: {growth:+.1f} MiB of peak RSS from request {WARM_UP:,} to {REQUESTS:,} (bar {GROWTH_BAR_MIB} MiB), "
          f"{rate:.0f} requests a second, {kept} connection(s) (bar 1)")  # fmt: skip
    return overhead > OVERHEAD_BAR or more > 0 or kept != 1 or growth > GROWTH_BAR_MIB


def _prompt() -> IdArray:
    return as_ids(np.random.default_rng(1).integers(1000, 40000, 16).tolist())


def _overhead(engine: LlamaServerEngine) -> float:
    """Median share of an answer's wall time that the server did not work, the first answer left out."""
    state, shares = engine.open_state(), []
    for _ in range(ANSWERS):
        began = time.perf_counter()
        report = _ask(state)
        wall_ms = 1e3 * (time.perf_counter() - began)
        assert report.prefill_ms is not None and report.decode_ms is not None
        shares.append(1 - (report.prefill_ms + report.decode_ms) / wall_ms)
    return statistics.median(shares[1:])


def _ask(state: LlamaServerState) -> RequestReport:
    items = list(state.generate(GenerateRequest(_prompt(), STEPS), Event()))
    report = items[-1]
    assert isinstance(report, RequestReport) and report.problem is None, report
    assert sum(isinstance(item, Step) for item in items) == STEPS, "the answer ended early: choose another prompt"
    return report


def _growth(recorded: Recorded) -> tuple[float, float, int]:
    """MiB that the peak RSS grew by after the warm-up, requests a second, connections made."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_replay, args=(theirs, recorded), daemon=True)
    process.start()
    try:
        server = Server(f"http://127.0.0.1:{ours.recv()}", ServerSettings())
        engine = LlamaServerEngine(server, ServerSettings())
        state = LlamaServerState(engine, np.concatenate([_prompt(), _prompt()[:1]]))
        for _ in range(WARM_UP):
            _ask(state)
        before, began = _peak_mib(), time.perf_counter()
        for _ in range(REQUESTS - WARM_UP):
            _ask(state)
        rate = (REQUESTS - WARM_UP) / (time.perf_counter() - began)
        engine.close()
        return _peak_mib() - before, rate, server.connections
    finally:
        process.kill()
        process.join()


def _peak_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _key(path: str, body: Mapping[str, object] | None) -> str:
    return f"{path} {(body or {}).get('n_predict')} {(body or {}).get('n_probs')}"


class _Recorder(Server):
    """Keeps the last answer to each kind of question."""

    def __init__(self, url: str) -> None:
        super().__init__(url, ServerSettings())
        self.recorded: Recorded = {}

    def get(self, path: str, *, stop: StopFlag | None = None) -> Reply:
        """See Server."""
        return self._keep(_key(path, None), super().get(path, stop=stop))

    def post(self, path: str, body: Mapping[str, object] | None, *, stop: StopFlag | None = None) -> Reply:
        """See Server."""
        return self._keep(_key(path, body), super().post(path, body, stop=stop))

    def _keep(self, key: str, reply: Reply) -> Reply:
        self.recorded[key] = (reply.status, reply.text)
        return reply


def _replay(connection: Connection, recorded: Recorded) -> None:
    """In a process of its own: answer as recorded, over one kept connection."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Mapping[str, object] | None) -> None:
            status, text = recorded.get(_key(self.path, body), (501, "{}"))
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    connection.send(server.server_port)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
