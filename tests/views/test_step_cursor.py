from __future__ import annotations

import pytest

from app.trajectory.pair import Fork, ForkKind
from app.trajectory.trajectory import Path
from app.views.step_cursor import edge_of_request, near_ties, neighbour, place_of_fork, read_place, sizes
from tests.builders import forked_pair_of_trajectories, request, step, trajectory


def test_the_cursor_walks_across_requests_and_stops_at_both_ends() -> None:
    sides = forked_pair_of_trajectories(requests=3, steps_each=10, fork_step=5)
    assert neighbour(sides, (0, 9), 1) == (1, 0)
    assert neighbour(sides, (1, 0), -1) == (0, 9)
    assert neighbour(sides, (2, 9), 1) == (2, 9)
    assert neighbour(sides, (0, 0), -5) == (0, 0)
    assert neighbour((None, None), (0, 0), 1) == (0, 0)


def test_a_request_without_steps_is_passed_over() -> None:
    side = trajectory([request(0, [1, 2], [step(1)]), request(1, [1, 2, 1], []), request(2, [1, 2, 1, 1], [step(2)])])
    assert neighbour((side, None), (0, 0), 1) == (2, 0)
    assert sizes((side, None)) == [1, 0, 1]


def test_home_and_end_go_to_the_edges_of_the_longer_side() -> None:
    short = trajectory([request(0, [1], [step(1)])])
    long = trajectory([request(0, [1], [step(1), step(2), step(3)])], path=Path.RECOMPUTE)
    assert edge_of_request((short, long), (0, 1), end=True) == (0, 2)
    assert edge_of_request((short, long), (0, 1), end=False) == (0, 0)


def test_near_ties_are_those_of_the_recompute_side() -> None:
    sure = trajectory([request(0, [1], [step(1, margin=3.0), step(2, margin=3.0)])])
    torn = trajectory(
        [request(0, [1], [step(1, margin=3.0), step(2, margin=0.05)]), request(1, [1, 2], [step(3, margin=0.02)])],
        path=Path.RECOMPUTE,
    )
    assert near_ties((sure, torn), 0.1) == [(0, 1), (1, 0)]
    assert near_ties((sure, None), 0.1) == []


@pytest.mark.parametrize(
    ("kind", "at", "place"),
    [(ForkKind.TOKEN, 16, (2, 16)), (ForkKind.PROMPT, 400, (2, 0)), (ForkKind.REQUESTS, None, (2, 0))],
)
def test_the_cursor_stands_on_a_fork_of_any_kind(kind: ForkKind, at: int | None, place: tuple[int, int]) -> None:
    assert place_of_fork(Fork(kind, 2, at, None, None)) == place


@pytest.mark.parametrize(("text", "place"), [("3:17", (2, 16)), (" 1:1 ", (0, 0)), ("2", (1, 0)), ("2:", (1, 0))])
def test_a_place_is_read_as_a_person_counts(text: str, place: tuple[int, int]) -> None:
    assert read_place(text, [30, 30, 30]) == place


@pytest.mark.parametrize("text", ["", "x", "0:1", "4:1", "3:31", "3:0", "-1:2", "3:1:2", "²"])
def test_a_place_that_is_not_there_gets_a_sentence(text: str) -> None:
    answer = read_place(text, [30, 30, 30])
    assert isinstance(answer, str)
    assert answer.endswith(".")
