from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton
from pytestqt.qtbot import QtBot

from app.trajectory.pair import Fork, ForkKind
from app.trajectory.step import Rival, Step
from app.trajectory.trajectory import Path
from app.views.inspector import Inspector
from app.views.rival_bars import BAR, LOGPROB, PIECE, TOKEN_ID, RivalBars
from app.views.theme import DARK, LIGHT
from tests.builders import WORDS, forked_pair_of_trajectories, request, step, trajectory

PIECES = {token: WORDS[token % len(WORDS)].encode() for token in range(600)}
FORK = Fork(ForkKind.TOKEN, 2, 16, None, None)


@pytest.fixture
def inspector(qtbot: QtBot) -> Inspector:
    made = Inspector(LIGHT)
    qtbot.addWidget(made)
    made.resize(300, 700)
    made.show()
    return made


def texts(inspector: Inspector) -> str:
    QApplication.processEvents()  # a layout shows what was added to it
    return "\n".join(label.text() for label in inspector.findChildren(QLabel) if label.isVisible())


def cells(table: RivalBars, column: int) -> list[str]:
    model = table.model()
    return [model.index(row, column).data() for row in range(model.rowCount())]


def telemetry(inspector: Inspector) -> dict[str, tuple[str, str]]:
    model = inspector._telemetry.model()
    rows = ([model.index(row, column).data() for column in range(3)] for row in range(model.rowCount()))
    return {name: (cached, recompute) for name, cached, recompute in rows}


def test_the_step_at_the_cursor_is_named_as_a_person_counts(inspector: Inspector) -> None:
    inspector.show_pair(*forked_pair_of_trajectories(), FORK, PIECES)
    inspector.set_cursor(2, 16)
    assert "Step 3:17" in texts(inspector)
    assert "step 77 of the episode" in texts(inspector)
    assert "margin 0.04 nats" in texts(inspector)


def test_the_rivals_stand_with_id_and_logprob_and_the_chosen_one_in_bold(inspector: Inspector) -> None:
    cached, recompute = forked_pair_of_trajectories()
    inspector.show_pair(cached, recompute, FORK, PIECES)
    inspector.set_cursor(2, 16)
    bars = inspector._panels[Path.RECOMPUTE].rivals
    block = recompute.requests[2].steps
    assert cells(bars, TOKEN_ID) == [str(token) for token in block.rival_ids[16]]
    assert cells(bars, LOGPROB) == [f"{value:.2f}" for value in block.rival_logprobs[16]]
    bold = [bars.model().index(row, PIECE).data(Qt.ItemDataRole.FontRole).bold() for row in range(5)]
    assert bold == [True, False, False, False, False]


def test_a_token_that_is_not_among_the_rivals_is_added_and_chosen(qtbot: QtBot) -> None:
    bars = RivalBars("Rivals", LIGHT, LIGHT.cached)
    qtbot.addWidget(bars)
    bars.show_step(Step(9, -4.0, b" odd", (Rival(1, -0.1, b" a"), Rival(2, -3.0, b" b"))))
    assert cells(bars, PIECE) == ["·a", "·b", "·odd"]
    assert "chosen on this path" in bars.model().index(2, BAR).data(Qt.ItemDataRole.ToolTipRole)


def test_bytes_that_are_no_text_and_signs_that_act_are_shown_and_not_obeyed(qtbot: QtBot) -> None:
    bars = RivalBars("Rivals", LIGHT, LIGHT.cached)
    qtbot.addWidget(bars)
    bars.show_step(Step(1, -0.1, b"\xe2\x80", (Rival(1, -0.1, b"\xe2\x80"), Rival(2, -1.0, "\u202eab\x1b".encode()))))
    assert cells(bars, PIECE) == [r"\xE2\x80", r"\u202Eab\x1B"]
    assert "E2 80" in bars.model().index(0, PIECE).data(Qt.ItemDataRole.ToolTipRole)


def test_bars_are_as_long_as_the_probabilities_against_the_largest(qtbot: QtBot) -> None:
    bars = RivalBars("Rivals", LIGHT, LIGHT.cached)
    qtbot.addWidget(bars)
    bars.resize(300, 60)
    bars.show()
    bars.show_step(Step(1, -0.6931472, b"a", (Rival(1, -0.6931472, b"a"), Rival(2, -2.3025851, b"b"))))
    image = bars.grab().toImage()
    background = image.pixelColor(bars.columnViewportPosition(BAR) + 1, 1).name()
    widths = []
    for row in range(2):
        y = bars.rowViewportPosition(row) + bars.rowHeight(row) // 2
        start = bars.columnViewportPosition(BAR)
        line = [image.pixelColor(x, y).name() for x in range(start, start + bars.columnWidth(BAR))]
        widths.append(sum(colour not in (background, LIGHT.block) for colour in line) / (len(line) - 8))
    assert widths[0] == pytest.approx(1.0, abs=0.05)
    assert widths[1] == pytest.approx(0.2, abs=0.05)


def test_selected_rivals_are_copied(qtbot: QtBot) -> None:
    bars = RivalBars("Rivals", LIGHT, LIGHT.cached)
    qtbot.addWidget(bars)
    bars.show()
    bars.show_step(step(276, margin=0.5))
    bars.selectRow(0)
    QTest.keyClick(bars, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "·the\t276\t-0.10"


def test_a_path_without_the_step_says_why(inspector: Inspector) -> None:
    cached, recompute = forked_pair_of_trajectories()
    inspector.show_pair(cached, None, None, PIECES)
    inspector.set_cursor(1, 3)
    assert "Not run yet." in texts(inspector)
    inspector.show_pair(cached, replace(recompute, requests=recompute.requests[:1]), None, PIECES)
    assert "This path has no such request." in texts(inspector)
    short = trajectory([request(0, [1], [step(1)] * 2)], path=Path.RECOMPUTE)
    inspector.show_pair(cached, short, None, PIECES)
    inspector.set_cursor(0, 5)
    assert "The answer ends after 2 tokens here." in texts(inspector)


def test_rivals_that_were_not_reported_are_called_that(inspector: Inspector) -> None:
    bare = trajectory([request(0, [1], [Step(1, None, b"a")])])
    inspector.show_pair(bare, None, None, {})
    assert "Rivals were not reported." in texts(inspector)
    assert "margin not reported" in texts(inspector)


def test_a_fork_of_the_prompts_is_said_where_it_is(inspector: Inspector) -> None:
    inspector.show_pair(*forked_pair_of_trajectories(), Fork(ForkKind.PROMPT, 2, 311, None, None), PIECES)
    inspector.set_cursor(2, 0)
    assert "The prompts of the two paths differ from position 312 on." in texts(inspector)
    inspector.set_cursor(1, 0)
    assert "The prompts" not in texts(inspector)


def test_telemetry_stands_side_by_side_and_problems_below(inspector: Inspector) -> None:
    cached, recompute = forked_pair_of_trajectories()
    second = cached.requests[1]
    assert second.report is not None
    report = replace(second.report, cached_tokens=None, problem="llama.cpp counted 28, 29 was expected.")
    cached = replace(cached, requests=(cached.requests[0], replace(second, report=report)))
    inspector.show_pair(cached, recompute, None, PIECES)
    inspector.set_cursor(1, 3)
    assert telemetry(inspector)["Request 2"] == ("cached", "recompute")
    assert telemetry(inspector)["from cache"] == ("not reported", "0")
    assert "cached: llama.cpp counted 28, 29 was expected." in texts(inspector)


def test_what_was_not_reported_is_never_cut_off(inspector: Inspector) -> None:
    cached, recompute = forked_pair_of_trajectories()
    unreported = replace(cached, requests=(request(0, [1, 2], [step(1)], cached=None),))
    inspector.show_pair(unreported, recompute, None, PIECES)
    table = inspector._telemetry
    flags = Qt.TextFlag.TextWordWrap
    for row in range(table.model().rowCount()):
        for column in (1, 2):
            index = table.model().index(row, column)
            box = table.visualRect(index).adjusted(4, 0, -4, 1000)
            needed = table.fontMetrics().boundingRect(box, flags, index.data())
            assert needed.height() <= table.rowHeight(row)
            assert needed.width() <= box.width()


def test_a_growing_pair_is_followed_at_the_cursor(inspector: Inspector) -> None:
    cached, _ = forked_pair_of_trajectories()
    young = request(0, [1], [step(5)] * 2)
    inspector.show_pair(trajectory([young]), None, None, PIECES)
    inspector.set_cursor(0, 2)
    assert "The answer ends after 2 tokens here." in texts(inspector)
    inspector.show_pair(trajectory([replace(young, steps=cached.requests[0].steps)]), None, None, PIECES)
    assert cells(inspector._panels[Path.CACHED].rivals, TOKEN_ID)[0] == str(cached.requests[0].steps.token_ids[2])


def test_running_again_is_asked_for_once_it_is_offered(inspector: Inspector, qtbot: QtBot) -> None:
    button = inspector.findChild(QPushButton)
    assert button is not None
    assert not button.isEnabled()
    inspector.set_can_run_again(False, "The model file is not where it was.")
    assert "The model file is not where it was." in texts(inspector)
    inspector.set_can_run_again(True, "")
    button.setFocus()
    with qtbot.waitSignal(inspector.run_again_requested):
        QTest.keyClick(button, Qt.Key.Key_Space)


def test_the_answers_of_running_again_come_and_go_with_their_marks(inspector: Inspector) -> None:
    inspector.set_again_lines([("cached again: identical", True), ("recompute again: running", None)])
    assert "✓ cached again: identical" in texts(inspector)
    assert "… recompute again: running" in texts(inspector)
    inspector.set_theme(DARK)
    inspector.set_again_lines([("recompute again: differs at 3:2", False)])
    assert "✗ recompute again: differs at 3:2" in texts(inspector)
    assert "cached again" not in texts(inspector)


def test_it_scrolls_where_it_is_small_and_everything_is_reached_by_tab(inspector: Inspector) -> None:
    inspector.resize(300, 300)
    inspector.show_pair(*forked_pair_of_trajectories(), FORK, PIECES)
    inspector.set_can_run_again(True, "")
    button = inspector.findChild(QPushButton)
    assert button is not None
    inspector._panels[Path.CACHED].rivals.setFocus()
    for _ in range(3):
        focused = inspector.window().focusWidget()
        assert focused is not None
        QTest.keyClick(focused, Qt.Key.Key_Tab)
    assert inspector.window().focusWidget() is button
    assert button.visibleRegion().boundingRect().height() > 0


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_the_smallest_width_grows_with_the_text_so_that_nothing_is_cut(inspector: Inspector, scale: float) -> None:
    inspector.show_pair(*forked_pair_of_trajectories(), FORK, PIECES)
    inspector.set_cursor(2, 16)
    font = inspector.font()
    font.setPointSizeF(font.pointSizeF() * scale)
    inspector.setFont(font)
    QApplication.processEvents()
    inspector.resize(inspector.minimumSizeHint().width(), 500)
    QApplication.processEvents()
    for label in (inspector._title, inspector._place):
        assert label.visibleRegion().boundingRect().width() >= label.sizeHint().width()
    table = inspector._telemetry
    assert table.columnWidth(2) >= table.fontMetrics().horizontalAdvance("recompute")
