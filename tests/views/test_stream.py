"""A run that streams faster than any model: the window takes it and never stands still."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from app.settings import Settings
from app.trajectory.events import Event, RunEnded, StepsTaken
from app.views.run_control import Kind, RunControl
from app.views.run_feed import STEPS_PER_TICK, RunFeed
from app.views.theme import LIGHT
from app.views.watchdog import StallWatchdog
from app.views.window import MainWindow
from tests.bench.window import StreamedRun
from tests.builders import step
from tests.views.fakes import FakeProduct, FakeRun, made_up_pairs


def test_no_stall_while_two_thousand_steps_a_second_stream_in(qtbot: QtBot) -> None:
    product = FakeProduct(made_up_pairs(3))
    window = MainWindow(product.verbs(), Settings(), LIGHT)
    qtbot.addWidget(window, before_close_func=lambda widget: widget.control.close())
    window.resize(1280, 800)
    window.show()
    bench = window.bench()
    qtbot.wait(200)
    run = StreamedRun(steps=6000, steps_a_second=2000)
    watchdog = StallWatchdog()
    try:
        window.control.begin(run, Kind.RUN)
        bench.run_began("Loading the engine…")
        qtbot.waitUntil(lambda: not window.control.running, timeout=20_000)
    finally:
        watchdog.close()
        run.join()
    assert run.late_s < 0.5, "the stream itself was held up"
    assert watchdog.stalls == 0, "\n".join(watchdog.stacks)


def test_a_feed_takes_no_more_than_its_share_a_tick(qtbot: QtBot) -> None:
    block = tuple(step(number) for number in range(100))
    run = FakeRun(Path("x"), deque[Event](StepsTaken(1, 0, block) for _ in range(50)))
    taken: list[list[Event]] = []
    feed = RunFeed(run)
    feed.drained.connect(taken.append)
    feed.drain()
    assert sum(len(event.steps) for event in taken[0] if isinstance(event, StepsTaken)) == STEPS_PER_TICK
    qtbot.waitUntil(lambda: not run.inbox)
    assert sum(len(events) for events in taken) == 50
    feed.close()


def test_a_feed_stops_at_the_end_of_the_run(qtbot: QtBot) -> None:
    run = FakeRun(Path("x"), deque[Event]([RunEnded(1, "complete")]))
    control = RunControl()
    control.begin(run, Kind.RUN)
    with qtbot.waitSignal(control.ended):
        pass
    assert not control.running
    assert control.findChildren(QTimer) == [] or not any(t.isActive() for t in control.findChildren(QTimer))
