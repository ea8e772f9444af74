from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.trajectory.events import Notice, Replayed, RunEnded, RunFailed
from app.trajectory.reproducer import ReplayResult, ReplayVerdict, Served
from app.trajectory.step import StepBlock
from app.views.window import MainWindow
from tests.views.fakes import FakeProduct
from tests.views.made_windows import FILE, PAIRS, MakeWindow, bench_of, first_forked, trigger, view_of

SERVED = (Served("cached path", 412, 412), Served("recompute path", 0, 0))


def result(verdict: ReplayVerdict, because: str, served: tuple[Served, ...] = SERVED) -> ReplayResult:
    empty = StepBlock.empty()
    return ReplayResult(first_forked().cached.episode_id, verdict, because, (), served, empty, empty, None)


def opened(make_window: MakeWindow, qtbot: QtBot) -> tuple[MainWindow, FakeProduct]:
    window, product = make_window()
    window.open_file(FILE)
    qtbot.waitUntil(lambda: window.actions_by_name["try_on_server"].isEnabled())
    return window, product


def said(window: MainWindow) -> str:
    return "\n".join(label.text() for label in view_of(window).inspector.findChildren(QLabel))


def test_a_fork_is_tried_on_a_server_of_our_own_and_its_answer_stays(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, product = opened(make_window, qtbot)
    trigger(window, "try_on_server")
    episode = first_forked().cached.episode_id
    (episodes, where), run = product.tried[0], product.runs[0]
    assert (episodes, where.engine) == ([episode], "managed")
    run.inbox.append(Notice("cached path: warm-up request 1 of 2…"))
    qtbot.waitUntil(lambda: "… llama-server: cached path: warm-up request 1 of 2…" in said(window))
    assert window.actions_by_name["stop"].isEnabled()
    assert not window.actions_by_name["try_on_server"].isEnabled()
    assert not view_of(window).inspector._ask.run_again.isEnabled()
    run.inbox.append(Replayed(f"{episode}, request 3, token 17", result("reproduced", "Same two tokens.")))
    run.inbox.append(RunEnded(1, "replayed"))
    qtbot.waitUntil(lambda: not window.control.running)
    assert window.banner.sentence.text().endswith(f"It survives on llama-server: {episode}, request 3, token 17.")
    assert "cached path: 412 from the cache, recorded 412" in window.banner.hint.text()
    assert "✓ llama-server: reproduced. Same two tokens." in said(window)
    assert view_of(window).pair is PAIRS[episode]


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("does not fork", "It does not fork there"),
        ("forks elsewhere", "It forks there, but elsewhere"),
        ("cannot be compared", "It cannot be compared"),
    ],
)
def test_every_other_answer_is_said_too(
    make_window: MakeWindow, qtbot: QtBot, verdict: ReplayVerdict, words: str
) -> None:
    window, product = opened(make_window, qtbot)
    trigger(window, "try_on_server")
    served = (Served("cached path", 412, 3, 4), Served("recompute path", 0, None))
    product.runs[0].inbox.append(Replayed("", result(verdict, "Because.", served)))
    product.runs[0].inbox.append(RunEnded(1, "replayed"))
    qtbot.waitUntil(lambda: not window.control.running)
    assert words in window.banner.sentence.text()
    assert "✗ cached path: 3 from the cache, recorded 412; another answer from token 5 on" in said(window)
    assert "recompute path: not reported from the cache" in said(window)


def test_a_try_that_fails_says_why(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, product = opened(make_window, qtbot)
    trigger(window, "try_on_server")
    product.runs[0].inbox.append(RunFailed(1, "llama-server did not start.", "Its log says why."))
    qtbot.waitUntil(lambda: not window.control.running)
    assert "llama-server did not start." in window.banner.sentence.text()


def test_a_try_can_be_stopped(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, product = opened(make_window, qtbot)
    trigger(window, "try_on_server")
    trigger(window, "stop")
    assert product.runs[0].stops == 1


def test_without_a_llama_server_the_action_is_greyed_and_says_why(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, product = make_window()
    product.server = None
    window.open_file(FILE)
    action = window.actions_by_name["try_on_server"]
    qtbot.waitUntil(lambda: "No llama-server was found." in action.toolTip())
    assert not action.isEnabled()
    assert not view_of(window).inspector._ask.try_server.isEnabled()


def test_a_pair_without_a_fork_cannot_be_tried(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, _ = opened(make_window, qtbot)
    equal = next(name for name, pair in PAIRS.items() if pair.comparison.fork is None)
    bench_of(window).show_pair((equal, 1))
    action = window.actions_by_name["try_on_server"]
    assert not action.isEnabled()
    assert action.toolTip() == "The two paths did not fork."
