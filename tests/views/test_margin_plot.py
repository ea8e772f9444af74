from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.trajectory.pair import Fork, ForkKind
from app.trajectory.step import StepBlock
from app.trajectory.trajectory import Path, Prompt, Request, Status, Trajectory
from app.views.margin_plot import AFTER_FORK, MarginPlot
from app.views.theme import DARK, LIGHT
from tests.builders import forked_pair_of_trajectories, request, step, trajectory

FORK = Fork(ForkKind.TOKEN, 2, 16, None, None)


@pytest.fixture
def plot(qtbot: QtBot) -> MarginPlot:
    made = MarginPlot(LIGHT)
    qtbot.addWidget(made)
    made.resize(1000, 260)
    made.show()
    return made


def painted(plot: MarginPlot) -> QImage:
    return plot.grab().toImage()


def view_range(plot: MarginPlot) -> tuple[float, float]:
    (first, last), _ = plot._lanes._margin.vb.viewRange()
    return first, last


def point_of(plot: MarginPlot, position: int) -> QPoint:
    vb = plot._lanes._margin.vb
    return QPoint(plot._lanes._graphics.mapFromScene(vb.mapViewToScene(QPointF(position, 0.0))))


def big(path: Path, seed: int, requests: int = 1600, each: int = 63) -> Trajectory:
    random = np.random.default_rng(seed)
    made = []
    for index in range(requests):
        logprobs = -np.sort(random.gamma(2, 1.6, (each, 5)).astype(np.float32), axis=1)
        ids = random.integers(0, 400, (each, 5)).astype(np.int32)
        ends = np.arange(2, 2 * each + 2, 2, dtype=np.int32)
        block = StepBlock(ids[:, 0], logprobs[:, 0], ids, logprobs, b"ab" * each, ends)
        made.append(Request(index, Prompt(ids[0], index, ()), block))
    return Trajectory(seed, seed, "big-00", "big", path, 1, Status.DONE, tuple(made))


def test_the_fork_the_legend_and_the_note_are_shown(plot: MarginPlot) -> None:
    cached, recompute = forked_pair_of_trajectories()
    plot.show_pair(cached, recompute, FORK)
    plot.set_cursor(2, 16)
    assert plot._lanes._items.fork_label.toPlainText() == "fork 3:17"
    assert plot._lanes._items.fork_lines[0].value() == 76
    assert plot._recompute.text() == "● recompute 0.04"
    assert plot._note.text() == AFTER_FORK
    assert "Fork at 3:17, margin 0.04 nats." in plot.accessibleDescription()


def test_without_a_fork_there_is_no_mark_and_no_note(plot: MarginPlot) -> None:
    cached, recompute = forked_pair_of_trajectories()
    plot.show_pair(cached, recompute, None)
    assert not plot._lanes._items.fork_lines[0].isVisible()
    assert plot._note.text() == ""


def test_fork_and_theme_are_seen_in_the_pixels(plot: MarginPlot) -> None:
    cached, recompute = forked_pair_of_trajectories()
    plot.show_pair(cached, recompute, FORK)
    image = painted(plot)
    column = plot._lanes._graphics.mapTo(plot, point_of(plot, 76)).x()
    colours = {image.pixelColor(column, y).name() for y in range(image.height())}
    assert LIGHT.fork in colours
    plot.set_theme(DARK)
    image = painted(plot)
    assert DARK.fork in {image.pixelColor(column, y).name() for y in range(image.height())}
    assert image.pixelColor(image.width() - 3, image.height() // 2).name() == DARK.panel


def test_a_click_moves_the_cursor_and_says_so(plot: MarginPlot, qtbot: QtBot) -> None:
    cached, recompute = forked_pair_of_trajectories()
    plot.show_pair(cached, recompute, FORK)
    painted(plot)
    with qtbot.waitSignal(plot.cursor_moved) as moved:
        viewport = plot._lanes._graphics.viewport()
        QTest.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=point_of(plot, 45))
    assert moved.args == [1, 15]
    assert plot._lanes._items.cursors[0].value() == 45


def test_setting_the_cursor_from_outside_emits_nothing(plot: MarginPlot, qtbot: QtBot) -> None:
    cached, recompute = forked_pair_of_trajectories()
    plot.show_pair(cached, recompute, FORK)
    with qtbot.assertNotEmitted(plot.cursor_moved):
        plot.set_cursor(1, 15)
    assert plot._lanes._items.cursors[0].value() == 45


def test_a_zoom_stays_while_the_pair_grows_and_ends_with_another_pair(plot: MarginPlot) -> None:
    cached, recompute = forked_pair_of_trajectories()
    young = replace(recompute, requests=recompute.requests[:3])
    plot.show_pair(cached, young, None)
    plot.set_cursor(1, 0)
    QTest.keyClick(plot, Qt.Key.Key_Plus)
    zoomed = view_range(plot)
    assert zoomed[1] - zoomed[0] < 65
    plot.show_pair(cached, recompute, FORK)
    assert view_range(plot) == pytest.approx(zoomed)
    other = replace(cached, episode_id="made-01"), replace(recompute, episode_id="made-01")
    plot.show_pair(*other, FORK)
    assert view_range(plot) == pytest.approx((-1, 119.5))


def test_the_whole_episode_comes_back_on_request(plot: MarginPlot) -> None:
    plot.show_pair(*forked_pair_of_trajectories(), FORK)
    QTest.keyClick(plot, Qt.Key.Key_Plus)
    QTest.keyClick(plot, Qt.Key.Key_0)
    assert view_range(plot) == pytest.approx((-1, 119.5))


def test_a_cursor_outside_a_zoomed_view_is_brought_into_sight(plot: MarginPlot) -> None:
    plot.show_pair(*forked_pair_of_trajectories(), FORK)
    for _ in range(3):
        QTest.keyClick(plot, Qt.Key.Key_Plus)
    plot.set_cursor(3, 10)
    first, last = view_range(plot)
    assert first < 100 < last


def test_steps_without_margins_and_exact_ties_are_drawn_without_a_warning(plot: MarginPlot) -> None:
    steps = [step(1, 0.0), step(1, 2.0), step(1, k=1), step(1, 1e-7)]
    one = trajectory([request(0, [1], steps)])
    plot.show_pair(one, replace(one, path=Path.RECOMPUTE), None)
    painted(plot)
    assert len(plot._lanes._items.ties.data) == 1
    plot.show_pair(None, None, None)
    painted(plot)
    assert plot.accessibleDescription() == "No steps yet."


def test_a_pair_of_100_000_steps_is_shown_with_its_fork(plot: MarginPlot) -> None:
    cached, recompute = big(Path.CACHED, 0), big(Path.RECOMPUTE, 10)
    assert cached.step_count > 100_000
    plot.show_pair(cached, recompute, Fork(ForkKind.TOKEN, 800, 3, None, None))
    painted(plot)
    assert "801:4" in plot.accessibleDescription()


def test_the_header_uses_shorter_words_where_there_is_less_room(plot: MarginPlot) -> None:
    plot.show_pair(*forked_pair_of_trajectories(), FORK)
    for width in (1000, 640, 520):
        plot.resize(width, 220)
        QApplication.processEvents()
        labels = (plot._title, plot._cached, plot._recompute, plot._note)
        assert [label.text() for label in labels if label.width() < label.sizeHint().width()] == []
    assert plot._note.text() != AFTER_FORK


@pytest.mark.parametrize("width", [330, 430, 560, 700, 1000])
@pytest.mark.parametrize("forked", [True, False])
def test_the_header_is_never_cut(plot: MarginPlot, width: int, forked: bool) -> None:
    plot.show_pair(*forked_pair_of_trajectories(), FORK if forked else None)
    plot.set_cursor(2, 16)
    plot.resize(width, 260)
    QApplication.processEvents()
    assert plot._title.width() >= plot._title.fontMetrics().horizontalAdvance(plot._title.text())
    assert plot._note.width() >= plot._note.fontMetrics().horizontalAdvance(plot._note.text())
