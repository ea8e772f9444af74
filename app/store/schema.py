"""The tables of a Forkpoint file, the migrations that made them, and whether a file holds exactly these.

Blobs of numbers are little-endian: "i4" int32, "f4" float32. Columns with JSON hold the codec's wire form.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from app.errors import StoreError

APPLICATION_ID = int.from_bytes(b"Fkpt")
"""Stands in the file's header, so that `file` and this module know the file type."""


class Migration(NamedTuple):
    """A change of the tables, and why it was made. Numbered by its place; once released it is never edited."""

    name: str
    why: str
    script: str


MIGRATIONS: list[Migration] = [
    Migration(
        "0001_tables",
        "The first tables. AUTOINCREMENT because a newer row must have a larger id even where rows were deleted.",
        """
CREATE TABLE environments (
    id INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE,  -- of body: the record is sealed when the experiment begins
    body TEXT NOT NULL            -- JSON object
) STRICT;
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    created TEXT NOT NULL,        -- ISO 8601, UTC
    status TEXT NOT NULL,
    plan TEXT NOT NULL,           -- JSON object
    environment_id INTEGER NOT NULL REFERENCES environments
) STRICT;
CREATE TABLE passes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    experiment_id INTEGER NOT NULL REFERENCES experiments,
    path TEXT NOT NULL,
    repeat INTEGER NOT NULL,      -- from 1
    status TEXT NOT NULL,
    episode_ids TEXT NOT NULL,    -- JSON list, in the order served
    valid INTEGER,                -- NULL while unknown
    invalid_reasons TEXT NOT NULL DEFAULT '[]',
    settings TEXT NOT NULL        -- JSON object
) STRICT;
CREATE INDEX passes_of_experiment ON passes (experiment_id);
CREATE TABLE trajectories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pass_id INTEGER NOT NULL REFERENCES passes,
    episode_id TEXT NOT NULL,
    family TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT 'none',
    outcome_detail TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX trajectories_of_pass ON trajectories (pass_id);
CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    trajectory_id INTEGER NOT NULL REFERENCES trajectories,
    request_index INTEGER NOT NULL,   -- from 0
    turn INTEGER NOT NULL,            -- from 0
    shared_ids INTEGER NOT NULL,      -- the prompt: this many ids of the previous request's prompt + answer,
    new_ids BLOB NOT NULL,            -- then these, i4
    mismatch INTEGER,
    added TEXT NOT NULL,              -- JSON list of Message
    -- the answer of n steps with k rivals each; NULL while the request is open
    token_ids BLOB,                   -- i4[n]
    logprobs BLOB,                    -- f4[n]
    rivals INTEGER,                   -- k
    rival_ids BLOB,                   -- i4[n, k]
    rival_logprobs BLOB,              -- f4[n, k]
    piece_bytes BLOB,
    piece_ends BLOB,                  -- i4[n]
    -- the engine's report; NULL is "not reported"
    cached_tokens INTEGER,
    evaluated_tokens INTEGER,
    chunks TEXT,                      -- JSON list
    finish_reason TEXT,
    held_before INTEGER,
    slot INTEGER,
    first_token_ms REAL,
    prefill_ms REAL,
    decode_ms REAL,
    checks TEXT,                      -- JSON object
    problem TEXT,
    note TEXT,
    raw_request TEXT,
    raw_response TEXT,
    calls TEXT,                       -- JSON list of ToolCall
    results TEXT,                     -- JSON list of ToolResult
    shared_spans INTEGER,             -- the prompt's spans: this many of the previous request's,
    new_spans TEXT,                   -- then these, JSON list of Span
    UNIQUE (trajectory_id, request_index)
) STRICT;
CREATE TABLE open_steps (             -- steps in flight; packed into their request's row with its report
    id INTEGER PRIMARY KEY,           -- in order; a key of its own keeps 64 steps within one page that is never freed
    request_id INTEGER NOT NULL REFERENCES requests,
    token_ids BLOB NOT NULL,
    logprobs BLOB NOT NULL,
    rivals INTEGER NOT NULL,
    rival_ids BLOB NOT NULL,
    rival_logprobs BLOB NOT NULL,
    piece_bytes BLOB NOT NULL,
    piece_ends BLOB NOT NULL
) STRICT;
CREATE TABLE pieces (                 -- the bytes of every token id that a step or a rival mentions
    experiment_id INTEGER NOT NULL REFERENCES experiments,
    token_id INTEGER NOT NULL,
    piece BLOB NOT NULL,
    PRIMARY KEY (experiment_id, token_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshots (              -- where a cached pass can go on
    pass_id INTEGER PRIMARY KEY REFERENCES passes,
    ids BLOB NOT NULL,                -- i4
    data BLOB NOT NULL,               -- the engine's own bytes
    meta TEXT NOT NULL,               -- JSON object
    episodes_done INTEGER NOT NULL
) STRICT;
CREATE TABLE derived (                -- what can be computed again from the other tables
    experiment_id INTEGER NOT NULL REFERENCES experiments,
    key TEXT NOT NULL,
    value TEXT NOT NULL,              -- JSON
    PRIMARY KEY (experiment_id, key)
) STRICT, WITHOUT ROWID;
""",
    ),
    Migration(
        "0002_marks",
        "A person marks pairs to export them later. Not a column of anything: a pair has no row of its own.",
        """
CREATE TABLE marks (
    experiment_id INTEGER NOT NULL REFERENCES experiments,
    episode_id TEXT NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (experiment_id, episode_id)
) STRICT, WITHOUT ROWID;
""",
    ),
]

BOOKKEEPING = "_sqlite_migrations"
"""The table in which sqlite-utils notes what was applied."""


def schema_version() -> int:
    """The version that this Forkpoint reads and writes: the number of migrations."""
    return len(MIGRATIONS)


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the migrations that the file lacks, each in a transaction of its own with its version number."""
    # Imported here: it takes a tenth of a second, and only a new or an older file needs it.
    from sqlite_utils import Database
    from sqlite_utils.migrations import Migrations

    migrations = Migrations("forkpoint")
    for version, migration in enumerate(MIGRATIONS, 1):

        def apply(db: Database, version: int = version, script: str = migration.script) -> None:
            for statement in _statements(script, version):
                db.execute(statement)

        migrations(name=migration.name)(apply)
    migrations.apply(Database(connection, execute_plugins=False))


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version of an open file, after checking that it is a Forkpoint file with just the tables of it.

    A received file is distrusted: a trigger or view in it would run whenever the table is used. Raises StoreError
    where the file is of another kind, newer than this Forkpoint, or has other tables.
    """
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError("This is no Forkpoint file.", "It is empty, or another program made it.")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > schema_version():
        raise StoreError(
            f"This file was written by a newer Forkpoint (its tables are version {version}, "
            f"this one knows up to {schema_version()}).",
            "Open it with a newer Forkpoint.",
        )
    expected, found = _expected(version), _objects(connection)
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            kind = (found.get(name) or expected[name])[0]
            how = "is missing" if name not in found else "is not one of ours" if name not in expected else "was changed"
            raise StoreError(
                f"This file's tables are not as Forkpoint makes them: the {kind} {name!r:.60} {how}.",
                "It is left alone. If somebody sent it to you, ask for the original.",
            )
    return version


def _objects(connection: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    rows = connection.execute(
        "SELECT name, type, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
        "AND NOT (tbl_name = ? AND type IN ('table', 'index'))",
        (BOOKKEEPING,),
    )
    return {str(name): (str(kind), str(sql)) for name, kind, sql in rows}


def _expected(version: int) -> dict[str, tuple[str, str]]:
    fresh = sqlite3.connect(":memory:")
    try:
        for migration in MIGRATIONS[:version]:
            fresh.executescript(migration.script)
        return _objects(fresh)
    finally:
        fresh.close()


def _statements(script: str, version: int) -> Sequence[str]:
    """The script's statements one by one, because `executescript` would commit the migration's transaction."""
    statements, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            statements.append(rest)
            rest = ""
    return [*statements, f"PRAGMA user_version = {version}"]
