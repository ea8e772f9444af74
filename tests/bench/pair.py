"""From a file to the screen: a pair of 2 x 100,000 steps and pairs of ordinary size, opened and scrolled in the window.

python -m tests.bench.pair [FILE]

The clock runs from the table's choice of another pair, which reads, compares and judges it, until every part of the
window that shows it has painted. Offscreen, so everything is drawn, only not sent to a display. FILE is one that
`write_file` made; without it, one is written first.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QGraphicsView, QScrollArea, QWidget

from app.application import Desktop, make_application
from app.settings import Settings
from app.trajectory.trajectory import Path as RunPath
from app.views.verbs import Verbs
from app.views.window import MainWindow
from app.views.workbench import Workbench
from tests.bench.big_file import BIG, SMALL_PAIRS, write_file

OPENED_BAR_MS = 300.0
FRAME_BAR_MS = 16.7
NEXT_BAR_MS = 100.0
OPENINGS = 7
GIVEN_UP_S = 30.0


class Painted(QObject):
    """Notes which of some widgets have painted."""

    def __init__(self, widgets: Sequence[QWidget]) -> None:
        super().__init__()
        self._widgets = widgets
        self._waiting: set[QObject] = set()
        for widget in widgets:
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """A paint event is about to be handled."""
        if event.type() is QEvent.Type.Paint:
            self._waiting.discard(watched)
        return False

    def ms(self, act: Callable[[], object]) -> float:
        """Milliseconds from an action to the end of the turn of the event loop in which the last widget has painted."""
        self._waiting = set(self._widgets)
        began = time.perf_counter()
        act()
        while self._waiting:
            QApplication.processEvents()
            assert time.perf_counter() - began < GIVEN_UP_S, f"not painted: {self._waiting}"
        return 1000 * (time.perf_counter() - began)


def measure(file: Path) -> dict[str, float]:
    """The figures in milliseconds by name."""
    application = make_application()
    desktop = Desktop(application, Verbs(), Settings())
    desktop.watchdog.close()  # it would name every bar that is missed
    window = desktop.open_window(file)
    bench = window.bench()
    application.processEvents()
    panes = [pane.viewport() for pane in bench.view.panes.panes.values()]
    lanes = bench.view.plot.findChildren(QGraphicsView)[0].viewport()
    inspector = bench.view.inspector.findChildren(QScrollArea)[0].widget()
    assert inspector is not None
    all_parts = Painted([*panes, lanes, bench.view.verdict, inspector])
    opened = []
    for _ in range(OPENINGS):
        opened.append(_go(window, bench, all_parts, "last_forked", BIG))
        _go(window, bench, all_parts, "first_forked", "small-01")
    _go(window, bench, all_parts, "last_forked", BIG)
    found = {"opened_first": opened[0], "opened_median": float(np.median(opened))}
    both = Painted(panes)
    found["unfolded"] = both.ms(bench.view.panes.unfold_all)
    bar = bench.view.panes.panes[RunPath.CACHED].verticalScrollBar()
    frames = [both.ms(lambda: bar.setValue(bar.value() + 90)) for _ in range(300)]
    jumps = [both.ms(partial(bar.setValue, number * bar.maximum() // 101)) for number in range(1, 101)]
    found["frame_p95"], found["jump_p95"] = (float(np.percentile(times, 95)) for times in (frames, jumps))
    found["folded"] = both.ms(bench.view.panes.fold_all)
    _go(window, bench, all_parts, "first_forked", "small-01")
    following = [
        _go(window, bench, all_parts, "next_forked", f"small-{number:02}") for number in range(2, SMALL_PAIRS + 1)
    ]
    found["next_forked_p95"], found["next_forked_median"] = (
        float(np.percentile(following, 95)),
        float(np.median(following)),
    )
    window.close()
    desktop.close()
    return found


def _go(window: MainWindow, bench: Workbench, painted: Painted, action: str, episode_id: str) -> float:
    took = painted.ms(window.actions_by_name[action].trigger)
    assert bench.shown == (episode_id, 1)
    assert bench.view.pair is not None
    return took


def main() -> int:
    """Print the figures; 1 where one is over its bar."""
    if len(sys.argv) > 1:
        found = measure(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "big.forkpoint"
            write_file(file, with_big=True)
            found = measure(file)
    bars = {"opened_median": OPENED_BAR_MS, "frame_p95": FRAME_BAR_MS, "next_forked_p95": NEXT_BAR_MS}
    for name, value in found.items():
        bar = f"   bar <= {bars[name]}: {'met' if value <= bars[name] else 'MISSED'}" if name in bars else ""
        print(f"{name:18} {value:8.1f} ms{bar}")
    return int(any(found[name] > bar for name, bar in bars.items()))


if __name__ == "__main__":
    sys.exit(main())
