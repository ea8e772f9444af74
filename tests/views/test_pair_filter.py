from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trajectory.pair import PairRow
from app.views.pair_filter import parse

FORKED = PairRow(
    1, "calendar-02", "calendar", 1, True, "token", 2, 16, 0.04, 3,
    tool_calls_changed=True, outcome_changed=False, valid=True, code="N", headline="Forked.",
)  # fmt: skip
ROWS = {
    "forked": FORKED,
    "text": replace(FORKED, episode_id="files-08", family="files", margin=0.4, request=0, step=1, near_ties=0,
                    tool_calls_changed=False, code="S"),
    "outcome": replace(FORKED, episode_id="stock-05", family="stock", outcome_changed=True, margin=None, request=6,
                       step=None, kind="requests"),
    "equal": replace(FORKED, episode_id="notes-07", family="notes", diverged=False, kind=None, request=None, step=None,
                     margin=None, tool_calls_changed=False, code="equal"),
    "drift": replace(FORKED, episode_id="notes-15", family="notes", diverged=False, kind=None, request=None, step=None,
                     margin=None, tool_calls_changed=False, code="drift"),
    "open": replace(FORKED, episode_id="units-01", family="units", diverged=None, kind=None, request=None, step=None,
                    margin=None, tool_calls_changed=False, valid=None, code="open"),
    "invalid": replace(FORKED, episode_id="units-09", family="units", valid=False, code="invalid", margin=2.0),
    "unproven": replace(FORKED, episode_id="units-17", family="units", valid=False, code="unproven", margin=2.0),
}  # fmt: skip
IDS = {row.episode_id for row in ROWS.values()}
FORKS = {"forked", "text", "outcome", "invalid", "unproven"}


def shown(text: str) -> set[str]:
    read = parse(text, IDS)
    assert read.problem == ""
    return {name for name, row in ROWS.items() if read.accepts(row)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set(ROWS)),
        ("forked", FORKS),
        ("equal", {"equal"}),
        ("drift", {"drift"}),
        ("open", {"open"}),
        ("invalid", {"invalid"}),
        ("unproven", {"unproven"}),
        ("valid forked", {"forked", "text", "outcome"}),
        ("margin<0.1", {"forked"}),
        ("margin>=0.4", {"text", "invalid", "unproven"}),
        ("-margin<0.1 forked", FORKS - {"forked"}),
        ("near>2", set(ROWS) - {"text"}),
        ("near=0", {"text"}),
        ("family:calendar", {"forked"}),
        ("-family:notes -forked", {"open"}),
        ("tool valid", {"forked", "outcome"}),
        ("outcome", {"outcome"}),
        ("text", {"text"}),
        ("code:n valid -tool", set()),
        ("code:S", {"text"}),
        ("kind:requests", {"outcome"}),
        ("notes", {"equal", "drift"}),
        ("UNITS-0", {"open", "invalid"}),
        ("-notes -units -files", {"forked", "outcome"}),
    ],
)
def test_a_word_of_the_filter_shows_what_it_says(text: str, expected: set[str]) -> None:
    assert shown(text) == expected


def test_requests_and_steps_count_from_one() -> None:
    assert shown("request:3 valid forked") == {"forked"}
    assert shown("request:1") == {"text"}
    assert shown("step:17 valid") == {"forked"}


@pytest.mark.parametrize("text", ["forkde", "margin<abc", "size:3", "family<notes", "42x"])
def test_a_word_that_cannot_be_read_is_named_and_hides_nothing(text: str) -> None:
    read = parse(f"{text} tool", IDS)
    assert read.problem.endswith(".")
    assert {name for name, row in ROWS.items() if read.accepts(row)} == shown("tool")


@pytest.mark.parametrize("text", ["fork", "mar", "margin<", "family:", "-", "eq"])
def test_a_word_still_being_typed_is_no_problem_and_hides_nothing(text: str) -> None:
    assert shown(text) == set(ROWS)


@given(st.text(max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read = parse(text, IDS)
    for row in ROWS.values():
        assert read.accepts(row) in (True, False)
