from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QCloseEvent, QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QMessageBox
from pytestqt.qtbot import QtBot

from app import paths
from app.settings import Settings
from app.trajectory.events import (
    Again,
    EngineLoading,
    Event,
    PairCompared,
    PrefillProgress,
    RequestStarted,
    RunEnded,
    RunFailed,
    RunStarted,
    TrajectoryStarted,
)
from app.trajectory.pair import Pair
from app.trajectory.trajectory import Path as RunPath
from app.views.pair_view import PairView
from app.views.replay import replay_events
from app.views.theme import LIGHT
from app.views.window import MainWindow
from app.views.workbench import Workbench
from tests.views.fakes import FakeProduct, made_up_pairs, row_of

PAIRS = made_up_pairs(7)
FILE = Path("calendar.forkpoint")
MakeWindow = Callable[..., tuple[MainWindow, FakeProduct]]


@pytest.fixture
def make_window(qtbot: QtBot) -> MakeWindow:
    def make(events: list[Event] | None = None) -> tuple[MainWindow, FakeProduct]:
        product = FakeProduct(PAIRS, events or ())
        window = MainWindow(product.verbs(), Settings(), LIGHT)
        qtbot.addWidget(window, before_close_func=lambda widget: widget.control.close())
        window.resize(1280, 800)
        window.show()
        return window, product

    return make


def bench_of(window: MainWindow) -> Workbench:
    assert window.shown_bench is not None
    return window.shown_bench


def view_of(window: MainWindow) -> PairView:
    return bench_of(window).view


def trigger(window: MainWindow, name: str) -> None:
    action = window.actions_by_name[name]
    assert action.isEnabled(), f"{name} is disabled"
    action.trigger()


def begun(pair: Pair) -> list[Event]:
    """A run up to the first prompt of its first pair."""
    request = pair.cached.requests[0]
    return [
        EngineLoading("Loading the model…"),
        RunStarted(1, "pair · made-up Q4_1 · embedded", len(PAIRS), 1),
        TrajectoryStarted(pair.cached.id, pair.cached.episode_id, "made", RunPath.CACHED, 1),
        RequestStarted(pair.cached.id, 0, request.prompt),
        PrefillProgress(pair.cached.id, 0, 10, 40, 0),
    ]


def first_forked() -> Pair:
    return next(pair for pair in PAIRS.values() if pair.comparison.fork is not None)


def test_a_window_without_a_file_offers_what_to_do_next(make_window: MakeWindow) -> None:
    window, _ = make_window()
    assert window.stack.currentWidget() is window.start_page
    assert not window.actions_by_name["stop"].isEnabled()


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


def test_escape_closes_the_innermost_and_never_stops_a_run(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, product = make_window(begun(first_forked()))
    trigger(window, "demo")
    qtbot.waitUntil(lambda: window.run_bar.title.text() != "")
    trigger(window, "find")
    window.banner.say("notice", "Something.")
    trigger(window, "close_innermost")
    assert not view_of(window).find_bar.isVisible()
    assert window.banner.isVisible()
    trigger(window, "close_innermost")
    assert not window.banner.isVisible()
    trigger(window, "close_innermost")
    assert product.runs[0].stops == 0
    assert window.control.running


def test_a_run_shows_loading_then_prefill_then_tokens(make_window: MakeWindow, qtbot: QtBot) -> None:
    pair = first_forked()
    window, product = make_window()
    trigger(window, "demo")
    assert "Loading the engine" in view_of(window).verdict.text()
    assert not window.actions_by_name["run"].isEnabled()
    product.runs[0].inbox.extend(begun(pair))
    qtbot.waitUntil(lambda: "Running units-01 on the cached path" in view_of(window).verdict.text())
    assert bench_of(window).following
    assert window.run_bar.words.text() == "ends within 3 min"
    header = view_of(window).panes.headers[RunPath.CACHED]
    assert any("prefill 10 of 40" in label.text() for label in header.findChildren(QLabel)), "no prefill progress"
    product.runs[0].inbox.extend(event for _, event in list(replay_events(pair, side_by_side=False))[2:60])
    qtbot.waitUntil(lambda: "token" in view_of(window).verdict.text())


def test_a_demo_stops_on_its_fork_and_offers_to_run_both_again(make_window: MakeWindow, qtbot: QtBot) -> None:
    pair = first_forked()
    name = pair.cached.episode_id
    run = [event for _, event in replay_events(pair, side_by_side=False)]
    window, product = make_window([*begun(pair)[:2], *run, PairCompared(row_of(pair)), RunEnded(1, "forked", name)])
    trigger(window, "demo")
    assert product.asked[0].until_fork
    qtbot.waitUntil(lambda: not window.control.running)
    fork = pair.comparison.fork
    assert fork is not None
    assert view_of(window).pair is pair
    assert view_of(window).place == (fork.request, fork.step)
    assert view_of(window).verdict.text().startswith("Forked at request 3, token 17")
    trigger(window, "run_again")
    again = product.runs[1]
    again.inbox.append(Again(RunPath.RECOMPUTE, "recompute again: being answered…", None))
    again.inbox.append(Again(RunPath.RECOMPUTE, "recompute again: identical", True))
    again.inbox.append(RunEnded(1, "again", name))
    qtbot.waitUntil(lambda: not window.control.running)
    words = [label.text() for label in view_of(window).inspector.findChildren(QLabel)]
    assert any("recompute again: identical" in text for text in words)
    assert view_of(window).pair is pair, "the pair stays on screen"


def test_a_demo_without_a_fork_says_so_and_offers_the_sample(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, _ = make_window([*begun(first_forked())[:2], RunEnded(1, "no fork")])
    trigger(window, "demo")
    qtbot.waitUntil(lambda: window.banner.isVisible())
    assert "No fork" in window.banner.sentence.text()
    assert window.banner.offer.text() == "Open the sample"


def test_a_failing_run_keeps_the_window_and_what_was_recorded(make_window: MakeWindow, qtbot: QtBot) -> None:
    events = [*begun(first_forked()), RunFailed(1, "The engine's process died.", "Run again; what was recorded stays.")]
    window, _ = make_window(events)
    trigger(window, "demo")
    qtbot.waitUntil(lambda: window.banner.isVisible())
    assert "The engine's process died." in window.banner.sentence.text()
    assert window.banner.hint.text() == "Run again; what was recorded stays."
    assert window.actions_by_name["run"].isEnabled()
    assert not window.actions_by_name["stop"].isEnabled()
    assert bench_of(window).session is not None


def test_a_run_that_dies_without_a_word_is_said_to_have(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, product = make_window(begun(first_forked()))
    trigger(window, "demo")
    product.runs[0].died = True
    qtbot.waitUntil(lambda: not window.control.running)
    assert "without saying how" in window.banner.sentence.text()


def test_stop_says_stopping_at_once_and_asks_once(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, product = make_window(begun(first_forked()))
    trigger(window, "demo")
    trigger(window, "stop")
    assert window.run_bar.words.text() == "stopping…"
    assert not window.actions_by_name["stop"].isEnabled()
    window.control.stop()
    assert product.runs[0].stops == 1
    product.runs[0].inbox.append(RunEnded(1, "stopped"))
    qtbot.waitUntil(lambda: not window.control.running)
    assert "Stopped" in window.said_words.text()


def test_a_run_is_followed_until_a_person_picks_another_pair(make_window: MakeWindow, qtbot: QtBot) -> None:
    pair, other = list(PAIRS.values())[1:3]
    window, product = make_window([*begun(pair)[:2]])
    trigger(window, "demo")
    inbox = product.runs[0].inbox
    inbox.extend(event for _, event in replay_events(pair, side_by_side=False))
    inbox.append(PairCompared(row_of(pair)))
    qtbot.waitUntil(lambda: view_of(window).pair is pair)
    bench_of(window).table.pair_chosen.emit(pair.cached.episode_id)
    assert not bench_of(window).following
    inbox.extend(begun(other)[2:])
    qtbot.waitUntil(lambda: not inbox)
    assert view_of(window).pair is pair
    trigger(window, "follow")
    assert bench_of(window).shown == (other.cached.episode_id, 1)
    assert view_of(window).pair is None


@pytest.mark.parametrize("agrees", [True, False])
def test_closing_while_a_run_goes_on_asks(
    make_window: MakeWindow, monkeypatch: pytest.MonkeyPatch, agrees: bool
) -> None:
    window, product = make_window(begun(first_forked()))
    trigger(window, "demo")
    button = QMessageBox.StandardButton.Close if agrees else QMessageBox.StandardButton.Cancel
    asked: list[str] = []

    def answer(*args: object) -> QMessageBox.StandardButton:
        asked.append(str(args[2]))
        return button

    monkeypatch.setattr(QMessageBox, "question", answer)
    event = QCloseEvent()
    window.closeEvent(event)
    assert "What was recorded stays" in asked[0]
    assert event.isAccepted() is agrees
    assert product.runs[0].stops == int(agrees)


def test_a_replay_is_labelled_recorded_can_be_paused_and_ends_on_the_fork(
    make_window: MakeWindow, qtbot: QtBot
) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    pair = view_of(window).pair
    trigger(window, "replay")
    qtbot.waitUntil(lambda: view_of(window).pair is None)
    assert window.run_bar.recorded.isVisible()
    assert "RECORDED" in view_of(window).verdict.text()
    trigger(window, "pause")
    qtbot.wait(100)
    before = window.control.live.steps_taken
    qtbot.wait(250)
    assert window.control.live.steps_taken == before
    trigger(window, "pause")
    qtbot.waitUntil(lambda: window.control.live.steps_taken > before)
    trigger(window, "stop")
    qtbot.waitUntil(lambda: not window.control.running)
    assert view_of(window).pair is pair
    assert view_of(window).place == (2, 16)
    assert not window.run_bar.recorded.isVisible()


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


def test_the_sample_is_marked_recorded_and_offers_its_replay(
    make_window: MakeWindow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "sample_file", lambda: tmp_path / "demo.forkpoint")
    window, _ = make_window()
    trigger(window, "open_sample")
    assert window.run_bar.recorded.isVisible()
    assert window.banner.sentence.text().endswith("RECORDED: this run was made earlier, on another machine.")
    assert window.settings.recent == []
    window.banner.offer.click()
    assert window.control.running
    assert not window.banner.isVisible()


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
