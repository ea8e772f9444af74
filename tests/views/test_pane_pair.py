"""The token panes as a user has them: what is in view, what keys, mouse and wheel do, what is copied and found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.trajectory.pair import Fork, ForkKind, ForkSide
from app.trajectory.step import Rival, Step, StepBlock
from app.trajectory.trajectory import Path, Status, Trajectory
from app.views.pane_hits import hit
from app.views.pane_menu import pane_menu
from app.views.pane_pair import PanePair
from app.views.theme import DARK, LIGHT, Theme
from tests.builders import forked_pair_of_trajectories, request, step, trajectory

SIDE = ForkSide(1, b" 14", -0.7, 0.04)
FORK = Fork(ForkKind.TOKEN, 2, 16, SIDE, SIDE)


@pytest.fixture
def panes(qtbot: QtBot) -> PanePair:
    widget = PanePair(LIGHT)
    qtbot.addWidget(widget)
    widget.resize(800, 520)
    widget.show()
    return widget


@pytest.fixture
def pair() -> tuple[Trajectory, Trajectory]:
    return forked_pair_of_trajectories(requests=6, steps_each=40, fork_request=3)


@pytest.fixture
def opened(panes: PanePair, pair: tuple[Trajectory, Trajectory]) -> PanePair:
    panes.show_pair(*pair, replace(FORK, request=3), {})
    return panes


def holds_colour(image: QImage, colour: str) -> bool:
    wanted = QColor(colour)
    return any(image.pixelColor(x, y) == wanted for x in range(image.width()) for y in range(image.height()))


def place_in_view(panes: PanePair, path: Path, position: tuple[int, int]) -> QPoint:
    pane = panes.panes[path]
    place = panes._layout.token_place(path, *position)
    assert place is not None
    return QPoint(int(place[0] + place[2] / 2), int(place[1] - pane.offset + panes._layout.metrics.token_line / 2))


def press(widget: QWidget, point: QPoint) -> None:
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, point)


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


# Copying and finding


def test_dragged_tokens_are_copied_as_text_tokens_ids_and_rows(
    opened: PanePair, pair: tuple[Trajectory, Trajectory]
) -> None:
    view = opened.panes[Path.RECOMPUTE].viewport()
    begin, end = (place_in_view(opened, Path.RECOMPUTE, (3, index)) for index in (4, 7))
    QTest.mousePress(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, begin)
    QTest.mouseMove(view, end)
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, end)
    steps = pair[1].requests[3].steps
    assert json.loads(opened.copy_selection("ids")) == steps.token_ids[4:8].tolist()
    assert opened.copy_selection("text") == b"".join(steps.piece(index) for index in range(4, 8)).decode()
    assert len(opened.copy_selection("tokens").split(" ")) == 4
    header, *rows = opened.copy_selection("rows").splitlines()
    assert header.split("\t")[:3] == ["path", "request", "step"]
    assert [row.split("\t")[:4] for row in rows] == [
        ["recompute", "4", str(index + 1), str(steps.token_ids[index])] for index in range(4, 8)
    ]
    assert QGuiApplication.clipboard().text() == opened.copy_selection("rows")


def test_a_selection_over_requests_copies_what_lies_between(opened: PanePair) -> None:
    pane = opened.panes[Path.CACHED]
    QTest.keyClick(pane, Qt.Key.Key_End)
    QTest.keyClick(pane, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClick(pane, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert len(json.loads(opened.copy_selection("ids"))) == 3


def test_without_a_selection_the_token_at_the_cursor_is_copied(
    opened: PanePair, pair: tuple[Trajectory, Trajectory]
) -> None:
    assert json.loads(opened.copy_selection("ids")) == [int(pair[0].requests[3].steps.token_ids[16])]
    QTest.keyClick(opened.panes[Path.CACHED], Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == pair[0].requests[3].steps.piece(16).decode()


def test_the_menu_copies_a_whole_message_and_folds(opened: PanePair) -> None:
    layout = opened._layout
    row = layout.row_of(3)
    (_, paragraph, top), *_ = layout.paragraphs(Path.CACHED, layout.rows[row])
    found = hit(layout, Path.CACHED, 100, float(layout.tops[row]) + top + 2)
    toggled: list[int] = []
    menu = pane_menu(opened, layout, found, opened.copy_selection, toggled.append)
    actions = {action.text(): action for action in menu.actions()}
    actions["Copy this message"].trigger()
    assert QGuiApplication.clipboard().text() == paragraph.text
    actions["Fold"].trigger()
    assert toggled == [row]


def test_find_walks_every_place_forwards_and_back_and_stops_at_the_ends(panes: PanePair) -> None:
    def side(path: Path, *answers: str) -> Trajectory:
        requests = [
            request(index, range(9), [step(i, piece=piece.encode()) for i, piece in enumerate(answer.split("|"))])
            for index, answer in enumerate(answers)
        ]
        return trajectory(requests, path=path, id=1 + (path is Path.RECOMPUTE))

    panes.show_pair(
        side(Path.CACHED, "a|Tues|day|b", "x|tuesday"), side(Path.RECOMPUTE, "a|Tues|day|b", "x|y"), None, {}
    )
    seen = []
    panes.cursor_moved.connect(lambda request, step: seen.append((request, step)))
    assert [panes.find("TUESDAY", "both") for _ in range(4)] == [True, True, True, False]
    assert seen == [(0, 1), (1, 1)]
    assert panes.copy_selection("text") == "tuesday"
    assert [panes.find("tuesday", "both", backwards=True) for _ in range(3)] == [True, True, False]
    assert panes.copy_selection("tokens") == "Tues day"
    panes.set_cursor(0, 0)
    assert [panes.find("tuesday", "recompute") for _ in range(2)] == [True, False]
    assert not panes.find("", "both")
    assert not panes.find("absent", "cached")


# Hostile model text


def test_hostile_pieces_are_painted_hovered_and_copied_without_harm(panes: PanePair) -> None:
    pieces = [b"\xe2", "\u202egnp".encode(), b"\x1b[31m", b"", b"x" * 10_000, b"<img src=x>", "\u0301".encode(), b"\n"]
    steps = [Step(index, None, piece, (Rival(index, -0.1, piece),)) for index, piece in enumerate(pieces * 3)]
    side = trajectory([request(0, range(9), steps, cached=None)])
    panes.show_pair(side, replace(side, id=2, path=Path.RECOMPUTE), None, {})
    assert not panes.grab().isNull()
    told = [panes._describe(Path.CACHED, 0, index) for index in range(len(pieces))]
    assert told[0].splitlines() == [
        r"\xE2   request 1, token 1",
        "id 0 · bytes E2",
        "logprob not reported · margin not reported",
    ]
    assert all(len(text) < 400 and "\u202e" not in text and "\x1b" not in text for text in told)
    panes.set_cursor(0, 0)
    assert panes.copy_selection("rows").splitlines()[1].split("\t")[4:] == ["E2", r"\xE2", "", ""]
    assert panes.headers[Path.CACHED].counts.text() == "cached: not reported"
