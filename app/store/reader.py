"""Reading a Forkpoint file, also while a Recorder writes it. What it holds is distrusted: nonsense is a StoreError."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from app.errors import StoreError
from app.store.columns import StoredList, StoredSpans, lists_of, parsed
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


class Reader:
    """Reads experiments from a file, from one thread: the one that made it.

    Every method sees one moment of the file and raises StoreError where it cannot be read.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = path.resolve()
        self._pieces: dict[int, bytes] = {}
        self._pieces_read: tuple[int, int] | None = None  # of which experiment, at which version of the file
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
        query = (
            "SELECT episode_id, max(id) AS newest FROM trajectories WHERE pass_id = ? GROUP BY episode_id "
            "ORDER BY newest"
        )
        with self._reading():
            return dict(self._rows(query, pass_id))

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

    def pieces(self, experiment_id: int) -> Mapping[int, bytes]:
        """The raw bytes of every token id that a step or a rival of the experiment mentions.

        Read again only where somebody has written to the file since: going from pair to pair needs them every time.
        """
        with self._reading():
            (version,) = next(self._rows("PRAGMA data_version"))
            if self._pieces_read != (experiment_id, version):
                rows = self._rows("SELECT token_id, piece FROM pieces WHERE experiment_id = ?", experiment_id)
                self._pieces, self._pieces_read = dict(rows), (experiment_id, version)
            return self._pieces

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

    def size_bytes(self) -> int:
        """What the file takes on disk, its log included; asks the file system only, so it may be asked often."""
        log = self._path.with_name(self._path.name + "-wal")
        return sum(file.stat().st_size for file in (self._path, log) if file.exists())

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
            lists_of(Message, added),
            mismatches,
        )
        yield from map(
            Request,
            indices,
            prompts,
            blocks,
            _reports([row[reports_at:] for row in rows]),
            lists_of(ToolCall, calls),
            lists_of(ToolResult, results),
            _spans(shared_spans, new_spans),
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
    columns: dict[str, Sequence[Any]] = dict(zip(REPORT_COLUMNS, zip(*rows, strict=True), strict=True))
    columns["chunks"] = [StoredList(int, text or "[]") for text in columns["chunks"]]
    columns["checks"] = decode(tuple[dict[str, int], ...], parsed([text or "{}" for text in columns["checks"]]))
    for reason, report in zip(columns["finish_reason"], map(RequestReport, *columns.values()), strict=True):
        yield None if reason is None else report


def _spans(shared: Sequence[int | None], new_spans: Sequence[str | None]) -> Iterator[Sequence[Span]]:
    before: StoredSpans | None = None
    for count, new in zip(shared, new_spans, strict=True):
        before = None if count is None or new is None else StoredSpans(before, count, new)
        yield () if before is None else before


def _list(kind: Any, text: str) -> tuple[Any, ...]:
    return lists_of(kind, [text])[0]


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
