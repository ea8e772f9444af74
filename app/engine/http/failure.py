"""Why no whole answer came: from httpx's exceptions to sentences."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx

from app.engine.server_settings import ServerSettings
from app.errors import EngineDied, EngineError


def failure(error: httpx.RequestError, url: str, settings: ServerSettings, *, began: bool) -> EngineError:
    """The error for an exchange that failed; `began` says whether the answer had begun to come."""
    if isinstance(error, httpx.ConnectTimeout):
        return EngineDied(
            f"{url} did not take the connection within {settings.connect_timeout_s:g} s.",
            "Is the machine up, and does a firewall let the port through?"
            + " A server without TLS wants http://." * url.startswith("https:"),
        )
    if isinstance(error, httpx.TimeoutException):
        return EngineDied(
            f"{url} has sent nothing for {settings.read_timeout_s:g} s.",
            "It may hang, or work on a long prompt: look at its log, or raise --read-timeout-s.",
        )
    if isinstance(error, httpx.ProxyError):
        return EngineDied(
            f"The proxy on the way to {url} refused: {error}.", "Look at HTTP_PROXY, HTTPS_PROXY and NO_PROXY."
        )
    if isinstance(error, httpx.ConnectError):
        return _no_connection(error, url)
    if isinstance(error, httpx.DecodingError):
        return EngineError(f"The answer of {url} cannot be unpacked: {error}.")
    if isinstance(error, httpx.TransportError):
        when = "while the answer came" if began else "before an answer came"
        what = f"The connection to {url} broke {when}: {str(error).rstrip('.')}."
        return EngineDied(what, "The server ended or dropped it; look at its log.")
    return EngineError(f"{url} cannot be asked: {error}.")


def _no_connection(error: httpx.ConnectError, url: str) -> EngineDied:
    causes = list(_causes(error))
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return EngineDied(f"Nothing listens at {url}.", "Start the server, or look at host and port.")
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return EngineDied(f"The host of {url} is not known.", "Look at its spelling.")
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return EngineDied(
            f"No TLS connection to {url}: {error}.",
            "A certificate of your own is trusted when SSL_CERT_FILE names it; a plain server wants http://.",
        )
    return EngineDied(f"{url} cannot be reached: {error}.")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What lies behind an exception, the nearest first; a happy-eyeballs group is opened too."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
