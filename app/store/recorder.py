"""The only writer of a Forkpoint file."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from app.store.connection import explained, open_writable
from app.store.lock import WriterLock
from app.store.packing import REPORT_COLUMNS, STEP_COLUMNS, join, pack_ids, pack_steps
from app.trajectory.codec import compact, encode, plain
from app.trajectory.episode import Outcome, ToolCall, ToolResult
from app.trajectory.step import IdArray, Step, StepBlock, as_ids, shared_length
from app.trajectory.trajectory import Path, Prompt, RequestReport, Span, Status

_FINISH = "UPDATE requests SET {} WHERE id = ?".format(
    ", ".join(
        f"{name} = ?" for name in (*STEP_COLUMNS, *REPORT_COLUMNS, "calls", "results", "shared_spans", "new_spans")
    )
)


@dataclass
class _Open:
    """What the recorder remembers of a running trajectory, to store only what is new in the next request."""

    experiment_id: int
    context: IdArray = field(default_factory=lambda: as_ids(()))  # the last request's prompt and answer
    spans: tuple[Span, ...] = ()
    index: int = -1
    request_id: int | None = None
    blocks: list[StepBlock] = field(default_factory=list)


class Recorder:
    """Writes experiments into a file, from one thread: the one that made it.

    Every method is one transaction: what it was given is on disk when it returns, and is not there at all where it
    raised. Raises StoreError where the file cannot be written, FileInUse (a StoreError) where somebody else writes it;
    after a full disk the recorder can go on, and what was recorded stays readable.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = path.resolve()
        self._lock = WriterLock(self._path)
        self._is_new = not self._path.exists()
        self._open: dict[int, _Open] = {}
        self._known_pieces: dict[int, set[int]] = {}
        try:
            with explained(self._path):
                self._connection = open_writable(self._path)
        except BaseException:
            self._lock.close()
            raise

    def add_experiment(self, title: str, plan: Mapping[str, Any], environment: Mapping[str, Any]) -> int:
        """A new running experiment; plan and environment are JSON values, sealed from here on. Returns its id."""
        body = _free_json(environment)
        digest = hashlib.sha256(body.encode()).hexdigest()
        with self._transaction() as run:
            run("INSERT OR IGNORE INTO environments (sha256, body) VALUES (?, ?)", (digest, body))
            return _id(
                run(
                    "INSERT INTO experiments (title, created, status, plan, environment_id) "
                    "VALUES (?, ?, ?, ?, (SELECT id FROM environments WHERE sha256 = ?))",
                    (_text(title), datetime.now(UTC).isoformat(), Status.RUNNING, _free_json(plan), digest),
                )
            )

    def add_pass(
        self, experiment_id: int, path: Path, repeat: int, episode_ids: Sequence[str], settings: Mapping[str, Any]
    ) -> int:
        """A new running pass over `episode_ids` in the order served; `repeat` counts from 1. Returns its id."""
        row = (experiment_id, path, repeat, Status.RUNNING, compact(list(episode_ids)), _free_json(settings))
        with self._transaction() as run:
            return _id(
                run(
                    "INSERT INTO passes (experiment_id, path, repeat, status, episode_ids, settings) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    row,
                )
            )

    def resume_pass(self, pass_id: int) -> None:
        """The pass, and the experiment it belongs to, is running again; what was said of its validity is withdrawn."""
        with self._transaction() as run:
            run(
                "UPDATE passes SET status = ?, valid = NULL, invalid_reasons = '[]' WHERE id = ?",
                (Status.RUNNING, pass_id),
            )
            run(
                "UPDATE experiments SET status = ? WHERE id = (SELECT experiment_id FROM passes WHERE id = ?)",
                (Status.RUNNING, pass_id),
            )

    def start_trajectory(self, pass_id: int, episode_id: str, family: str) -> int:
        """A new running trajectory; it outdates an earlier one of the episode in this pass. Returns its id."""
        with self._transaction() as run:
            row = run("SELECT experiment_id FROM passes WHERE id = ?", (pass_id,)).fetchone()
            if row is None:
                raise ValueError(f"there is no pass {pass_id}")
            trajectory_id = _id(
                run(
                    "INSERT INTO trajectories (pass_id, episode_id, family, status) VALUES (?, ?, ?, ?)",
                    (pass_id, _text(episode_id), _text(family), Status.RUNNING),
                )
            )
        self._open[trajectory_id] = _Open(row[0])
        return trajectory_id

    def start_request(self, trajectory_id: int, index: int, prompt: Prompt) -> None:
        """Request `index` (from 0) goes to the engine with `prompt`."""
        opened = self._open[trajectory_id]
        shared = shared_length(opened.context, prompt.ids)
        new_ids = pack_ids(prompt.ids[shared:])
        row = (trajectory_id, index, prompt.turn, shared, new_ids, prompt.mismatch, compact(encode(prompt.added)))
        with self._transaction() as run:
            request_id = _id(
                run(
                    "INSERT INTO requests (trajectory_id, request_index, turn, shared_ids, new_ids, mismatch, added) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
            )
        opened.context = prompt.ids
        opened.index, opened.request_id, opened.blocks = index, request_id, []

    def append(self, trajectory_id: int, index: int, steps: Sequence[Step]) -> None:
        """The next steps of the open request `index`; at most 64 at a time, so that no more can be lost."""
        if not steps:
            return
        opened = self._opened(trajectory_id, index)
        block = StepBlock.pack(steps)
        pieces = self._new_pieces(opened.experiment_id, steps)
        row = (opened.request_id, *pack_steps(block))
        with self._transaction() as run:
            run(f"INSERT INTO open_steps (request_id, {', '.join(STEP_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            if pieces:
                self._connection.executemany(
                    "INSERT OR IGNORE INTO pieces (experiment_id, token_id, piece) VALUES (?, ?, ?)",
                    [(opened.experiment_id, token_id, piece) for token_id, piece in sorted(pieces.items())],
                )
        opened.blocks.append(block)
        self._known_pieces[opened.experiment_id] |= pieces.keys()

    def finish_request(
        self,
        trajectory_id: int,
        index: int,
        report: RequestReport,
        calls: Sequence[ToolCall],
        results: Sequence[ToolResult],
        spans: Sequence[Span],
    ) -> None:
        """The engine's report of the open request: its steps become one row together with it."""
        opened = self._opened(trajectory_id, index)
        block = join(opened.blocks)
        shared = _shared_spans(opened.spans, spans)
        row = (
            *pack_steps(block),
            *_report_row(report),
            *(compact(encode(calls)), compact(encode(results)), shared, compact(encode(spans[shared:]))),
        )
        with self._transaction() as run:
            run(_FINISH, (*row, opened.request_id))
            run("DELETE FROM open_steps WHERE request_id = ?", (opened.request_id,))
        opened.context = np.concatenate([opened.context, block.token_ids])
        opened.spans, opened.request_id = tuple(spans), None

    def finish_trajectory(self, trajectory_id: int, status: Status, outcome: Outcome) -> None:
        """The trajectory has ended; a request still open keeps its steps, without a report."""
        with self._transaction() as run:
            run(
                "UPDATE trajectories SET status = ?, outcome = ?, outcome_detail = ? WHERE id = ?",
                (status, outcome.kind, _text(outcome.detail), trajectory_id),
            )
        self._open.pop(trajectory_id, None)

    def finish_pass(self, pass_id: int, status: Status, valid: bool | None, reasons: Sequence[str]) -> None:
        """The pass has ended; `valid` None where it is not known, `reasons` why it is not valid."""
        with self._transaction() as run:
            run(
                "UPDATE passes SET status = ?, valid = ?, invalid_reasons = ? WHERE id = ?",
                (status, valid, compact(list(reasons)), pass_id),
            )

    def finish_experiment(self, experiment_id: int, status: Status) -> None:
        """The experiment has ended."""
        with self._transaction() as run:
            run("UPDATE experiments SET status = ? WHERE id = ?", (status, experiment_id))

    def save_snapshot(
        self, pass_id: int, ids: IdArray, data: bytes, meta: Mapping[str, Any], episodes_done: int
    ) -> None:
        """The pass's State after its first `episodes_done` episodes; the one before is replaced."""
        with self._transaction() as run:
            run(
                "REPLACE INTO snapshots (pass_id, ids, data, meta, episodes_done) VALUES (?, ?, ?, ?, ?)",
                (pass_id, pack_ids(ids), data, _free_json(meta), episodes_done),
            )

    def drop_snapshot(self, pass_id: int) -> None:
        """Forget the pass's State and give its space back."""
        with self._transaction() as run:
            run("DELETE FROM snapshots WHERE pass_id = ?", (pass_id,))
        with explained(self._path):
            # A page per step of the statement; it has no columns, so `execute` would take the first step only.
            self._connection.executescript("PRAGMA incremental_vacuum")

    def put_derived(self, experiment_id: int, key: str, value: Mapping[str, Any] | Sequence[Any]) -> None:
        """Keep a JSON value that can be computed again; the one before under this key is replaced."""
        with self._transaction() as run:
            run(
                "REPLACE INTO derived (experiment_id, key, value) VALUES (?, ?, ?)",
                (experiment_id, key, _free_json(value)),
            )

    def interrupt_running(self) -> int:
        """Whatever is left RUNNING by a dead process becomes INTERRUPTED; returns how many experiments were."""
        with self._transaction() as run:
            return [
                run(f"UPDATE {table} SET status = ? WHERE status = ?", (Status.INTERRUPTED, Status.RUNNING)).rowcount
                for table in ("trajectories", "passes", "experiments")
            ][-1]

    def close(self, *, keep_empty: bool = True) -> None:
        """One file again: the log is written back into it. Closing twice is harmless.

        Without `keep_empty`, a file that this recorder made and put nothing into is removed.
        """
        empty = False
        # On a full disk the log stays beside the file; both together are whole.
        with suppress(sqlite3.OperationalError, sqlite3.ProgrammingError):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if self._is_new and not keep_empty:
                empty = self._connection.execute("SELECT id FROM experiments").fetchone() is None
        self._connection.close()
        if empty:
            self._path.unlink(missing_ok=True)
        self._lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        with explained(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk has rolled it back already
                    self._connection.execute("ROLLBACK")
                raise

    def _opened(self, trajectory_id: int, index: int) -> _Open:
        opened = self._open[trajectory_id]
        if opened.request_id is None or opened.index != index:
            raise ValueError(f"request {index} of trajectory {trajectory_id} is not open")
        return opened

    def _new_pieces(self, experiment_id: int, steps: Sequence[Step]) -> dict[int, bytes]:
        known = self._known_pieces.get(experiment_id)
        if known is None:
            with explained(self._path):
                rows = self._connection.execute("SELECT token_id FROM pieces WHERE experiment_id = ?", (experiment_id,))
                known = self._known_pieces[experiment_id] = {token_id for (token_id,) in rows}
        new = {rival.token_id: rival.piece for step in steps for rival in step.rivals if rival.token_id not in known}
        return new | {step.token_id: step.piece for step in steps if step.token_id not in known}


def _report_row(report: RequestReport) -> tuple[Any, ...]:
    values = {name: getattr(report, name) for name in REPORT_COLUMNS}
    values["chunks"], values["checks"] = compact(list(report.chunks)), compact(dict(report.checks))
    return tuple(_text(value) if isinstance(value, str) else value for value in values.values())


def _shared_spans(before: Sequence[Span], spans: Sequence[Span]) -> int:
    return next(
        (count for count, (old, new) in enumerate(zip(before, spans, strict=False)) if old is not new and old != new),
        min(len(before), len(spans)),
    )


def _free_json(value: object) -> str:
    return compact(plain(value))


def _text(value: str) -> str:
    """Text that SQLite takes: a lone surrogate, which a model can write as an escape, is written out."""
    return value.encode("utf-8", "backslashreplace").decode()


def _id(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid
