"""A bundle's or a file's fork replayed here, as the window shows it. No engine runs here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytestqt.qtbot import QtBot

from app.trajectory.events import Event, Notice, Replayed, RunEnded, RunFailed
from app.trajectory.pair import Pair
from app.trajectory.reproducer import Difference, ReplayResult, Served
from app.views.replay_here import ReplayHere
from app.views.window import MainWindow
from tests.views.made_windows import FILE, MakeWindow, trigger, view_of


def replay_of(pair: Pair) -> ReplayResult:
    fork = pair.comparison.fork
    assert fork is not None
    sides = [side.requests[fork.request].steps for side in (pair.cached, pair.recompute)]
    served = (Served("r1", 0, 0), Served("r2", 340, 340))
    name, because = pair.cached.episode_id, "The same tokens."
    return ReplayResult(name, "reproduced", because, (), served, sides[0], sides[1], fork)


def replayed(
    make_window: MakeWindow, qtbot: QtBot, events: Callable[[Pair], list[Event]]
) -> tuple[MainWindow, ReplayHere]:
    window, product = make_window()
    window.open_file(FILE)
    pair = view_of(window).pair
    assert pair is not None
    product.events = tuple(events(pair))
    trigger(window, "replay_here")
    assert [(list(names), where.engine) for names, where in product.tried] == [(["units-01"], "embedded")]
    qtbot.waitUntil(lambda: not window.control.running)
    dialog = window.bundles.replay_dialog
    assert dialog is not None
    return window, dialog


def test_a_replay_lays_four_answers_side_by_side(make_window: MakeWindow, qtbot: QtBot) -> None:
    _, dialog = replayed(make_window, qtbot, lambda pair: [Replayed("", replay_of(pair)), RunEnded(1, "replayed")])
    fork = dialog.pair.comparison.fork
    assert fork is not None
    assert fork.step is not None
    assert dialog.headline.text() == "Reproduced"
    assert dialog.differences.text() == "Engine, build, model and settings are as recorded."
    row = [dialog.table.item(fork.step, column) for column in range(5)]
    texts = [item.text() if item is not None else "" for item in row]
    assert texts[0].startswith(f"{fork.step + 1} ◆")
    assert texts[1] == texts[3] != texts[2] == texts[4]
    assert "2 requests were served" in dialog.served.text()


def test_differences_of_the_environment_stand_before_what_was_served(make_window: MakeWindow, qtbot: QtBot) -> None:
    differences = (Difference("settings threads", "1", "2"),)
    served = (Served("r2", 340, 12, 4),)

    def events(pair: Pair) -> list[Event]:
        result = replace(replay_of(pair), verdict="does not fork", differences=differences, served=served, fork=None)
        return [Notice("cached path…"), Replayed("", result), RunEnded(1, "replayed")]

    _, dialog = replayed(make_window, qtbot, events)
    assert dialog.headline.text() == "Does not fork"
    assert "settings threads: recorded 1, here 2" in dialog.differences.text()
    assert dialog.differences.y() < dialog.served.y() < dialog.table.y()
    assert "12 tokens from the cache, recorded 340" in dialog.served.text()
    assert "from token 5 on" in dialog.served.text()


def test_a_replay_that_was_refused_does_not_say_that_this_machine_is_as_recorded(
    make_window: MakeWindow, qtbot: QtBot
) -> None:
    def events(pair: Pair) -> list[Event]:
        refused = replace(replay_of(pair), verdict="cannot be compared", served=(), fork=None)
        return [Replayed("", refused), RunEnded(1, "replayed")]

    _, dialog = replayed(make_window, qtbot, events)
    assert dialog.headline.text() == "Cannot be compared"
    assert dialog.differences.text() == "" and not dialog.differences.isVisible()


def test_a_replay_that_fails_says_that_nothing_can_be_compared(make_window: MakeWindow, qtbot: QtBot) -> None:
    _, dialog = replayed(make_window, qtbot, lambda _: [RunFailed(1, "The model file is not there.", "Name it.")])
    assert dialog.headline.text() == "Cannot be compared"
    assert dialog.because.text() == "The model file is not there. Name it."
    assert dialog.again.isEnabled()


def test_closing_the_replay_stops_it(make_window: MakeWindow) -> None:
    window, product = make_window()
    window.open_file(FILE)
    trigger(window, "replay_here")
    assert window.bundles.replay_dialog is not None
    assert not window.actions_by_name["replay_here"].isEnabled()
    window.bundles.replay_dialog.reject()
    assert product.runs[-1].stops == 1
