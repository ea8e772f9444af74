"""Rows of a pair: folds, heights, what is laid out and what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.trajectory.episode import Message
from app.trajectory.pair import Fork, ForkKind, ForkSide
from app.trajectory.step import StepBlock
from app.trajectory.trajectory import Path, Status, Trajectory
from app.views import pair_layout
from app.views.pair_layout import Kind, PairLayout
from app.views.pane_hits import hit, line_down, line_up
from app.views.pane_marks import PaneMarks
from app.views.pane_state import PaneState
from app.views.token_layout import Advances, Body, Metrics, flow
from tests.builders import forked_pair_of_trajectories, request, step, trajectory

SIDE = ForkSide(1, b" 14", -0.7, 0.04)


def fork_at(request: int, step: int | None, kind: ForkKind = ForkKind.TOKEN) -> Fork:
    return Fork(kind, request, step, SIDE, SIDE)


def watch_flow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens every call of `flow` was given, from now on."""
    flowed: list[int] = []

    def watched(steps: StepBlock, *rest: Any) -> Body:
        flowed.append(len(steps))
        return flow(steps, *rest)

    monkeypatch.setattr(pair_layout, "flow", watched)
    return flowed


@pytest.fixture
def layout() -> PairLayout:
    advances = Advances(lambda text: 8.0 * len(text))
    return PairLayout(Metrics(width=400.0), advances, advances)


@pytest.fixture
def pair() -> tuple[Trajectory, Trajectory]:
    return forked_pair_of_trajectories()


def test_a_pair_opens_with_only_the_forked_request_unfolded(
    layout: PairLayout, pair: tuple[Trajectory, Trajectory]
) -> None:
    layout.open_pair(*pair, fork_at(2, 16))
    assert [(row.kind, row.first, row.is_open, row.after_fork) for row in layout.rows] == [
        (Kind.REQUEST, 0, False, False),
        (Kind.REQUEST, 1, False, False),
        (Kind.REQUEST, 2, True, False),
        (Kind.REQUEST, 3, False, True),
        (Kind.OUTCOME, 0, False, True),
    ]


def test_a_folded_row_never_touches_its_tokens(
    layout: PairLayout, pair: tuple[Trajectory, Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    flowed = watch_flow(monkeypatch)
    layout.open_pair(*pair, fork_at(2, 16))
    assert len(flowed) == 2  # the forked request, once a side
    layout.unfold_all()
    assert len(flowed) == 2 + 2 + 2  # requests 1 and 2 are equal and broken once, request 4 on each side


def test_four_equal_requests_before_the_fork_become_one_row(layout: PairLayout) -> None:
    layout.open_pair(*forked_pair_of_trajectories(requests=7, fork_request=5), fork_at(5, 16))
    assert [(row.kind, row.first, row.last) for row in layout.rows[:2]] == [(Kind.RUN, 0, 4), (Kind.REQUEST, 5, 5)]
    assert layout.row_of(3) == 0
    layout.reveal(3)
    assert layout.rows[layout.row_of(3)].first == 3
    assert layout.token_place(Path.CACHED, 3, 0) is not None


def test_equal_rows_stand_at_the_same_height_on_both_sides(
    layout: PairLayout, pair: tuple[Trajectory, Trajectory]
) -> None:
    layout.open_pair(*pair, fork_at(2, 16))
    for index in range(17):
        cached, recompute = (layout.token_place(path, 2, index) for path in Path)
        assert cached is not None
        assert recompute is not None
        assert cached[1] == recompute[1]


def test_rows_follow_each_other_without_gap_or_overlap(layout: PairLayout, pair: tuple[Trajectory, Trajectory]) -> None:
    layout.open_pair(*pair, fork_at(2, 16))
    layout.unfold_all()
    assert np.all(np.diff(layout.tops) > 0)
    assert len(layout.rows_between(0, layout.height)) == len(layout.rows)
    middle = float(layout.tops[2] + layout.tops[3]) / 2
    assert list(layout.rows_between(middle, middle + 1)) == [2]


def test_every_token_is_hit_where_it_stands(layout: PairLayout, pair: tuple[Trajectory, Trajectory]) -> None:
    layout.open_pair(*pair, fork_at(2, 16))
    for path in Path:
        for index in range(30):
            place = layout.token_place(path, 2, index)
            assert place is not None
            left, top, width = place
            found = hit(layout, path, left + width / 2, top + 3)
            assert (found.kind, found.position, found.exact) == ("token", (2, index), True)
    assert hit(layout, Path.CACHED, 20, float(layout.tops[0]) + 4).kind == "title"
    assert hit(layout, Path.CACHED, 20, layout.height + 50).kind == "nothing"


def test_a_long_tool_result_is_cut_and_unfolds_on_both_sides(layout: PairLayout) -> None:
    long = Message("tool", "\n".join(map(str, range(40))))
    sides = [trajectory([request(0, range(9), [step(1)]), request(1, range(20), [step(2)], added=(long,))], path=path)
             for path in Path]  # fmt: skip
    layout.open_pair(sides[0], sides[1], fork_at(1, 0))
    row = layout.rows[layout.row_of(1)]
    (key, paragraph, top), *_ = layout.paragraphs(Path.CACHED, row)
    assert paragraph.hidden == 28
    y = float(layout.tops[layout.row_of(1)]) + top + 12.5 * layout.metrics.line
    assert hit(layout, Path.RECOMPUTE, 80, y).kind == "more"
    before = layout.height
    layout.unfold_message(key)
    assert layout.height == before + 27 * layout.metrics.line


def test_a_growing_pair_lays_out_only_the_request_that_changed(
    layout: PairLayout, pair: tuple[Trajectory, Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    cached, whole = pair
    last = whole.requests[2]
    grown = [
        replace(last, steps=StepBlock.pack([last.steps.step(i, {}) for i in range(count)], 5), report=None)
        for count in (3, 6)
    ]
    first, second = (
        replace(whole, requests=(*whole.requests[:2], open_request), status=Status.RUNNING) for open_request in grown
    )
    layout.open_pair(cached, first, None)
    flowed = watch_flow(monkeypatch)
    kept = [layout.body(path, layout.rows[layout.row_of(1)]) for path in Path]
    layout.show(cached, second, None)
    assert flowed == [6]
    assert all(layout.body(path, layout.rows[layout.row_of(1)]) is body for path, body in zip(Path, kept, strict=True))
    assert all(row.is_open for row in layout.rows if row.kind is Kind.REQUEST)


def test_a_fork_found_live_folds_the_pair_around_it(layout: PairLayout, pair: tuple[Trajectory, Trajectory]) -> None:
    cached, recompute = pair
    layout.open_pair(cached, replace(recompute, status=Status.RUNNING), None)
    layout.show(cached, recompute, fork_at(2, 16))
    assert [row.first for row in layout.rows if row.is_open] == [2]


def test_what_lies_after_the_fork_is_known(layout: PairLayout, pair: tuple[Trajectory, Trajectory]) -> None:
    layout.open_pair(*pair, fork_at(2, 16))
    assert layout.grey_from(1) > 30
    assert layout.grey_from(2) == 17
    assert layout.grey_from(3) == 0
    layout.open_pair(*pair, fork_at(2, 5, ForkKind.PROMPT))
    assert layout.grey_from(2) == 0
    assert layout.fork_step(2) is None


def test_near_ties_are_marked_up_to_the_fork_and_not_after(
    layout: PairLayout, pair: tuple[Trajectory, Trajectory]
) -> None:
    marks = PaneMarks(layout)
    marks.set_near_tie(1.0)
    layout.open_pair(*pair, fork_at(2, 16))
    margins = pair[1].requests[2].steps.margins
    assert marks.near_ties(2).tolist() == [index for index in range(17) if margins[index] < 1.0]
    assert len(marks.near_ties(3)) == 0
    y = marks.fork_height()
    assert y is not None
    assert hit(layout, Path.CACHED, 0, y).position is not None
    assert np.isclose(marks.near_tie_heights(), y).any()


def test_up_and_down_walk_lines_and_titles_and_come_back(
    layout: PairLayout, pair: tuple[Trajectory, Trajectory]
) -> None:
    layout.open_pair(*pair, fork_at(2, 16))
    state = PaneState((2, 16))
    way = [state]
    while (state := line_up(layout, Path.CACHED, state)) != way[-1]:
        way.append(state)
    assert way[-1].header == (Kind.REQUEST, 0)
    assert [one.header for one in way if one.header] == [(Kind.REQUEST, 2), (Kind.REQUEST, 1), (Kind.REQUEST, 0)]
    for _ in range(40):
        state = line_down(layout, Path.CACHED, state)
    assert state.header == (Kind.OUTCOME, 0)


def test_up_goes_to_the_token_above_and_down_back_to_it(
    layout: PairLayout, pair: tuple[Trajectory, Trajectory]
) -> None:
    layout.open_pair(*pair, fork_at(2, 16))
    body = layout.body(Path.CACHED, layout.rows[layout.row_of(2)])
    second = int(body.starts[1])
    assert line_up(layout, Path.CACHED, PaneState((2, second))).cursor == (2, 0)
    assert line_down(layout, Path.CACHED, PaneState((2, 0))).cursor == (2, second)


def test_a_fork_between_two_ids_of_the_same_bytes_gets_its_frame_on_both_sides(layout: PairLayout) -> None:
    sides = [
        trajectory([request(0, range(9), [step(1, piece=b"a"), step(token, piece=b"b")])], path=path)
        for token, path in enumerate(Path)
    ]
    layout.open_pair(sides[0], sides[1], None)
    layout.show(sides[0], sides[1], fork_at(0, 1))
    places = [layout.token_place(path, 0, 1) for path in Path]
    assert places[0] == places[1]
    assert places[0] is not None
    assert places[0][2] > 8.0


def test_a_request_that_one_path_lacks_leaves_a_row(layout: PairLayout, pair: tuple[Trajectory, Trajectory]) -> None:
    cached, recompute = pair
    layout.open_pair(cached, replace(recompute, requests=recompute.requests[:2]), fork_at(2, None, ForkKind.REQUESTS))
    assert layout.token_place(Path.CACHED, 2, 0) is not None
    assert layout.token_place(Path.RECOMPUTE, 2, 0) is None
    assert layout.step_count(2) == 30
