"""The token panes as a user has them: what is in view, what keys, mouse and wheel do, what is copied and found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.trajectory.step import StepBlock
from app.trajectory.trajectory import Path, Status, Trajectory
from app.views.pane_pair import PanePair
from app.views.theme import DARK, LIGHT, Theme
from tests.builders import forked_pair_of_trajectories
from tests.views.made_panes import FORK, holds_colour, place_in_view, press


def growing(whole: Trajectory, requests: int, steps: int) -> Trajectory:
    last = whole.requests[requests - 1]
    block = StepBlock.pack([last.steps.step(index, {}) for index in range(steps)], 5)
    return replace(
        whole,
        status=Status.RUNNING,
        requests=(*whole.requests[: requests - 1], replace(last, steps=block, report=None, calls=(), results=())),
    )


# Opening


@pytest.mark.parametrize("size", [(620, 260), (1100, 700)])
@pytest.mark.parametrize("text_scale", [1.0, 1.6])
def test_a_pair_opens_on_its_fork_in_the_upper_part_of_the_view(
    panes: PanePair, size: tuple[int, int], text_scale: float
) -> None:
    panes.resize(*size)
    panes.set_text_scale(text_scale)
    panes.show_pair(*forked_pair_of_trajectories(requests=40, fork_request=30), replace(FORK, request=30), {})
    panes.unfold_all()
    panes.centre_on(30, 16)
    for path, pane in panes.panes.items():
        y = place_in_view(panes, path, (30, 16)).y()
        assert 0.2 * pane.viewport().height() < y < 0.6 * pane.viewport().height()


def test_a_fork_stays_in_place_when_the_window_gets_its_size_only_later(
    qtbot: QtBot, pair: tuple[Trajectory, Trajectory]
) -> None:
    panes = PanePair(DARK)
    qtbot.addWidget(panes)
    panes.show_pair(*pair, replace(FORK, request=3), {})
    panes.resize(700, 300)
    panes.show()
    y = place_in_view(panes, Path.CACHED, (3, 16)).y()
    assert 0 < y < panes.panes[Path.CACHED].viewport().height()


def test_what_the_view_is_centred_on_stays_there_when_the_window_changes_its_size(
    panes: PanePair,
) -> None:
    panes.show_pair(*forked_pair_of_trajectories(requests=40, fork_request=30), replace(FORK, request=30), {})
    panes.unfold_all()
    panes.centre_on(30, 16)
    for width, height in ((800, 260), (800, 900), (500, 400)):
        panes.resize(width, height)
        QApplication.processEvents()
        y = place_in_view(panes, Path.CACHED, (30, 16)).y()
        assert y / panes.panes[Path.CACHED].viewport().height() == pytest.approx(0.4, abs=0.1)


def test_a_pair_that_is_replayed_from_its_beginning_is_shown_as_one_that_grows(
    opened: PanePair, pair: tuple[Trajectory, Trajectory]
) -> None:
    opened.show_pair(growing(pair[0], 2, 5), growing(pair[1], 1, 5), None, {})
    assert opened._state.cursor == (0, 4)
    assert all(row.is_open for row in opened._layout.rows)
    opened.show_pair(growing(pair[0], 6, 5), growing(pair[1], 4, 20), replace(FORK, request=3), {})
    assert opened._state.cursor == (3, 16)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_the_fork_is_painted_framed_and_filled_on_both_sides(opened: PanePair, theme: Theme) -> None:
    opened.set_theme(theme)
    for pane in opened.panes.values():
        image = pane.grab().toImage()
        assert holds_colour(image, theme.fork)
        assert holds_colour(image, theme.fork_fill)


def test_an_empty_pane_says_what_to_do_next(panes: PanePair, pair: tuple[Trajectory, Trajectory]) -> None:
    panes.show_pair(None, None, None, {})
    assert "Ctrl+R" in panes.panes[Path.CACHED].hint
    assert holds_colour(panes.panes[Path.CACHED].grab().toImage(), LIGHT.muted)
    panes.show_pair(replace(pair[0], status=Status.RUNNING, requests=()), None, None, {})
    assert panes.panes[Path.CACHED].hint == "The first request is on its way."
    assert panes.panes[Path.RECOMPUTE].hint == "The recompute path of this episode has not begun."


def test_the_headers_show_the_request_at_the_cursor(opened: PanePair) -> None:
    assert opened.headers[Path.RECOMPUTE].counts.text().startswith("0 cached · ")
    opened.set_cursor(1, 0)
    own = opened._layout.request(Path.CACHED, 1)
    assert own is not None
    assert own.report is not None
    assert opened.headers[Path.CACHED].counts.text().startswith(f"{own.report.cached_tokens} cached")


# Step cursor


def test_a_click_on_a_token_moves_the_cursor_and_tells(qtbot: QtBot, opened: PanePair) -> None:
    point = place_in_view(opened, Path.RECOMPUTE, (3, 5))
    with qtbot.waitSignal(opened.cursor_moved) as caught:
        press(opened.panes[Path.RECOMPUTE].viewport(), point)
    assert caught.args == [3, 5]


def test_keys_step_through_tokens_lines_and_requests(opened: PanePair) -> None:
    pane = opened.panes[Path.CACHED]
    seen: list[tuple[int, int]] = []
    opened.cursor_moved.connect(lambda request, step: seen.append((request, step)))
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_End, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_Left):
        QTest.keyClick(pane, key)
    assert seen == [(3, 17), (3, 16), (3, 39), (4, 0), (3, 39)]
    assert opened._layout.token_place(Path.CACHED, 4, 0) is not None, "stepping into a folded request unfolds it"
    QTest.keyClick(pane, Qt.Key.Key_Up)
    assert seen[-1][0] == 3
    assert seen[-1][1] < 39


def test_setting_the_cursor_from_outside_tells_nobody_and_shows_it(qtbot: QtBot, opened: PanePair) -> None:
    with qtbot.assertNotEmitted(opened.cursor_moved):
        opened.set_cursor(0, 3)
    point = place_in_view(opened, Path.CACHED, (0, 3))
    assert 0 < point.y() < opened.panes[Path.CACHED].viewport().height()
    assert "request 1, token 4" in opened.panes[Path.CACHED].accessibleDescription()


# Folds


def test_space_folds_the_block_at_the_cursor_and_a_click_on_its_title_unfolds_it(opened: PanePair) -> None:
    pane, layout = opened.panes[Path.CACHED], opened._layout
    QTest.keyClick(pane, Qt.Key.Key_Space)
    assert layout.token_place(Path.CACHED, 3, 16) is None
    y = int(layout.tops[layout.row_of(3)]) - pane.offset + 8
    press(opened.panes[Path.RECOMPUTE].viewport(), QPoint(60, y))
    assert layout.token_place(Path.CACHED, 3, 16) is not None


def test_titles_are_reached_and_unfolded_by_keyboard_alone(opened: PanePair) -> None:
    pane, layout = opened.panes[Path.CACHED], opened._layout
    for _ in range(30):
        QTest.keyClick(pane, Qt.Key.Key_Up)
    assert not layout.rows[0].is_open
    QTest.keyClick(pane, Qt.Key.Key_Return)
    assert layout.rows[0].is_open


def test_the_cursor_stays_where_it_is_on_screen_while_everything_unfolds(opened: PanePair) -> None:
    before = place_in_view(opened, Path.CACHED, (3, 16)).y()
    opened.unfold_all()
    assert place_in_view(opened, Path.CACHED, (3, 16)).y() == pytest.approx(before, abs=2)
    opened.fold_all()
    assert not any(row.is_open for row in opened._layout.rows)


# Scrolling


def test_both_panes_scroll_together_until_they_are_unlocked(opened: PanePair) -> None:
    opened.unfold_all()
    cached, recompute = (opened.panes[path].verticalScrollBar() for path in Path)
    cached.setValue(50)
    assert recompute.value() == 50
    opened.set_scroll_locked(False)
    recompute.setValue(200)
    assert cached.value() == 50
    opened.set_scroll_locked(True)
    assert cached.value() == recompute.value()


def test_a_scrolled_picture_is_the_same_as_one_painted_afresh(panes: PanePair) -> None:
    panes.resize(700, 260)
    panes.show_pair(
        *forked_pair_of_trajectories(requests=9, steps_each=60, fork_request=6), replace(FORK, request=6), {}
    )
    panes.unfold_all()
    pane = panes.panes[Path.CACHED]
    fork = round(panes._layout.y_of(6, 16))
    edges = {fork - pane.viewport().height(): 3, fork + 60: -3}  # the fork's frame comes in from below, from above
    for start, by in edges.items():
        pane.verticalScrollBar().setValue(start)
        QApplication.processEvents()
        for _ in range(24):
            pane.verticalScrollBar().setValue(pane.offset + by)
            QApplication.processEvents()
            scrolled = panes.screen().grabWindow(panes.winId()).toImage()
            assert scrolled == panes.grab().toImage().convertToFormat(scrolled.format())
    assert holds_colour(scrolled, LIGHT.fork)


def test_the_ruler_scrolls_to_where_it_is_clicked(opened: PanePair) -> None:
    opened.unfold_all()
    ruler = opened.ruler
    press(ruler, QPoint(9, ruler.height() - 10))
    bar = opened.panes[Path.CACHED].verticalScrollBar()
    assert bar.value() > 0.9 * bar.maximum()
    assert holds_colour(ruler.grab().toImage(), LIGHT.fork)


def test_swapped_sides_change_places(opened: PanePair) -> None:
    def left_of(path: Path) -> int:
        return opened.panes[path].mapTo(opened, QPoint(0, 0)).x()

    assert left_of(Path.CACHED) < left_of(Path.RECOMPUTE)
    opened.swap_sides()
    QApplication.processEvents()
    assert left_of(Path.CACHED) > left_of(Path.RECOMPUTE)
    opened.swap_sides()
    QApplication.processEvents()
    assert left_of(Path.CACHED) < left_of(Path.RECOMPUTE)


# A pair that grows


def test_the_view_follows_the_answer_until_the_user_scrolls_away(
    panes: PanePair, pair: tuple[Trajectory, Trajectory]
) -> None:
    panes.resize(700, 300)
    cached, whole = pair
    bar = panes.panes[Path.RECOMPUTE].verticalScrollBar()
    for requests in range(1, 5):
        for steps in (1, 20, 40):
            panes.show_pair(cached, growing(whole, requests, steps), None, {})
            y = place_in_view(panes, Path.RECOMPUTE, (requests - 1, steps - 1)).y()
            assert 0 < y < panes.panes[Path.RECOMPUTE].viewport().height()
    bar.setValue(10)
    panes.show_pair(cached, growing(whole, 5, 40), None, {})
    assert bar.value() == 10


def test_a_token_that_the_user_has_picked_keeps_the_cursor_while_the_answer_grows(
    panes: PanePair, pair: tuple[Trajectory, Trajectory]
) -> None:
    panes.show_pair(growing(pair[0], 1, 20), None, None, {})
    assert panes._state.cursor == (0, 19)
    point = place_in_view(panes, Path.CACHED, (0, 2))
    press(panes.panes[Path.CACHED].viewport(), point)
    panes.show_pair(growing(pair[0], 2, 20), None, None, {})
    assert panes._state.cursor == (0, 2)


def test_a_fork_found_while_the_pair_grows_is_opened_at_once(
    panes: PanePair, pair: tuple[Trajectory, Trajectory]
) -> None:
    panes.show_pair(pair[0], growing(pair[1], 4, 16), None, {})
    panes.show_pair(pair[0], growing(pair[1], 4, 20), replace(FORK, request=3), {})
    panes.show_pair(pair[0], growing(pair[1], 4, 30), replace(FORK, request=3), {})
    assert panes._state.cursor == (3, 16)
    assert 0 < place_in_view(panes, Path.RECOMPUTE, (3, 16)).y() < panes.panes[Path.CACHED].viewport().height()


def test_another_pair_forgets_cursor_folds_and_selection_of_the_last(
    opened: PanePair, pair: tuple[Trajectory, Trajectory]
) -> None:
    opened.unfold_all()
    opened.set_cursor(5, 5)
    other = [replace(side, id=side.id + 10) for side in pair]
    opened.show_pair(other[0], other[1], replace(FORK, request=3, step=2), {})
    assert opened._state.cursor == (3, 2)
    assert sum(row.is_open for row in opened._layout.rows) == 1
