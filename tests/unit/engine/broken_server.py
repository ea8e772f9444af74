"""A server on a real socket that misbehaves on order."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOOPBACK_PEM = Path(__file__).with_name("loopback.pem")
"""Key and certificate of localhost and 127.0.0.1, for tests only, signed by itself."""


@dataclass(frozen=True)
class Received:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Behaviour = Callable[[socket.socket, Received], None]
"""What is done with a request. The connection is kept where it returns, and closed where it raises OSError."""


class BrokenServer:
    """Does what `behaviour` says with each request; `hung_up` is set when a client leaves early."""

    def __init__(self, behaviour: Behaviour, *, tls: bool = False) -> None:
        self.behaviour = behaviour
        self.received: list[Received] = []
        self.hung_up = threading.Event()
        self._tls = tls
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> BrokenServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and reset every connection, as a server that is killed."""
        _shut(self._listener)
        for connection in self._open:
            _shut(connection)
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(LOOPBACK_PEM)
                connection = context.wrap_socket(connection, server_side=True)
            with connection:
                while (request := _read(connection)) is not None:
                    self.received.append(request)
                    self.behaviour(connection, request)
            return
        self.hung_up.set()


def answer(body: bytes | object, status: str = "200 OK", **headers: str) -> Behaviour:
    """A whole answer; anything but bytes goes out as JSON. Header names with _ for -."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return raw("\r\n".join(lines).encode() + b"\r\n\r\n" + content, keep=True)


def raw(data: bytes, *, keep: bool = False) -> Behaviour:
    """These bytes, and then the end of the connection unless `keep`."""

    def behave(connection: socket.socket, _: Received) -> None:
        connection.sendall(data)
        if not keep:
            _shut(connection)

    return behave


def hang(data: bytes = b"") -> Behaviour:
    """These bytes, and then nothing until the client leaves."""

    def behave(connection: socket.socket, _: Received) -> None:
        connection.sendall(data)
        if not connection.recv(1):
            raise ConnectionResetError("the client left")

    return behave


def reset(data: bytes = b"") -> Behaviour:
    """These bytes, and then a reset, as from a process that was killed."""

    def behave(connection: socket.socket, _: Received) -> None:
        connection.sendall(data)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        raise ConnectionResetError("this side left")

    return behave


def flood(chunk: bytes) -> Behaviour:
    """A body without an end."""

    def behave(connection: socket.socket, _: Received) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            connection.sendall(chunk)

    return behave


def by_path(**behaviours: Behaviour) -> Behaviour:
    """One behaviour for each last part of a path; 404 else."""

    def behave(connection: socket.socket, request: Received) -> None:
        name = request.target.partition("?")[0].rpartition("/")[2]
        behaviours.get(name, answer({"error": {"message": "no such path"}}, "404 Not Found"))(connection, request)

    return behave


def _read(connection: socket.socket) -> Received | None:
    """The next request; None where the client has closed the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    method, target, _ = first.split(" ")
    return Received(method, target, headers, body)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
