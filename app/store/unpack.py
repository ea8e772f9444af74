"""Plain row-per-step tables of a Forkpoint file, for Datasette, the sqlite3 shell and anything else that reads SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sqlite_utils import Database

from app.errors import StoreError
from app.store.connection import explained
from app.store.packing import REPORT_COLUMNS
from app.store.reader import Reader
from app.trajectory.codec import encode
from app.trajectory.step import NO_ID
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Request, Trajectory

Row = dict[str, Any]

TABLES: dict[str, tuple[tuple[str, ...], dict[str, type]]] = {  # table -> (primary key, columns)
    "experiments": (
        ("id",),
        {"id": int, "title": str, "created": str, "status": str, "plan": str, "environment": str},
    ),
    "passes": (
        ("id",),
        {"id": int, "experiment": int, "path": str, "repeat": int, "status": str, "valid": int}
        | {"invalid_reasons": str, "episodes": str, "settings": str},
    ),
    "trajectories": (
        ("id",),
        {"id": int, "pass": int, "episode": str, "family": str, "status": str, "outcome": str, "outcome_detail": str},
    ),
    "requests": (
        ("trajectory", "request"),
        {"trajectory": int, "request": int, "turn": int, "prompt_tokens": int, "steps": int, "answer": str}
        | {"cached_tokens": int, "evaluated_tokens": int, "chunks": str, "finish_reason": str, "held_before": int}
        | {"slot": int, "first_token_ms": float, "prefill_ms": float, "decode_ms": float, "checks": str}
        | {"problem": str, "note": str, "raw_request": str, "raw_response": str}
        | {"added": str, "calls": str, "results": str, "spans": str},
    ),
    "prompts": (
        ("trajectory", "request", "position"),
        {"trajectory": int, "request": int, "position": int, "token_id": int, "text": str},
    ),
    "steps": (
        ("trajectory", "request", "step"),
        {"trajectory": int, "request": int, "step": int, "token_id": int, "text": str, "bytes": str}
        | {"logprob": float, "margin": float},
    ),
    "rivals": (
        ("trajectory", "request", "step", "rank"),
        {"trajectory": int, "request": int, "step": int, "rank": int, "token_id": int, "text": str, "bytes": str}
        | {"logprob": float},
    ),
}
"""What `unpack` writes. Lists and objects stand as JSON text; requests, turns, steps, positions and ranks count from 1,
logprobs and margins are in nats, NULL is "not reported", and a token's bytes stand as hex beside its text."""

_OWNERS = {"experiment": "experiments", "pass": "passes", "trajectory": "trajectories"}  # foreign keys, by column


def unpack(source: Path, target: Path) -> None:
    """Write the TABLES of a Forkpoint file into the new SQLite file `target`, outdated trajectories left out.

    Raises StoreError where `source` cannot be read, or `target` exists or cannot be written; what was begun of it is
    removed then.
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
            for name, (key, columns) in TABLES.items():
                links = [(column, _OWNERS[column], "id") for column in columns if column in _OWNERS]
                database.table(name).create(columns, pk=key if key[1:] else key[0], foreign_keys=links, strict=True)
            for name, rows in _rows(reader):
                database.table(name).insert_all(rows)
    finally:
        database.close()


def _rows(reader: Reader) -> Iterator[tuple[str, Iterator[Row]]]:
    for experiment in reader.experiments():
        pieces = reader.pieces(experiment.id)
        yield "experiments", iter([_experiment(experiment)])
        for info in reader.passes(experiment.id):
            yield "passes", iter([_pass(info)])
            for trajectory_id in reader.trajectory_ids(info.id).values():
                trajectory = reader.trajectory(trajectory_id)
                yield "trajectories", iter([_trajectory(trajectory)])
                for request in trajectory.requests:
                    key = {"trajectory": trajectory.id, "request": request.index + 1}
                    yield "requests", iter([key | _request(request)])
                    yield "prompts", (key | row for row in _prompt(request, pieces))
                    yield "steps", (key | row for row in _steps(request))
                    yield "rivals", (key | row for row in _rivals(request, pieces))


def _experiment(info: ExperimentInfo) -> Row:
    columns = {"id": info.id, "title": info.title, "created": info.created, "status": info.status}
    return columns | {"plan": json.dumps(info.plan), "environment": json.dumps(info.environment)}


def _pass(info: PassInfo) -> Row:
    return {
        "id": info.id,
        "experiment": info.experiment_id,
        "path": info.path,
        "repeat": info.repeat,
        "status": info.status,
        "valid": info.valid,
        "invalid_reasons": json.dumps(info.invalid_reasons),
        "episodes": json.dumps(info.episode_ids),
        "settings": json.dumps(info.settings),
    }


def _trajectory(trajectory: Trajectory) -> Row:
    return {
        "id": trajectory.id,
        "pass": trajectory.pass_id,
        "episode": trajectory.episode_id,
        "family": trajectory.family,
        "status": trajectory.status,
        "outcome": trajectory.outcome.kind,
        "outcome_detail": trajectory.outcome.detail,
    }


def _request(request: Request) -> Row:
    row: Row = {"turn": request.prompt.turn + 1, "prompt_tokens": len(request.prompt.ids), "steps": len(request.steps)}
    row |= {"answer": request.steps.text, "added": json.dumps(encode(request.prompt.added))}
    if report := request.report:
        row |= {name: getattr(report, name) for name in REPORT_COLUMNS}
        row |= {"chunks": json.dumps(list(report.chunks)), "checks": json.dumps(dict(report.checks))}
        row |= {name: json.dumps(encode(getattr(request, name))) for name in ("calls", "results", "spans")}
    return row


def _prompt(request: Request, pieces: Mapping[int, bytes]) -> Iterator[Row]:
    for position, token_id in enumerate(request.prompt.ids.tolist(), 1):
        yield {"position": position, "token_id": token_id, "text": _text(pieces.get(token_id))}


def _steps(request: Request) -> Iterator[Row]:
    block = request.steps
    values = zip(block.token_ids.tolist(), block.logprobs.tolist(), block.margins.tolist(), strict=True)
    for index, (token_id, logprob, margin) in enumerate(values):
        piece = block.piece(index)
        row = {"step": index + 1, "token_id": token_id, "text": _text(piece), "bytes": piece.hex()}
        yield row | {"logprob": logprob, "margin": margin}  # NaN becomes NULL


def _rivals(request: Request, pieces: Mapping[int, bytes]) -> Iterator[Row]:
    block = request.steps
    for index, column in np.argwhere(block.rival_ids != NO_ID).tolist():
        token_id = int(block.rival_ids[index, column])
        piece = pieces.get(token_id)
        row = {"step": index + 1, "rank": column + 1, "token_id": token_id, "text": _text(piece)}
        yield row | {
            "bytes": None if piece is None else piece.hex(),
            "logprob": block.rival_logprobs[index, column].item(),
        }


def _text(piece: bytes | None) -> str | None:
    return None if piece is None else piece.decode("utf-8", errors="replace")
