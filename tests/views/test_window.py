from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.views.theme import LIGHT
from tests.views.made_windows import FILE, PAIRS, Dress, MakeWindow, bench_of, trigger, view_of


def test_a_window_without_a_file_offers_what_to_do_next(make_window: MakeWindow) -> None:
    window, _ = make_window()
    assert window.stack.currentWidget() is window.start_page
    assert not window.actions_by_name["stop"].isEnabled()


def test_the_start_page_follows_the_text_size(make_window: MakeWindow, dress: Dress, qtbot: QtBot) -> None:
    window, _ = make_window()
    heading = next(label for label in window.start_page.findChildren(QLabel) if label.text() == "Forkpoint")
    dress(LIGHT, 1.0)
    before = heading.sizeHint().height()
    dress(LIGHT, 2.0)
    qtbot.waitUntil(lambda: heading.sizeHint().height() > 1.5 * before)


def test_a_file_opens_on_the_fork_of_its_first_forked_pair(make_window: MakeWindow) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    view = view_of(window)
    assert view.pair is not None
    fork = view.pair.comparison.fork
    assert fork is not None
    assert view.pair.cached.episode_id == "units-01"
    assert view.place == (fork.request, fork.step)
    assert window.windowTitle().startswith("calendar.forkpoint")
    assert window.run_bar.title.text() == "pair · made-up Q4_1 · embedded"
    labels = [label.text() for label in window.statusBar().findChildren(QLabel)]
    assert "calendar.forkpoint · 3.1 MB · every step on disk" in labels
    assert "llama.cpp 0c1e570 · 2 threads · n_ubatch 512 · KV f16 · flash attention off" in labels
    assert window.settings.recent == [str(FILE.absolute())]


def test_a_wrong_file_that_is_dropped_gets_a_sentence_and_the_window_lives_on(make_window: MakeWindow) -> None:
    window, _ = make_window()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile("/somewhere/broken.forkpoint")])
    drop = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    window.dropEvent(drop)
    assert window.banner.isVisible()
    assert "broken.forkpoint is no Forkpoint file." in window.banner.sentence.text()
    assert "Open a file" in window.banner.hint.text()
    window.open_file(FILE)
    assert view_of(window).pair is not None
    assert not window.banner.isVisible()


def test_an_empty_file_says_what_to_do_next(make_window: MakeWindow) -> None:
    window, _ = make_window()
    window.open_file(Path("empty.forkpoint"))
    assert view_of(window).verdict.text() == "This file holds no experiment yet.\nPress Ctrl+R to run one."
    for name in ("next_forked", "to_fork", "next_step", "request_end", "fold_all", "next_near_tie"):
        trigger(window, name)  # nothing to do, and nothing breaks


def test_a_read_only_file_says_why(make_window: MakeWindow) -> None:
    window, product = make_window()
    product.notice = "Another window writes it."
    window.open_file(FILE)
    assert window.banner.hint.text() == "Another window writes it."
    assert view_of(window).pair is not None


def test_a_second_file_goes_to_another_window(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    with qtbot.waitSignal(window.open_elsewhere_requested) as asked:
        window.open_file(Path("other.forkpoint"))
    assert asked.args == [Path("other.forkpoint")]


def test_next_forked_pair_opens_on_its_fork_and_never_wraps(make_window: MakeWindow) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    seen = []
    for _ in range(10):
        pair = view_of(window).pair
        assert pair is not None
        fork = pair.comparison.fork
        assert fork is not None
        assert view_of(window).place == (fork.request, fork.step)
        seen.append(pair.cached.episode_id)
        trigger(window, "next_forked")
    forked = [name for name, pair in PAIRS.items() if pair.comparison.fork]
    assert list(dict.fromkeys(seen)) == forked
    assert seen[-1] == forked[-1]
    assert window.said_words.text() == "This is the last forked pair."
    trigger(window, "first_forked")
    trigger(window, "previous_forked")
    assert window.said_words.text() == "This is the first forked pair."


def test_one_cursor_links_panes_plot_and_inspector(make_window: MakeWindow) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    view = view_of(window)
    trigger(window, "previous_step")
    assert view.place == (2, 15)
    trigger(window, "request_end")
    assert view.place == (2, 30)
    trigger(window, "next_step")
    assert view.place == (3, 0)
    view.plot.cursor_moved.emit(1, 4)
    assert view.place == (1, 4)
    view.panes.cursor_moved.emit(0, 2)
    assert view.place == (0, 2)
    trigger(window, "to_fork")
    assert view.place == (2, 16)


def test_near_ties_are_walked_and_the_end_is_said(make_window: MakeWindow) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    for _ in range(30):
        trigger(window, "previous_near_tie")
    assert window.said_words.text() == "There is no near tie before this step."


def test_go_to_takes_a_place_as_a_person_counts(make_window: MakeWindow) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    bar = view_of(window).go_to_bar
    trigger(window, "go_to")
    QTest.keyClicks(bar.field, "9:1")
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    assert "no request 9" in bar.said.text()
    bar.field.clear()
    QTest.keyClicks(bar.field, "2:5")
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    assert view_of(window).place == (1, 4)
    assert not bar.isVisible()


def test_find_says_when_there_is_nothing(make_window: MakeWindow) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    bar = view_of(window).find_bar
    trigger(window, "find")
    QTest.keyClicks(bar.field, "no such text")
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    assert bar.said.text() == "not found"
    bar.field.setText("Tuesday")
    trigger(window, "find_next")
    assert bar.said.text() == ""


def test_text_and_theme_are_changed_and_remembered(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    with qtbot.waitSignal(window.settings_changed):
        trigger(window, "larger")
    assert window.settings.text_scale == 1.15
    with qtbot.waitSignal(window.settings_changed):
        trigger(window, "theme_dark")
    assert window.settings.theme == "dark"
    for _ in range(20):
        trigger(window, "larger")
    assert window.settings.text_scale == 2.0
    trigger(window, "normal_size")
    assert window.settings.text_scale == 1.0


def test_the_verdict_is_copied_with_its_rule(make_window: MakeWindow) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    trigger(window, "copy_verdict")
    copied = QGuiApplication.clipboard().text()
    pair = view_of(window).pair
    assert pair is not None
    assert pair.verdict.headline in copied
    assert pair.verdict.rule in copied


def test_copy_takes_what_is_selected_where_the_keyboard_is(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    bench = bench_of(window)
    bench.table.filter.setText("forked")
    bench.table.filter.setFocus()
    bench.table.filter.selectAll()
    trigger(window, "copy")
    assert QGuiApplication.clipboard().text() == "forked"
    trigger(window, "close_innermost")
    assert bench.table.filter.text() == ""
    bench.view.panes.setFocus()
    trigger(window, "copy")
    pair = bench.view.pair
    assert pair is not None
    assert QGuiApplication.clipboard().text() == " Tuesday"


def test_another_near_tie_threshold_judges_the_open_pair_anew(make_window: MakeWindow) -> None:
    window, product = make_window()
    window.open_file(FILE)
    window.settings.near_tie = 0.02
    window.show_settings(LIGHT)
    assert product.sessions[0].near_tie == 0.02
    assert bench_of(window).shown == ("units-01", 1)
