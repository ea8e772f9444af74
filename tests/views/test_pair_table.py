from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.trajectory.pair import PairRow
from app.trajectory.trajectory import ExperimentInfo, Status
from app.views.pair_model import COLUMNS, EPISODE, FORK, MARGIN, MARK, NEAR_TIES, VERDICT
from app.views.pair_table import NO_PAIRS, NOTHING_FITS, PairTable
from app.views.theme import DARK, LIGHT
from tests.views.made_windows import Dress

FORKED = PairRow(
    1, "units-01", "units", 1, True, "token", 4, 18, 0.02, 3,
    tool_calls_changed=True, outcome_changed=False, valid=True, code="N", headline="Forked at request 5, token 19.",
)  # fmt: skip
EQUAL = PairRow(
    1, "files-00", "files", 1, False, None, None, None, None, 0,
    tool_calls_changed=False, outcome_changed=False, valid=True, code="equal", headline="Equal, bit for bit.",
)  # fmt: skip
ROWS = [
    EQUAL,
    FORKED,
    replace(FORKED, episode_id="calendar-02", family="calendar", request=2, step=16, margin=0.04),
    replace(EQUAL, episode_id="messages-03"),
    replace(FORKED, episode_id="stock-05", request=11, step=None, kind="requests", margin=None, outcome_changed=True),
    replace(FORKED, episode_id="files-08", valid=False, code="invalid", problems=("cached pass hit nothing",)),
]
EXPERIMENTS = [
    ExperimentInfo(7, "pair · Q4_1", "2020-03-04T10:00:00+00:00", Status.DONE, {}, {}),
    ExperimentInfo(3, "pair · F16", "2020-03-03T10:00:00+00:00", Status.DONE, {}, {}),
]


@pytest.fixture
def table(qtbot: QtBot) -> PairTable:
    made = PairTable(LIGHT)
    qtbot.addWidget(made)
    made.resize(300, 600)
    made.show()
    made.set_rows(ROWS)
    return made


def column(table: PairTable, number: int) -> list[str]:
    model = table.view.model()
    return [model.index(row, number).data() for row in range(model.rowCount())]


def shown_columns(table: PairTable) -> list[int]:
    return [number for number in range(len(COLUMNS)) if not table.view.isColumnHidden(number)]


def test_a_row_says_what_happened_to_its_pair(table: PairTable) -> None:
    assert column(table, EPISODE) == [row.episode_id for row in ROWS]
    assert column(table, MARK) == ["○", "◆", "◆", "○", "◆", "✗"]
    assert column(table, FORK) == ["—", "5:19", "3:17", "—", "12", "5:19"]
    assert column(table, MARGIN) == ["", "0.02", "0.04", "", "—", "0.02"]
    assert table._counts.text() == "6 shown · 3 forked"
    assert table._footer.text() == "1 pair invalid: cached pass hit nothing in files-08"


def test_the_filter_hides_rows_and_counts_what_is_left(table: PairTable) -> None:
    table.filter.setText("forked margin<0.03 valid")
    assert column(table, EPISODE) == ["units-01"]
    assert table._counts.text() == "1 shown · 1 forked"
    table.filter.setText("forked equal")
    assert column(table, EPISODE) == []
    assert table.view.empty_text == NOTHING_FITS


def test_an_unknown_word_marks_the_field_and_leaves_the_rows(table: PairTable) -> None:
    table.filter.setText("forkde")
    assert column(table, EPISODE) == [row.episode_id for row in ROWS]
    assert "“forkde”" in table.filter.toolTip()
    assert table._problem.isVisible()
    assert table._problem.text() == table.filter.toolTip()
    assert LIGHT.recompute in table.filter.styleSheet()
    table.set_theme(DARK)
    assert DARK.recompute in table.filter.styleSheet()
    table.filter.setText("forked")
    assert table.filter.styleSheet() == ""
    assert not table._problem.isVisible()


@pytest.mark.parametrize(("order", "last"), [(Qt.SortOrder.AscendingOrder, "—"), (Qt.SortOrder.DescendingOrder, "—")])
def test_forks_sort_as_numbers_and_pairs_without_one_stay_last(
    table: PairTable, order: Qt.SortOrder, last: str
) -> None:
    table.view.sortByColumn(FORK, order)
    forks = column(table, FORK)
    assert forks[-2:] == [last, last]
    expected = ["3:17", "5:19", "5:19", "12"]
    assert forks[:4] == (expected if order is Qt.SortOrder.AscendingOrder else expected[::-1])


def test_choosing_a_row_says_which_pair(table: PairTable, qtbot: QtBot) -> None:
    at = table.view.visualRect(table.shown.index(2, EPISODE)).center()
    with qtbot.waitSignal(table.pair_chosen) as chosen:
        QTest.mouseClick(table.view.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert chosen.args == ["calendar-02"]
    with qtbot.waitSignal(table.pair_chosen) as chosen:
        QTest.keyClick(table.view, Qt.Key.Key_Down)
    assert chosen.args == ["messages-03"]


def test_selecting_from_outside_emits_nothing(table: PairTable, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(table.pair_chosen):
        table.select("calendar-02")
        table.select("no such episode")
        table.set_rows(ROWS[::-1])
    current = table.current_row()
    assert current is not None
    assert current.episode_id == "calendar-02"


def test_walking_the_forks_follows_the_shown_order_and_stops_at_the_ends(table: PairTable) -> None:
    visited: list[str] = []
    table.pair_chosen.connect(visited.append)
    while table.next_forked():
        pass
    assert visited == ["units-01", "calendar-02", "stock-05", "files-08"]
    assert not table.next_forked()
    assert table.previous_forked()
    assert visited[-1] == "stock-05"
    table.filter.setText("valid")
    table.view.sortByColumn(MARGIN, Qt.SortOrder.DescendingOrder)
    assert table.first_forked()
    assert visited[-1] == "calendar-02"
    assert not table.previous_forked()
    assert table.last_forked()
    assert visited[-1] == "stock-05"


def test_without_a_fork_no_walk_moves(table: PairTable) -> None:
    table.set_rows([EQUAL])
    assert not any((table.next_forked(), table.previous_forked(), table.first_forked(), table.last_forked()))


def test_a_row_that_changes_while_a_run_goes_on_keeps_the_current_pair(table: PairTable) -> None:
    table.select("calendar-02")
    table.update_row(replace(EQUAL, diverged=True, code="N", request=0, step=0, margin=0.01))
    table.update_row(replace(FORKED, episode_id="travel-14"))
    assert column(table, FORK)[0] == "1:1"
    assert column(table, EPISODE)[-1] == "travel-14"
    assert table._counts.text() == "7 shown · 5 forked"
    current = table.current_row()
    assert current is not None
    assert current.episode_id == "calendar-02"


def test_a_hidden_current_pair_is_no_current_pair(table: PairTable) -> None:
    table.select("calendar-02")
    table.filter.setText("equal")
    current = table.current_row()
    assert current is None or current.episode_id != "calendar-02"


def test_experiments_are_listed_and_chosen_by_id(table: PairTable, qtbot: QtBot) -> None:
    assert not table.experiments.isVisible()
    with qtbot.assertNotEmitted(table.experiment_chosen):
        table.set_experiments(EXPERIMENTS, 3)
    assert table.experiments.currentData() == 3
    assert "2020" in table.experiments.currentText()
    with qtbot.waitSignal(table.experiment_chosen) as chosen:
        table.experiments.setFocus()
        QTest.keyClick(table.experiments, Qt.Key.Key_Up)
    assert chosen.args == [7]


def test_narrow_shows_five_columns_wide_all_and_a_choice_stays(table: PairTable) -> None:
    assert shown_columns(table) == [0, 1, 2, 3, 4]
    table.resize(1000, 600)
    assert shown_columns(table) == list(range(len(COLUMNS)))
    table._column_actions[VERDICT].trigger()
    table.resize(400, 600)
    assert shown_columns(table) == list(range(VERDICT))
    table.resize(1100, 600)
    assert NEAR_TIES in shown_columns(table)
    assert VERDICT not in shown_columns(table)


def test_large_text_leaves_out_columns_rather_than_the_panes(dress: Dress, qtbot: QtBot) -> None:
    dress(LIGHT, 1.0)
    table = PairTable(LIGHT)
    qtbot.addWidget(table)
    table.resize(320, 600)
    table.show()
    assert shown_columns(table) == [0, 1, 2, 3, 4]
    dress(LIGHT, 1.5)
    qtbot.waitUntil(lambda: shown_columns(table) == [MARK, EPISODE, FORK])
    assert table.view.minimumSizeHint().width() <= 320
    table.resize(table.sizeHint().width(), 600)
    assert shown_columns(table) == [0, 1, 2, 3, 4]


def test_the_episode_that_runs_is_marked_and_a_verdict_s_mark_stays(table: PairTable) -> None:
    table.set_rows([EQUAL, replace(EQUAL, episode_id="units-01", diverged=None, code="open", headline="")])
    table.show_run(True, "units-01")
    assert column(table, MARK) == ["○", "▶"]
    assert table.model.data(table.model.index(1, MARK), Qt.ItemDataRole.AccessibleTextRole) == "running now"
    table.show_run(True, "files-00")
    assert column(table, MARK) == ["○", "…"]
    assert column(table, EPISODE) == ["files-00 ↻", "units-01"]
    table.show_run(False)
    assert column(table, EPISODE) == ["files-00", "units-01"]


def test_a_line_is_copied_whole(table: PairTable) -> None:
    table.select("calendar-02")
    assert table.current_text().split("\t")[:4] == ["◆", "calendar-02", "3:17", "0.04"]


def test_an_empty_table_says_what_to_do_next(table: PairTable) -> None:
    table.set_rows([])
    assert table.view.empty_text == NO_PAIRS
    assert table._counts.text() == "0 shown · 0 forked"
    assert table.view.accessibleDescription() == NO_PAIRS
    empty = table.view.viewport().grab().toImage()
    colours = {empty.pixelColor(x, y).name() for x in range(empty.width()) for y in range(10, 40)}
    assert len(colours) > 1


def test_every_cell_of_the_default_columns_fits_at_the_usual_width(table: PairTable) -> None:
    table.resize(285, 600)
    table.select("messages-03")
    for number in shown_columns(table):
        for text in column(table, number):
            assert table.view.fontMetrics().horizontalAdvance(text) <= table.view.columnWidth(number) - 4


def test_escape_clears_the_filter_and_down_goes_to_the_rows(table: PairTable) -> None:
    table.filter.setFocus()
    QTest.keyClicks(table.filter, "equal")
    QTest.keyClick(table.filter, Qt.Key.Key_Escape)
    assert table.filter.text() == ""
    QTest.keyClick(table.filter, Qt.Key.Key_Down)
    assert table.view.hasFocus()
