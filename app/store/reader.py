"""Reading a Forkpoint file, also while a Recorder writes it. What it holds is distrusted: nonsense is a StoreError."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from app.errors import StoreError
from app.store.connection import explained, open_readable
from app.store.packing import REPORT_COLUMNS, STEP_COLUMNS, join, rebuild_prompts, unpack_ids, unpack_steps
from app.trajectory.codec import decode, parse
from app.trajectory.episode import Message, Outcome, ToolCall, ToolResult
from app.trajectory.step import IdArray, StepBlock
from app.trajectory.trajectory import (
    ExperimentInfo,
    PassInfo,
    Path,
    Prompt,
    Request,
    RequestReport,
    Span,
    Status,
    Trajectory,
)

_STEPS_AT = 10
"""How many columns of `requests` stand before the steps' in the query for a trajectory."""


class TrajectoryEntry(NamedTuple):
    """A trajectory as a list shows it, before its requests are read."""

    id: int
    episode_id: str
    family: str
    status: Status
    outcome: Outcome


class StoredSnapshot(NamedTuple):
    """A pass's State after its first `episodes_done` episodes: ids int32 [n], the engine's bytes and their meta."""

    ids: IdArray
    data: bytes
    meta: dict[str, Any]
    episodes_done: int


class FileSize(NamedTuple):
    """What is on disk: steps, open ones included, and the file's bytes, its log included."""

    steps: int
    size_bytes: int


class Reader:
    """Reads experiments from a file, from one thread: the one that made it.

    Every method sees one moment of the file and raises StoreError where it cannot be read.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = path.resolve()
        with explained(self._path):
            self._connection = open_readable(self._path)

    def experiments(self) -> list[ExperimentInfo]:
        """All experiments, the newest first."""
        query = (
            "SELECT e.id, e.title, e.created, e.status, e.plan, v.body, v.sha256 FROM experiments e "
            "JOIN environments v ON v.id = e.environment_id ORDER BY e.id DESC"
        )
        with self._reading():
            return [
                ExperimentInfo(id, title, created, Status(status), _object(plan), _sealed(body, digest))
                for id, title, created, status, plan, body, digest in self._rows(query)
            ]

    def passes(self, experiment_id: int) -> list[PassInfo]:
        """All passes, the newest first: the first one of a path and repeat is the one that counts."""
        query = (
            "SELECT id, experiment_id, path, repeat, status, episode_ids, valid, invalid_reasons, settings "
            "FROM passes WHERE experiment_id = ? ORDER BY id DESC"
        )
        with self._reading():
            return [
                PassInfo(
                    id=id,
                    experiment_id=experiment_id,
                    path=Path(path),
                    repeat=repeat,
                    status=Status(status),
                    episode_ids=_list(str, episode_ids),
                    valid=None if valid is None else bool(valid),
                    invalid_reasons=_list(str, reasons),
                    settings=_object(settings),
                )
                for id, experiment_id, path, repeat, status, episode_ids, valid, reasons, settings in self._rows(
                    query, experiment_id
                )
            ]

    def entries(self, pass_id: int) -> dict[str, TrajectoryEntry]:
        """The newest trajectory of every episode that the pass has begun, by episode id, in the order begun."""
        query = (
            "SELECT id, episode_id, family, status, outcome, outcome_detail FROM trajectories "
            "WHERE id IN (SELECT max(id) FROM trajectories WHERE pass_id = ? GROUP BY episode_id) ORDER BY id"
        )
        with self._reading():
            return {
                episode_id: TrajectoryEntry(id, episode_id, family, Status(status), _outcome(kind, detail))
                for id, episode_id, family, status, kind, detail in self._rows(query, pass_id)
            }

    def trajectory_ids(self, pass_id: int) -> dict[str, int]:
        """The id of the newest trajectory of every episode that the pass has begun, by episode id."""
        return {episode_id: entry.id for episode_id, entry in self.entries(pass_id).items()}

    def trajectory(self, trajectory_id: int) -> Trajectory:
        """A trajectory with all its requests; an open one has the steps on disk and no report."""
        query = (
            "SELECT t.id, t.pass_id, t.episode_id, t.family, p.path, p.repeat, t.status, t.outcome, t.outcome_detail "
            "FROM trajectories t JOIN passes p ON p.id = t.pass_id WHERE t.id = ?"
        )
        with self._reading():
            head = next(self._rows(query, trajectory_id), None)
            if head is None:
                raise StoreError(f"There is no trajectory {trajectory_id} in {self._path.name}.")
            id, pass_id, episode_id, family, path, repeat, status, kind, detail = head
            with _no_collector():
                requests = tuple(self._requests(trajectory_id))
            return Trajectory(
                *(id, pass_id, episode_id, family, Path(path), repeat, Status(status)),
                requests,
                _outcome(kind, detail),
            )

    def pieces(self, experiment_id: int) -> dict[int, bytes]:
        """The raw bytes of every token id that a step or a rival of the experiment mentions."""
        with self._reading():
            return dict(self._rows("SELECT token_id, piece FROM pieces WHERE experiment_id = ?", experiment_id))

    def derived(self, experiment_id: int, key: str) -> Any:
        """The JSON value kept under `key`, None where there is none."""
        query = "SELECT value FROM derived WHERE experiment_id = ? AND key = ?"
        with self._reading():
            return next((parse(value) for (value,) in self._rows(query, experiment_id, key)), None)

    def snapshot(self, pass_id: int) -> StoredSnapshot | None:
        """The pass's stored State, None where there is none."""
        query = "SELECT ids, data, meta, episodes_done FROM snapshots WHERE pass_id = ?"
        with self._reading():
            for ids, data, meta, episodes_done in self._rows(query, pass_id):
                return StoredSnapshot(unpack_ids(ids), data, _object(meta), episodes_done)
        return None

    def size(self) -> FileSize:
        """How many steps and bytes the file holds."""
        query = (
            "SELECT (SELECT total(length(token_ids)) FROM requests) + (SELECT total(length(token_ids)) FROM open_steps)"
        )
        log = self._path.with_name(self._path.name + "-wal")
        with self._reading():
            (total,) = next(self._rows(query))
        size_bytes = sum(file.stat().st_size for file in (self._path, log) if file.exists())
        return FileSize(int(total) // 4, size_bytes)

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        self._connection.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """One moment of the file; what cannot be understood in it becomes a StoreError."""
        with explained(self._path):
            self._connection.execute("BEGIN")
            try:
                yield
            except (ValueError, TypeError) as error:
                raise StoreError(
                    f"{self._path.name} holds something that Forkpoint did not write ({error}).",
                    "It may be damaged or edited.",
                ) from error
            finally:
                if self._connection.in_transaction:  # SQLite ends it itself where the file is damaged
                    self._connection.execute("ROLLBACK")

    def _rows(self, query: str, *values: object) -> Iterator[Any]:
        return iter(self._connection.execute(query, values).fetchall())

    def _requests(self, trajectory_id: int) -> Iterator[Request]:
        """The requests in order, prompts and spans rebuilt from what each shares with the one before."""
        query = (
            "SELECT request_index, turn, shared_ids, new_ids, mismatch, added, calls, results, shared_spans, "
            f"new_spans, {', '.join((*STEP_COLUMNS, *REPORT_COLUMNS))} "
            "FROM requests WHERE trajectory_id = ? ORDER BY request_index"
        )
        rows = list(self._rows(query, trajectory_id))
        if not rows:
            return
        open_steps = self._open_steps(trajectory_id)
        reports_at = _STEPS_AT + len(STEP_COLUMNS)
        blocks = [
            open_steps.get(row[0], StepBlock.empty())
            if row[_STEPS_AT] is None
            else unpack_steps(row[_STEPS_AT:reports_at])
            for row in rows
        ]
        indices, turns, shared_ids, new_ids, mismatches, added, calls, results, shared_spans, new_spans = list(
            zip(*rows, strict=True)
        )[:_STEPS_AT]
        prompts = map(
            Prompt,
            rebuild_prompts(
                list(zip(shared_ids, map(unpack_ids, new_ids), (b.token_ids for b in blocks), strict=True))
            ),
            turns,
            _lists(Message, added),
            mismatches,
        )
        yield from map(
            Request,
            indices,
            prompts,
            blocks,
            _reports([row[reports_at:] for row in rows]),
            _lists(ToolCall, calls),
            _lists(ToolResult, results),
            _continued(shared_spans, _lists(Span, new_spans)),
        )

    def _open_steps(self, trajectory_id: int) -> dict[int, StepBlock]:
        query = (
            f"SELECT r.request_index, {', '.join('o.' + name for name in STEP_COLUMNS)} "
            "FROM open_steps o JOIN requests r ON r.id = o.request_id WHERE r.trajectory_id = ? "
            "ORDER BY r.request_index, o.id"
        )
        rows = self._rows(query, trajectory_id)
        return {
            index: join([unpack_steps(row[1:]) for row in group]) for index, group in groupby(rows, lambda row: row[0])
        }


@contextmanager
def _no_collector() -> Iterator[None]:
    """No garbage collection meanwhile: it would walk all that is being loaded, again and again, for half the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _reports(rows: Sequence[Any]) -> Iterator[RequestReport | None]:
    chunks = _lists(int, [row[2] for row in rows])
    checks = _column(dict[str, int], [row[9] or "{}" for row in rows])
    for row, sizes, counters in zip(rows, chunks, checks, strict=True):
        values = [*row[:2], sizes, *row[3:9], counters, *row[10:]]
        yield None if row[3] is None else RequestReport(*values)


def _continued(shared: Sequence[int | None], new_spans: Sequence[tuple[Span, ...]]) -> Iterator[tuple[Span, ...]]:
    spans: tuple[Span, ...] = ()
    for count, new in zip(shared, new_spans, strict=True):
        spans = () if count is None else spans[:count] + new
        yield spans


def _column(kind: Any, texts: Sequence[str]) -> tuple[Any, ...]:
    """JSON values of type `kind`, parsed together: that is five times as fast as one by one."""
    values: tuple[Any, ...] = decode(tuple[kind, ...], parse(f"[{','.join(texts)}]"))
    if len(values) != len(texts):
        raise ValueError("a column is no JSON")
    return values


def _lists(kind: Any, texts: Sequence[str | None]) -> tuple[tuple[Any, ...], ...]:
    return _column(tuple[kind, ...], [text or "[]" for text in texts])


def _list(kind: Any, text: str) -> tuple[Any, ...]:
    return _lists(kind, [text])[0]


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = decode(dict[str, Any], parse(text))
    return value


def _outcome(kind: str, detail: str) -> Outcome:
    outcome: Outcome = decode(Outcome, {"kind": kind, "detail": detail})
    return outcome


def _sealed(body: str, digest: str) -> dict[str, Any]:
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise ValueError("an environment record was changed after the run")
    return _object(body)
