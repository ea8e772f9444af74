"""Marks: the pairs of a file that a person has chosen, with a note on each. Not part of what was recorded.

A mark is set in a transaction of its own, so a run may go on writing the same file meanwhile; that takes no writer's
lock, unless the file is older than marks and must be migrated first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from app.errors import StoreError
from app.store.connection import explained, open_readable, open_writable
from app.store.lock import FileInUse, WriterLock
from app.store.schema import schema_version


def read_marks(path: Path, experiment_id: int) -> Mapping[str, str]:
    """The note of every marked episode of an experiment, "" where nothing was noted. A file older than marks has none.

    Raises StoreError where the file cannot be read.
    """
    with explained(path), closing(open_readable(path)) as connection:
        query = "SELECT episode_id, note FROM marks WHERE experiment_id = ? ORDER BY episode_id"
        return dict(connection.execute(query, (experiment_id,)).fetchall())


def write_mark(path: Path, experiment_id: int, episode_id: str, note: str | None) -> None:
    """Mark an episode's pair with a note, or (None) take its mark away. Raises StoreError, also where there is no such
    experiment."""
    with explained(path):
        _migrate_older(path)
        with closing(open_writable(path)) as connection:
            if note is None:
                change = "DELETE FROM marks WHERE experiment_id = ? AND episode_id = ?"
                connection.execute(change, (experiment_id, episode_id))
                return
            change = "INSERT OR REPLACE INTO marks (experiment_id, episode_id, note) VALUES (?, ?, ?)"
            try:
                connection.execute(change, (experiment_id, episode_id, note))
            except sqlite3.IntegrityError as error:
                raise StoreError(f"{path.name} holds no experiment {experiment_id}.") from error


def _migrate_older(path: Path) -> None:
    """Give an older file its tables, which needs the writer's lock: a run of an older Forkpoint may be in it."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= schema_version():
        return
    try:
        lock = WriterLock(path)
    except FileInUse as error:
        hint = "Mark the pair when that is over, or close it."
        raise StoreError(f"{path.name} is older than marks, and another program is writing it.", hint) from error
    with closing(lock):
        open_writable(path).close()
