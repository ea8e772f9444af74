"""The line to a server: one httpx client with one kept connection, which another thread can cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from app.engine.http.address import is_loopback
from app.engine.http.failure import failure
from app.engine.server_settings import ServerSettings
from app.errors import EngineError, SettingsError

MAX_REPLY_BYTES: Final = 256 * 2**20
"""Largest body that is read; a 4,096-token answer with 20 rivals a step has some 10 MiB."""

KEEP_ALIVE_S: Final = 4.0
"""An idle connection is given up before uvicorn and cpp-httplib do it (5 s), else a request may meet its end."""

_REDIRECTS: Final = (301, 302, 307, 308)
"""Those that ask the same again elsewhere; 303 asks for something else."""


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """A status, where a redirect leads to (None: it is none), and the body."""

    status: int
    target: httpx.URL | None
    body: bytes


class Line:
    """One connection at a time to one server, kept between requests; `connections` counts those made.

    Proxies and certificates of the environment are honoured, but a loopback address goes through no proxy. Raises
    SettingsError where they cannot be used. `transport` stands in for the network in tests.
    """

    def __init__(
        self, url: httpx.URL, key: str, settings: ServerSettings, transport: httpx.BaseTransport | None
    ) -> None:
        self._url = url
        self._settings = settings
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_cut = False
        self.connections = 0
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_ALIVE_S)
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "forkpoint"}
        try:
            if transport is None and is_loopback(url.host):
                transport = httpx.HTTPTransport(limits=limits)  # one that is given makes httpx ignore proxies
            self._client = httpx.Client(
                transport=transport,
                limits=limits,
                headers={**headers, "Authorization": f"Bearer {key}"} if key else headers,
                timeout=httpx.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s),
            )
        except (ImportError, ValueError, OSError) as error:  # a SOCKS proxy, no proxy's address, no certificate file
            raise SettingsError(
                f"The proxy or certificate settings of the environment cannot be used: {error}.",
                "Look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE.",
            ) from error

    def ask(self, method: str, url: httpx.URL, body: Mapping[str, object] | None) -> RawAnswer:
        """One exchange, redirects not followed. Raises EngineDied or EngineError where no whole answer comes."""
        began = False
        content = bytearray()
        try:
            with self._client.stream(method, url, json=body, extensions={"trace": self._trace}) as response:
                began = True
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > MAX_REPLY_BYTES:
                        raise EngineError(
                            f"The answer of {self._url} is larger than {MAX_REPLY_BYTES // 2**20} MiB.",
                            "Ask for fewer tokens or rivals.",
                        )
        except httpx.RequestError as error:
            raise failure(error, str(self._url), self._settings, began=began) from error
        location = response.headers.get("Location") if response.status_code in _REDIRECTS else None
        return RawAnswer(response.status_code, None if location is None else url.join(location), bytes(content))

    def cut(self) -> None:
        """Cut the connection under an exchange; both sides see its end at once. The line is of no use any more."""
        with self._lock:
            self._is_cut = True
            self._shut_down()

    def close(self) -> None:
        """End the connection; closing twice is harmless."""
        self._client.close()

    def _trace(self, event: str, facts: dict[str, Any]) -> None:
        """httpcore tells what it does; its sockets are to be had nowhere else."""
        if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        with self._lock:
            self.connections += event.endswith("connect_tcp.complete")
            self._socket = facts["return_value"].get_extra_info("socket")
            if self._is_cut:
                self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # the other side was faster
                # An SSLSocket's own shutdown would drop its TLS state under the reading thread.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
