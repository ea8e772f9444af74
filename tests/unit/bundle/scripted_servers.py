"""A loopback server that answers as llama-server or vLLM does, with what a test tells it to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Said = Callable[[list[int], bool], tuple[list[int], int | None]]
"""(prompt ids, whether the cache may be used) -> (answer ids, cached tokens or None where they are not reported)."""


class _Handler(BaseHTTPRequestHandler):
    said: Said
    bodies: list[dict[str, Any]]
    headers_seen: list[str]

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "made", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        self.headers_seen.append(self.headers.get("Authorization", ""))
        if self.path == "/completion":
            ids, cached = self.said(body["prompt"], body["cache_prompt"])
            text = 'a text that says "tokens":[1,2] and "cache_n":7'
            timings = {} if cached is None else {"cache_n": cached, "prompt_n": len(body["prompt"]) - cached}
            self._send({"index": 0, "content": text, "tokens": ids, "timings": timings})
        elif self.path == "/v1/completions":
            salts = {one["cache_salt"] for one in self.bodies[:-1]}
            ids, cached = self.said(body["prompt"], body["cache_salt"] in salts)
            details = None if cached is None else {"cached_tokens": cached}
            choice = {"text": 'says "token_ids":[9]', "token_ids": ids, "prompt_token_ids": body["prompt"]}
            self._send({"choices": [choice], "usage": {"prompt_tokens_details": details}})
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Not on the terminal."""

    def _send(self, reply: object) -> None:
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Served:
    """A running server: its `url`, and the `bodies` and Authorization `keys` that came."""

    def __init__(self, said: Said) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        handler = type(
            "Handler", (_Handler,), {"said": staticmethod(said), "bodies": self.bodies, "headers_seen": self.keys}
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def serving(said: Said) -> Iterator[Served]:
    server = Served(said)
    try:
        yield server
    finally:
        server.close()
