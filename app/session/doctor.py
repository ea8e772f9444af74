"""The doctor in a thread of its own: an examination of an engine that can be followed and stopped."""

from __future__ import annotations

import logging
import threading
from collections import deque
from pathlib import Path as FilePath

from app.engine.opening import is_url, open_engine
from app.engine.server_settings import ManagedSettings, ServerSettings
from app.engine.settings import EmbeddedSettings
from app.errors import AppError, SettingsError
from app.experiment.doctor import examine
from app.experiment.doctor_diagnosis import Diagnosis

log = logging.getLogger(__name__)


class Examination:
    """One examination, under way at once. What it is at gathers in `said`; then `diagnosis` or `failure` is there.

    `target` is the URL of a server, "managed", "embedded", or a GGUF file for the embedded engine. The first evicts
    what others have in that server's cache, so `server.allow_reset` must be set for it (SettingsError,
    as for a target that is none of these).
    """

    def __init__(
        self,
        target: str,
        *,
        probes: int = 6,
        model: FilePath | None = None,
        settings: EmbeddedSettings | None = None,
        server: ServerSettings | None = None,
        managed: ManagedSettings | None = None,
    ) -> None:
        if evicts_others(target) and not (server and server.allow_reset):
            raise SettingsError(
                "The doctor evicts what others have in that server's cache.",
                "Allow it with --allow-reset where that does no harm.",
            )
        is_named = is_url(target) or target in ("embedded", "managed")
        if not is_named and not FilePath(target).is_file():
            raise SettingsError(
                f"There is no file {target}, and it is no address of a server.",
                "Give a GGUF file, managed, or a URL such as http://127.0.0.1:8080.",
            )
        self.said: deque[str] = deque()
        self.diagnosis: Diagnosis | None = None
        self.failure: AppError | None = None
        self._stop = threading.Event()
        kind, file = (target, model) if is_named else ("embedded", FilePath(target))

        def work() -> None:
            try:
                self.said.append("Opening the engine…")
                engine = open_engine(kind, file, settings, server=server, managed=managed, stop=self._stop)
                try:
                    self.diagnosis = examine(engine, probes=probes, tell=self.said.append, stop=self._stop)
                finally:
                    engine.close()
            except AppError as error:
                self.failure = error
            except Exception as error:
                log.exception("a bug ended the examination")
                self.failure = AppError(
                    f"The examination ended unexpectedly: {error!r}.", "This is a bug; see the log."
                )

        self._thread = threading.Thread(target=work, name="doctor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask it to stop; it does within a second and ends in a failure that says so."""
        self._stop.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until it is over; False where the time ran out."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def evicts_others(target: str) -> bool:
    """Whether to examine `target` is to ask its owner first: a server that Forkpoint did not start."""
    return is_url(target)
