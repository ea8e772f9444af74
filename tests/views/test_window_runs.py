from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QLabel, QMessageBox
from pytestqt.qtbot import QtBot

from app import paths
from app.trajectory.events import (
    Again,
    Event,
    PairCompared,
    RunEnded,
    RunFailed,
)
from app.trajectory.trajectory import Path as RunPath
from app.views.pair_table import PAIRS_TO_COME
from app.views.replay import replay_events
from tests.views.fakes import row_of
from tests.views.made_windows import FILE, PAIRS, MakeWindow, begun, bench_of, first_forked, trigger, view_of


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


def test_a_fork_is_said_and_stood_on_while_the_other_path_goes_on(make_window: MakeWindow, qtbot: QtBot) -> None:
    pair = first_forked()
    fork = pair.comparison.fork
    assert fork is not None
    events = [event for _, event in replay_events(pair, side_by_side=False)]
    window, product = make_window(begun(pair)[:2])
    trigger(window, "demo")
    view = view_of(window)
    inbox = product.runs[0].inbox
    inbox.extend(events[: round(0.6 * len(events))])
    qtbot.waitUntil(lambda: not inbox and view.verdict.text().startswith("Running"))
    view.panes.cursor_moved.emit(0, 3)  # a person looked elsewhere meanwhile
    inbox.extend(events[round(0.6 * len(events)) : -5])
    qtbot.waitUntil(lambda: not inbox)
    assert view.verdict.text().startswith("Forked at request 3, token 17; the recompute path goes on\n")
    assert "No fork so far" not in view.verdict.text()
    assert view.verdict.accessibleDescription().startswith("forked.")
    qtbot.waitUntil(lambda: view.place == (fork.request, fork.step))
    assert view.panes._at == view.plot._cursor == view.inspector._cursor == view.place


def test_a_run_marks_the_episode_it_is_at_and_says_that_pairs_are_to_come(
    make_window: MakeWindow, qtbot: QtBot
) -> None:
    pair = first_forked()
    window, product = make_window()
    trigger(window, "demo")
    table = bench_of(window).table
    assert table.view.empty_text == PAIRS_TO_COME
    assert "Press Ctrl+R" not in view_of(window).panes.panes[RunPath.CACHED].hint
    product.runs[0].inbox.extend(begun(pair))
    qtbot.waitUntil(lambda: table.model.running == pair.cached.episode_id)
    product.runs[0].inbox.append(RunEnded(1, "stopped"))
    qtbot.waitUntil(lambda: not window.control.running)
    assert table.model.running is None


@pytest.mark.parametrize(
    "last", [RunFailed(1, "The model cannot be loaded.", "Choose another."), RunEnded(1, "no fork")]
)
def test_a_run_that_ends_before_its_first_pair_leaves_no_loading_on_the_screen(
    make_window: MakeWindow, qtbot: QtBot, last: Event
) -> None:
    window, _ = make_window([*begun(first_forked())[:2], last])
    trigger(window, "demo")
    qtbot.waitUntil(lambda: not window.control.running)
    assert "Loading" not in view_of(window).verdict.text()
    assert view_of(window).pair is not None


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
