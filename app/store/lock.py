"""One writer at a time: an advisory lock that the operating system gives back when its holder dies."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from app.errors import StoreError


class FileInUse(StoreError):
    """Another window or process writes to the file; it can still be read."""


class WriterLock:
    """Held from creation to close(). Raises FileInUse where another holds it, StoreError where it cannot be made.

    It is an exclusive transaction on an empty SQLite file beside the data: SQLite knows how to lock files on every
    system, two locks in one process exclude each other as well, and a killed process holds nothing. The data file
    itself cannot carry it, for its readers lock that in the same way.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve().with_name(path.resolve().name + "-lock")  # one lock, whatever link leads to it
        self._held = False
        while not self._held:
            self._connection = self._lock(path)
            # The one before may have unlinked the file between our opening and our locking it: then it locks nothing.
            self._held = self._path.exists()
            if not self._held:
                self._connection.close()

    def _lock(self, path: Path) -> sqlite3.Connection:
        connection = None
        try:
            connection = sqlite3.connect(self._path, timeout=0, isolation_level=None)
            connection.execute("BEGIN EXCLUSIVE")
            return connection
        except sqlite3.OperationalError as error:
            if connection is not None:
                connection.close()
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise FileInUse(
                    f"{path.name} is being written by another Forkpoint window or command.",
                    "It can be opened for reading meanwhile.",
                ) from error
            raise StoreError(
                f"{path.name} cannot be written.", f"The folder {path.parent} is read-only or does not exist."
            ) from error

    def close(self) -> None:
        """Let the next writer in; closing twice is harmless."""
        if self._held:
            self._held = False
            # While still locked: whoever opened it before us fails on the lock, whoever comes later makes a new one.
            with suppress(OSError):
                self._path.unlink()
            self._connection.close()


def why_read_only(path: Path) -> str:
    """A sentence that says why nothing can be added to the file now, "" where it can."""
    if path.exists() and not os.access(path, os.W_OK):
        return f"{path.name} is read-only."
    try:
        WriterLock(path).close()
    except StoreError as error:
        return error.message
    return ""
