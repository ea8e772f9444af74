"""Servers before a run: who answers at an address and what it can do, and the one that is started here."""

from __future__ import annotations

import logging
import shlex
import threading
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from app.engine.base import EngineInfo
from app.engine.opening import open_engine
from app.engine.server_settings import ManagedSettings, ServerSettings
from app.errors import AppError, EngineDied, ServerRefused
from app.session.replay import server_binary

if TYPE_CHECKING:  # HTTP is loaded where a server is asked
    from app.engine.http.server import Server

log = logging.getLogger(__name__)

PULSE_S = 2.0
"""How often a server is asked whether it is there."""

_SHOWN_PORT = 8080


class ConnectionTest:
    """Asks the server at `url` what it is and what it can do, under way at once; then `info` or `failure` is there.

    The same tiny requests begin every run; on some servers they take one cache slot over.
    """

    def __init__(self, url: str, server: ServerSettings) -> None:
        self.info: EngineInfo | None = None
        self.failure: AppError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(url, server), name="connection test", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the answer is still to come."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Give up; it ends within a second in a failure that says so."""
        self._stop.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until it is over; False where the time ran out."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self, url: str, server: ServerSettings) -> None:
        try:
            engine = open_engine(url, None, server=server, stop=self._stop)
            try:
                self.info = engine.describe()
            finally:
                engine.close()
        except AppError as error:
            self.failure = error
        except Exception as error:
            log.exception("a bug ended the connection test")
            self.failure = AppError(f"The test ended unexpectedly: {error!r}.", "This is a bug; see the log.")


class Pulse:
    """Asks a server for /health every PULSE_S seconds until `close`; that loads no model and takes no slot.

    `is_there` is None until the first answer. Whatever answers by HTTP is there, a server that has no such path too.
    """

    def __init__(self, url: str, server: ServerSettings) -> None:
        self.is_there: bool | None = None
        self._over = threading.Event()
        self._settings = replace(server, connect_timeout_s=PULSE_S, read_timeout_s=5.0)
        threading.Thread(target=self._work, args=(url,), name="pulse", daemon=True).start()

    def close(self) -> None:
        """Stop asking; a request under way is cut. Closing twice is harmless."""
        self._over.set()

    def _work(self, url: str) -> None:
        from app.engine.detect import split
        from app.engine.http.server import Server

        try:
            asked = Server(split(url)[1].rstrip("/").removesuffix("/v1"), self._settings)
        except AppError:  # an address or a key that cannot be used: the connection test says why
            self.is_there = False
            return
        try:
            while not self._over.is_set():
                answers = self._answers(asked)
                if not self._over.is_set():
                    self.is_there = answers
                self._over.wait(PULSE_S)
        finally:
            asked.close()

    def _answers(self, asked: Server) -> bool:
        try:
            asked.get("/health", stop=self._over)
        except ServerRefused:
            return True
        except EngineDied:
            return False
        return True


def find_server(chosen: FilePath | None) -> FilePath:
    """The llama-server that is started here: the chosen one, else the environment's, Python's, or PATH's.

    Raises SettingsError where there is none. The first call takes a while, since it loads the engine's code.
    """
    from app.engine.llama_server.managed import find_binary

    return find_binary(ManagedSettings(binary=chosen or server_binary()))


def server_command(model: FilePath, settings: ManagedSettings) -> str:
    """The command that `settings` start, as one would type it; each start takes a free port and a new slots folder."""
    from app.engine.llama_server.managed import command

    return shlex.join(command(model, settings, _SHOWN_PORT))
