"""HTTP to one server: one kept connection, stopped within a second, every failure a sentence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from app.engine.base import StopFlag
from app.engine.http.address import base_url, read_key
from app.engine.http.answer import json_of, refusal, text_of
from app.engine.http.line import Line, RawAnswer
from app.engine.server_settings import KEY_VARIABLE, ServerSettings
from app.errors import EngineDied, ServerRefused

MAX_REDIRECTS: Final = 3

_LOOK_AT_STOP_S: Final = 0.05
_SHORTEST_SECRET: Final = 8
"""A key below this is a placeholder ("none", "x") and is not searched for in what the server says."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's answer: `text` is its body, `elapsed_ms` the time from asking until all of it was there."""

    status: int
    text: str
    elapsed_ms: float
    source: str = field(default="", kw_only=True)

    def json(self) -> Any:
        """The body as JSON. Raises EngineError that names what came instead: an HTML page, a part, nothing."""
        return json_of(self.text, self.source)


class Server:
    """One server by its base URL. Used by one thread at a time; `close` ends the connection.

    `url` is normalised: base path kept, no trailing slash. `connections` counts the TCP connections made so far: where
    it grew, the server may have been restarted with another model. Raises SettingsError for an address or a key that
    cannot be used. `transport` stands in for the network in tests.
    """

    def __init__(self, url: str, settings: ServerSettings, *, transport: httpx.BaseTransport | None = None) -> None:
        self._url = base_url(url)
        self._settings = settings
        self._transport = transport
        self._key = read_key(self._url, settings)
        self._line: Line | None = self._new_line()
        self._connections_before = 0
        self.url = str(self._url)

    @property
    def connections(self) -> int:
        """How many TCP connections were made so far."""
        return self._connections_before + (self._line.connections if self._line else 0)

    def get(self, path: str, *, stop: StopFlag | None = None) -> Reply:
        """GET `path` below the base URL; see `post`."""
        return self._ask("GET", path, None, stop)

    def post(self, path: str, body: Mapping[str, object] | None, *, stop: StopFlag | None = None) -> Reply:
        """POST `body` as JSON to `path` below the base URL.

        A `stop` cuts the connection, so that the server stops as well, and raises EngineDied within a second. Raises
        ServerRefused for any status but 2xx and for a redirect to another host, EngineDied where nothing listens, the
        connection breaks or a timeout passes, EngineError for a body that is too large or no UTF-8.
        """
        return self._ask("POST", path, body, stop)

    def close(self) -> None:
        """End the connection; closing twice is harmless."""
        if self._line is not None:
            self._line.close()

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None, stop: StopFlag | None) -> Reply:
        if stop is not None and stop.is_set():
            raise _stopped()
        line = self._line = self._line or self._new_line()
        work = _in_thread(lambda: self._reply(line, method, path, body))
        try:
            while not wait([work], None if stop is None else _LOOK_AT_STOP_S).done:
                if stop is not None and stop.is_set():
                    raise _stopped()
            return work.result()
        finally:
            if not work.done():
                # Where it hangs without a socket (a name look-up, a connect) it ends later, alone, on its own line.
                line.cut()
                work.add_done_callback(lambda _: line.close())
                self._connections_before += line.connections
                self._line = None

    def _reply(self, line: Line, method: str, path: str, body: Mapping[str, object] | None) -> Reply:
        source = f"{method} {self.url}{path}"
        began = time.perf_counter()
        answer = self._follow(line, method, httpx.URL(self.url + path), body, source)
        elapsed_ms = 1e3 * (time.perf_counter() - began)
        if not 200 <= answer.status < 300:
            text = self._without_key(answer.body.decode("utf-8", errors="replace"))
            key_source = str(self._settings.key_file or KEY_VARIABLE) if self._key else ""
            raise refusal(answer.status, text, source, key_source)
        return Reply(answer.status, self._without_key(text_of(answer.body, source)), elapsed_ms, source=source)

    def _follow(
        self, line: Line, method: str, url: httpx.URL, body: Mapping[str, object] | None, source: str
    ) -> RawAnswer:
        """The answer at the end of the redirects. The method stays: a POST made a GET would ask something else."""
        origin = (url.scheme, url.host, url.port)
        answer = line.ask(method, url, body)
        for _ in range(MAX_REDIRECTS):
            if answer.target is None:
                return answer
            if (answer.target.scheme, answer.target.host, answer.target.port) != origin:
                raise ServerRefused(
                    f"{_origin(url)} sends {source} on to {_origin(answer.target)}, which Forkpoint does not follow: "
                    "prompts and keys go where you sent them.",
                    "If you trust it, give that address yourself.",
                    status=answer.status,
                )
            answer = line.ask(method, answer.target, body)
        if answer.target is not None:
            raise ServerRefused(f"{source} was redirected more than {MAX_REDIRECTS} times.", status=answer.status)
        return answer

    def _without_key(self, text: str) -> str:
        """Some servers say a wrong key back."""
        return text.replace(self._key, "[API key]") if len(self._key) >= _SHORTEST_SECRET else text

    def _new_line(self) -> Line:
        return Line(self._url, self._key, self._settings, self._transport)


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _stopped() -> EngineDied:
    return EngineDied("The request was stopped.", "The server was told so by the end of the connection.")


def _in_thread(work: Callable[[], Reply]) -> Future[Reply]:
    """`work()` in a thread of its own that nobody has to wait for."""
    future: Future[Reply] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="http-request", daemon=True).start()
    return future
