from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path as FilePath

import numpy as np
import pytest

from app.errors import StoreError
from app.store.unpack import TABLES, unpack
from app.trajectory.codec import encode
from app.trajectory.trajectory import Path, Trajectory
from tests.builders import forked_pair_of_trajectories, step
from tests.unit.store.recordings import add_pass, open_request, reading, record, recording


@pytest.fixture
def made() -> tuple[Trajectory, Trajectory]:
    return forked_pair_of_trajectories()


@pytest.fixture
def plain(tmp_path: FilePath, made: tuple[Trajectory, Trajectory]) -> Iterator[sqlite3.Connection]:
    """An unpacked file with both made trajectories, ids 2 (cached; 1 is outdated) and 3, and an open one, 4."""
    with recording(tmp_path / "a.forkpoint") as recorder:
        experiment_id, cached = add_pass(recorder)
        recompute = recorder.add_pass(experiment_id, Path.RECOMPUTE, 1, ["made-00"], {})
        record(recorder, cached, made[1])
        record(recorder, cached, made[0])
        record(recorder, recompute, made[1])
        trajectory_id = recorder.start_trajectory(recompute, "made-01", "made")
        recorder.start_request(trajectory_id, 0, made[0].requests[0].prompt)
        recorder.append(trajectory_id, 0, [step(5)])
    unpack(tmp_path / "a.forkpoint", tmp_path / "plain.db")
    with closing(sqlite3.connect(tmp_path / "plain.db")) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def test_every_number_of_every_step_stands_in_a_row(
    plain: sqlite3.Connection, made: tuple[Trajectory, Trajectory]
) -> None:
    for id, trajectory in ((2, made[0]), (3, made[1])):
        steps = plain.execute("SELECT * FROM steps WHERE trajectory = ? ORDER BY request, step", (id,)).fetchall()
        rivals = plain.execute(
            "SELECT * FROM rivals WHERE trajectory = ? ORDER BY request, step, rank", (id,)
        ).fetchall()
        blocks = [request.steps for request in trajectory.requests]
        assert [(row["request"], row["step"]) for row in steps] == [(r, s) for r in range(1, 5) for s in range(1, 31)]
        assert [row["token_id"] for row in steps] == np.concatenate([b.token_ids for b in blocks]).tolist()
        assert [row["logprob"] for row in steps] == np.concatenate([b.logprobs for b in blocks]).tolist()
        assert [row["margin"] for row in steps] == trajectory.margins.tolist()
        assert bytes.fromhex("".join(row["bytes"] for row in steps)) == b"".join(b.piece_bytes for b in blocks)
        assert [row["token_id"] for row in rivals] == np.concatenate([b.rival_ids for b in blocks]).ravel().tolist()
        assert [row["logprob"] for row in rivals] == np.concatenate([b.rival_logprobs for b in blocks]).ravel().tolist()
        assert {row["rank"] for row in rivals} == {1, 2, 3, 4, 5}


def test_prompts_stand_whole_with_a_row_for_every_token(
    plain: sqlite3.Connection, made: tuple[Trajectory, Trajectory]
) -> None:
    query = "SELECT token_id FROM prompts WHERE trajectory = 2 AND request = ? ORDER BY position"
    for request in made[0].requests:
        rows = plain.execute(query, (request.index + 1,)).fetchall()
        assert [row["token_id"] for row in rows] == request.prompt.ids.tolist()


def test_requests_carry_their_report_and_what_the_answer_did(
    plain: sqlite3.Connection, made: tuple[Trajectory, Trajectory]
) -> None:
    request = made[0].requests[2]
    assert request.report is not None
    row = plain.execute("SELECT * FROM requests WHERE trajectory = 2 AND request = 3").fetchone()
    assert (row["turn"], row["steps"], row["prompt_tokens"]) == (3, 30, len(request.prompt.ids))
    assert row["answer"] == request.steps.text
    assert (row["cached_tokens"], row["evaluated_tokens"]) == (
        request.report.cached_tokens,
        request.report.evaluated_tokens,
    )
    assert json.loads(row["chunks"]) == list(request.report.chunks)
    assert json.loads(row["calls"]) == encode(request.calls)
    assert json.loads(row["spans"]) == encode(request.spans)


def test_an_open_request_has_steps_and_no_report(plain: sqlite3.Connection) -> None:
    row = plain.execute("SELECT * FROM requests WHERE trajectory = 4").fetchone()
    assert (row["steps"], row["finish_reason"], row["calls"]) == (1, None, None)
    assert plain.execute("SELECT count(*) FROM rivals WHERE trajectory = 4").fetchone()[0] == 5


def test_outdated_trajectories_are_left_out_and_links_hold(plain: sqlite3.Connection) -> None:
    rows = plain.execute("SELECT t.id, p.path FROM trajectories t JOIN passes p ON p.id = t.pass ORDER BY t.id")
    assert [tuple(row) for row in rows] == [(2, "cached"), (3, "recompute"), (4, "recompute")]
    assert plain.execute("PRAGMA foreign_key_check").fetchall() == []
    assert plain.execute("PRAGMA foreign_key_list(steps)").fetchall()


def test_an_empty_file_has_all_tables(tmp_path: FilePath) -> None:
    with recording(tmp_path / "a.forkpoint"):
        pass
    unpack(tmp_path / "a.forkpoint", tmp_path / "plain.db")
    with closing(sqlite3.connect(tmp_path / "plain.db")) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert names == TABLES.keys()


def test_nothing_is_overwritten(tmp_path: FilePath) -> None:
    (tmp_path / "plain.db").write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        unpack(tmp_path / "a.forkpoint", tmp_path / "plain.db")
    assert (tmp_path / "plain.db").read_text() == "mine"


def test_a_target_left_unfinished_is_removed(tmp_path: FilePath) -> None:
    file, target = tmp_path / "a.forkpoint", tmp_path / "plain.db"
    with recording(file) as recorder:
        open_request(recorder, add_pass(recorder)[1])
    with closing(sqlite3.connect(file, isolation_level=None)) as edited:
        edited.execute("UPDATE requests SET added = 'nonsense'")
    with reading(file), pytest.raises(StoreError):
        unpack(file, target)
    assert not target.exists()
    with pytest.raises(StoreError, match="cannot be opened"):
        unpack(file, tmp_path / "no folder" / "plain.db")
