"""One writer at a time: an advisory lock that the operating system gives back when its holder dies."""

from __future__ import annotations

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
        self._path = path.with_name(path.name + "-lock")
        try:
            self._connection = sqlite3.connect(self._path, timeout=0, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise StoreError(f"{path} cannot be written.", "Its folder is read-only or does not exist.") from error
        try:
            self._connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            self._connection.close()
            if "locked" not in str(error):
                raise StoreError(f"{path} cannot be written.", "Its folder is read-only.") from error
            raise FileInUse(
                f"{path.name} is being written by another Forkpoint window or command.",
                "It can be opened for reading meanwhile.",
            ) from error

    def close(self) -> None:
        """Let the next writer in; closing twice is harmless."""
        # Unlinked while still locked: whoever opened it before fails on the lock, whoever comes later makes a new one.
        with suppress(OSError):
            self._path.unlink()
        self._connection.close()
