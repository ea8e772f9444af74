"""Advances, line breaking and wrapping, on a font whose characters are 8 pixels wide."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.trajectory.piece_text import visible
from app.trajectory.step import Step, StepBlock
from app.views.token_layout import FOLDED_LINES, Advances, Metrics, Remark, break_tokens, flow, fold, wrap

WIDE = "中"


def measured(text: str) -> float:
    return sum(16.0 if character == WIDE else 8.0 for character in text)


def block(*pieces: bytes) -> StepBlock:
    return StepBlock.pack([Step(index, -0.1, piece) for index, piece in enumerate(pieces)])


METRICS = Metrics(width=56 + 18 + 6 + 80)  # 80 pixels of text


@given(st.lists(st.binary(max_size=8), max_size=40))
def test_a_tokens_advance_is_the_width_of_what_is_drawn(pieces: list[bytes]) -> None:
    found = Advances(measured).tokens(block(*pieces))
    np.testing.assert_allclose(found, [measured(visible(piece)) for piece in pieces])


def test_only_tokens_outside_the_table_are_measured_and_each_once() -> None:
    asked: list[str] = []

    def asking(text: str) -> float:
        asked.append(text)
        return measured(text)

    advances = Advances(asking)
    asked.clear()
    advances.tokens(block(b" plain", b"words\n", WIDE.encode(), WIDE.encode(), b"\xe2"))
    assert asked == [WIDE, r"\xE2"]


@given(st.lists(st.floats(1, 200), max_size=60), st.lists(st.booleans(), min_size=60, max_size=60))
def test_every_token_is_in_one_line_and_no_line_of_several_is_too_wide(widths: list[float], ends: list[bool]) -> None:
    array, breaks = np.array(widths), np.array(ends[: len(widths)], dtype=bool)
    starts = break_tokens(array, 7.0, 100.0, breaks)
    assert starts[0] == 0
    assert starts[-1] == len(widths)
    assert np.all(np.diff(starts) > 0)
    for first, stop in pairwise(starts):
        assert stop - first == 1 or array[first:stop].sum() + 7 * (stop - first - 1) <= 100.0 + 1e-6
        assert not breaks[first : stop - 1].any()


def test_a_line_is_as_full_as_it_can_be() -> None:
    assert break_tokens(np.full(5, 30.0), 5.0, 100.0, np.zeros(5, bool)).tolist() == [0, 3, 5]


def test_tokens_stand_left_to_right_and_the_forked_one_has_room_for_its_frame() -> None:
    body = flow(block(b"ab", b"cd", b"\n", b"ef"), Advances(measured), METRICS, 1, "end")
    assert body.starts.tolist() == [0, 3, 4]
    assert body.lefts.tolist() == [0.0, 23.0, 23.0 + 16 + 14 + 7, 0.0]
    assert body.widths[1] == 16 + 2 * (METRICS.fork_pad + METRICS.fork_room)
    assert body.nearest(0, 24.0) == 1
    assert body.nearest(0, 500.0) == 2
    assert body.line_of(3) == 1


def test_a_missing_token_at_the_fork_gets_a_place_of_its_own() -> None:
    body = flow(block(b"ab"), Advances(measured), METRICS, 1, "end")
    assert body.marker == 1
    assert len(body.widths) == 2
    assert flow(block(b"ab"), Advances(measured), METRICS, None, "end").marker is None


def test_a_token_of_10000_characters_is_one_line_no_wider_than_the_pane() -> None:
    body = flow(block(b"a", b"x" * 10_000, b"b"), Advances(measured), METRICS, None, "end")
    assert body.starts.tolist() == [0, 1, 2, 3]
    assert body.widths.max() == METRICS.available


def test_an_empty_answer_has_no_lines() -> None:
    assert flow(StepBlock.empty(), Advances(measured), METRICS, None, "end").line_count == 0


@given(st.text(alphabet=f"ab {WIDE}\n", max_size=120))
def test_wrapped_lines_fit_and_lose_nothing_but_spaces(text: str) -> None:
    lines = wrap(text, Advances(measured), 40.0)
    assert all(measured(line) <= 40.0 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "").replace("\n", "")


def test_words_are_broken_only_where_they_must_be() -> None:
    assert wrap("one two threefourfive", Advances(measured), 64.0) == ["one two", "threefou", "rfive"]


def test_a_long_message_is_cut_until_it_is_wanted_whole() -> None:
    remark = Remark("tool", "\n".join(str(line) for line in range(46)))
    cut = fold(remark, Advances(measured), 80.0, whole=False)
    assert (len(cut.lines), cut.hidden, cut.line_count) == (FOLDED_LINES, 46 - FOLDED_LINES, FOLDED_LINES + 1)
    assert fold(remark, Advances(measured), 80.0, whole=True).line_count == 46
