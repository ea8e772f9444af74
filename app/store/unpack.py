"""Plain row-per-step tables of a Forkpoint file, for Datasette, the sqlite3 shell and anything else that reads SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from app.errors import StoreError
from app.store.connection import explained
from app.store.reader import Reader, TrajectoryEntry
from app.trajectory.step import NO_ID
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Request

Row = dict[str, Any]

TABLES = {  # table -> (primary key, foreign keys)
    "experiments": (("id",), ()),
    "passes": (("id",), (("experiment", "experiments", "id"),)),
    "trajectories": (("id",), (("pass", "passes", "id"),)),
    "requests": (("trajectory", "request"), (("trajectory", "trajectories", "id"),)),
    "prompts": (("trajectory", "request", "position"), (("trajectory", "trajectories", "id"),)),
    "steps": (("trajectory", "request", "step"), (("trajectory", "trajectories", "id"),)),
    "rivals": (("trajectory", "request", "step", "rank"), (("trajectory", "trajectories", "id"),)),
}


def unpack(source: Path, target: Path) -> None:
    """Write the tables of TABLES into the new file `target`. Requests, steps, positions and ranks count from 1.

    Logprobs and margins are in nats; bytes stand as hex beside their text. Raises StoreError where `source` cannot be
    read, or `target` exists or cannot be written; a target left unfinished is removed.
    """
    if target.exists():
        raise StoreError(f"{target.name} exists already.", "Choose another name, or remove it first.")
    reader = Reader(source)
    try:
        with explained(target):
            _write(reader, target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        reader.close()


def _write(reader: Reader, target: Path) -> None:
    database = Database(target, execute_plugins=False)
    try:
        with database.atomic():
            for table, rows in _tables(reader):
                key, foreign = TABLES[table]
                database.table(table).insert_all(rows, pk=key, foreign_keys=foreign, strict=True)
    finally:
        database.close()
