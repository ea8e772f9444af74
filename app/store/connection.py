"""Opening a Forkpoint file with SQLite, and SQLite's errors as sentences."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.errors import StoreError
from app.store.schema import APPLICATION_ID, migrate, schema_version, version_of

BUSY_TIMEOUT_S = 5.0
"""How long a statement waits for another connection's transaction; ours take milliseconds."""

WAL_LIMIT_BYTES = 16 * 2**20
"""What is kept of the write-ahead log's file after a checkpoint; a snapshot can blow it up to hundreds of MB."""

_SENTENCES = {  # primary result code -> (what happened, what to do)
    sqlite3.SQLITE_FULL: (
        "The disk is full: {name} cannot take more steps.",
        "Free some space and go on; what was recorded until now is kept and readable.",
    ),
    sqlite3.SQLITE_IOERR: (
        "{name} cannot be written or read: the disk refuses it.",
        "It may be full, over a quota, or gone; what was recorded until now is kept.",
    ),
    sqlite3.SQLITE_NOTADB: ("{name} is no Forkpoint file.", "Choose a file whose name ends in .forkpoint."),
    sqlite3.SQLITE_CORRUPT: (
        "{name} is damaged or was cut short.",
        "Copy it again from where it came from; a copy must be whole, and made while nothing writes to it.",
    ),
    sqlite3.SQLITE_READONLY: ("{name} is read-only.", "Copy it to a folder of your own to run into it."),
    sqlite3.SQLITE_BUSY: ("{name} is busy: another program holds it.", "Close that program and try again."),
    sqlite3.SQLITE_CANTOPEN: ("{name} cannot be opened.", "Check that it exists and that you may read it."),
    sqlite3.SQLITE_PERM: ("{name} cannot be opened.", "Check that you may read it."),
    sqlite3.SQLITE_TOOBIG: ("A value is too large for {name}.", "SQLite holds at most about 1 GB in one value."),
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise SQLite's errors about the file as StoreErrors; errors that only a bug can cause pass as they are."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        code = getattr(error, "sqlite_errorcode", None)
        if isinstance(error, UnicodeDecodeError | sqlite3.OperationalError) and code is None:  # text that is no UTF-8
            code = sqlite3.SQLITE_CORRUPT
        sentence = _SENTENCES.get(code & 0xFF) if code is not None else None
        if sentence is None:
            raise
        raise StoreError(sentence[0].format(name=path.name), sentence[1]) from error


def open_writable(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode to a file of the present schema: made, or migrated after a copy, where needed.

    synchronous=NORMAL: a commit is in the operating system's hands when it returns, so killing the process loses no
    committed step and corrupts nothing. A power cut may lose the commits since the last checkpoint, never the file;
    FULL would buy those with a disk flush per 64 steps.
    """
    is_new = not path.exists() or path.stat().st_size == 0
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        _distrust(connection)
        if is_new:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # so that a dropped snapshot gives its space back
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        version = version_of(connection)
        _check_whole(connection, path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(
            f"PRAGMA user_version={version}"
        )  # as it is: a read-only file opens without a word, until here
        connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT_BYTES}")
        connection.execute("PRAGMA secure_delete=OFF")  # zeroing what open_steps held would write everything twice
        if version < schema_version():
            if version > 0:
                _copy_before(connection, path)
            migrate(connection)
        connection.execute("PRAGMA foreign_keys=ON")
        return connection
    except BaseException:
        connection.close()
        raise


def open_readable(path: Path) -> sqlite3.Connection:
    """A connection that cannot change the file. Works in read-only folders; an older file is migrated in a copy.

    Where the folder can be written it is opened with write access and query_only: SQLite needs that to replay what a
    killed process left in the write-ahead log, and to remove the log when the last reader leaves.
    """
    if not path.is_file():
        raise StoreError(f"There is no file {path.name} in {path.parent}.", "Check the name, or open another file.")
    connection = _connect(path)
    try:
        connection.execute("PRAGMA query_only=ON")
        _distrust(connection)
        version = version_of(connection)
        _check_whole(connection, path)
        if version == schema_version():
            return connection
        migrated = sqlite3.connect("", isolation_level=None)  # a temporary file of SQLite's own
        connection.backup(migrated)
        connection.close()
        connection = migrated
        migrate(connection)
        return connection
    except BaseException:
        connection.close()
        raise


def _connect(path: Path) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA schema_version")
        return connection
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        # SQLite could not make its files beside the data: the folder is read-only.
        if _has_log(path):
            raise StoreError(
                f"{path.name} was not closed properly, and its folder is read-only, so its last steps cannot be read.",
                f"Copy it together with {path.name}-wal to a folder of your own and open it there.",
            ) from error
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None)


def _distrust(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")


def _check_whole(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite notices missing pages itself, but reads zeros where only a part of the last one is missing.

    With a log that may be as it should: a full disk can cut short what is written back, and the log has it still.
    """
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size % page_size and not _has_log(path):
        what, hint = _SENTENCES[sqlite3.SQLITE_CORRUPT]
        raise StoreError(what.format(name=path.name), hint)


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _copy_before(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the file, log included, to FILE.before-vN; an earlier copy of that name is kept."""
    copy = path.with_name(f"{path.name}.before-v{schema_version()}")
    if not copy.exists():
        unfinished = copy.with_name(copy.name + ".part")
        unfinished.unlink(missing_ok=True)
        with closing(sqlite3.connect(unfinished)) as target:
            connection.backup(target)
        unfinished.rename(copy)
