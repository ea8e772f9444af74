from __future__ import annotations

import time

import pytest
from pytestqt.qtbot import QtBot

from app.views.watchdog import StallWatchdog


def hold_the_window_up(seconds: float) -> None:
    """Keeps the GUI thread busy without sleeping."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))


def test_a_window_that_is_blocked_for_150_ms_is_named(qtbot: QtBot, caplog: pytest.LogCaptureFixture) -> None:
    watchdog = StallWatchdog()
    try:
        qtbot.wait(100)
        hold_the_window_up(0.15)
        qtbot.waitUntil(lambda: watchdog.stalls >= 1)
    finally:
        watchdog.close()
    assert watchdog.longest_s >= 0.1
    assert any("hold_the_window_up" in stack for stack in watchdog.stacks)
    assert "hold_the_window_up" in caplog.text
    assert "stood still" in caplog.text


def test_a_window_that_is_blocked_for_a_moment_only_is_left_alone(qtbot: QtBot) -> None:
    watchdog = StallWatchdog()
    try:
        for _ in range(3):
            qtbot.wait(50)
            hold_the_window_up(0.02)
        qtbot.wait(50)
    finally:
        watchdog.close()
    assert not any("hold_the_window_up" in stack for stack in watchdog.stacks)
