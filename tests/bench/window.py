"""The window's figures: start to painted against a bare window, and stalls while steps stream in.

python -m tests.bench.window
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from app.trajectory.events import Event, RequestFinished, RequestStarted, RunEnded, StepsTaken, TrajectoryStarted
from app.trajectory.step import as_ids
from app.trajectory.trajectory import Path as RunPath
from app.trajectory.trajectory import Prompt, RequestReport
from tests.bench.big_file import SMALL_PAIRS, write_file
from tests.builders import step

ROOT = Path(__file__).parents[2]
STEPS_A_REQUEST = 64
START_BAR = 1.5
BARE = """
import time; begun = time.perf_counter()
import pyqtgraph
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMainWindow
application = QApplication([])
window = QMainWindow()
window.setCentralWidget(pyqtgraph.PlotWidget())
window.resize(1440, 900)
window.show()
"""
OURS = """
import time; begun = time.perf_counter()
from PySide6.QtCore import QTimer
from app.application import Desktop, make_application
from app.settings import Settings
from app.views.verbs import Verbs
application = make_application()
desktop = Desktop(application, Verbs(), Settings())
window = desktop.open_window({file})
"""
PAINTED = """
def done():
    application.processEvents()
    print(time.perf_counter() - begun, flush=True)
    import os; os._exit(0)
window.grab()
QTimer.singleShot(0, done)
application.exec()
"""


class StreamedRun:
    """Puts steps into the inbox at a steady rate, both paths side by side; `late_s` is how far it lagged."""

    def __init__(self, steps: int, steps_a_second: float) -> None:
        self.inbox: deque[Event] = deque()
        self.late_s = 0.0
        self._steps = steps
        self._rate = steps_a_second
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="streamed run", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether more may come."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End soon."""
        self._over.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        ready = [step(100 + number, margin=0.02 + number % 7) for number in range(STEPS_A_REQUEST)]
        prompt = list(range(40))
        begun, taken = time.monotonic(), 0
        for path in RunPath:
            self.inbox.append(TrajectoryStarted(path is RunPath.RECOMPUTE, "made-00", "made", path, 1))
        for request in range(self._steps // (2 * STEPS_A_REQUEST)):
            for trajectory in (0, 1):
                self.inbox.append(RequestStarted(trajectory, request, Prompt(as_ids(prompt), request, ())))
            for start in range(0, STEPS_A_REQUEST, 8):
                for trajectory in (0, 1):
                    self.inbox.append(StepsTaken(trajectory, request, tuple(ready[start : start + 8])))
                taken += 16
                due = begun + taken / self._rate - time.monotonic()
                self.late_s = max(self.late_s, -due)
                if self._over.wait(max(0.0, due)):
                    break
            for trajectory in (0, 1):
                report = RequestReport(0, len(prompt), (len(prompt),), "stop")
                self.inbox.append(RequestFinished(trajectory, request, report, (), (), ()))
            prompt += [each.token_id for each in ready]
        self.inbox.append(RunEnded(1, "stopped"))


@dataclass(frozen=True)
class Figures:
    """Seconds from start to painted, median, and the medians of the ratios of alternating runs."""

    bare_s: float
    ours_s: float
    ratio: float
    with_file_ratio: float


def start_to_painted(file: Path, rounds: int = 10) -> Figures:
    """Fresh processes in alternation: a bare PySide6 and pyqtgraph window, ours, and ours on a file."""
    bare, ours, with_file = [], [], []
    for _ in range(rounds):
        bare.append(_measure(BARE))
        ours.append(_measure(OURS.format(file="")))
        with_file.append(_measure(OURS.format(file=f"__import__('pathlib').Path({str(file)!r})")))
    ratios = [one / other for one, other in zip(ours, bare, strict=True)]
    file_ratios = [one / other for one, other in zip(with_file, bare, strict=True)]
    return Figures(
        statistics.median(bare),
        statistics.median(ours),
        statistics.median(ratios),
        statistics.median(file_ratios),
    )


def _measure(code: str) -> float:
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen", "QT_LOGGING_RULES": "*=false"}
    done = subprocess.run(
        [sys.executable, "-c", code + PAINTED], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def stalls(seconds: float = 10.0, steps_a_second: float = 2000.0) -> dict[str, float]:
    """Stream into a real window; what the watchdog saw: stalls over 100 ms, and the longest in milliseconds."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from app.application import Desktop, make_application
    from app.settings import Settings
    from app.views.run_control import Kind
    from app.views.verbs import Verbs

    application = make_application()
    desktop = Desktop(application, Verbs(), Settings())
    window = desktop.open_window()
    bench = window.bench()
    application.processEvents()
    desktop.watchdog.stalls, desktop.watchdog.longest_s = 0, 0.0
    run = StreamedRun(int(seconds * steps_a_second), steps_a_second)
    window.control.begin(run, Kind.RUN)
    bench.run_began("Streaming…")
    window.control.ended.connect(application.quit)
    application.exec()
    seen = desktop.watchdog
    taken = {"stalls": seen.stalls, "longest_ms": 1000 * seen.longest_s, "stream_late_ms": 1000 * run.late_s}
    desktop.close()
    return taken


def main() -> int:
    """Print the figures with their bars; 1 where one is missed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.forkpoint"
        write_file(file, with_big=False)
        figures = start_to_painted(file)
    streamed = stalls()
    started, calm = figures.ratio <= START_BAR, streamed["stalls"] == 0
    said = {True: "met", False: "MISSED"}
    print(f"start to painted {figures.ours_s:.2f} s, a bare window {figures.bare_s:.2f} s: ratio {figures.ratio:.2f}")
    print(f"  bar <= {START_BAR}: {said[started]}")
    print(f"  opened on a file of {SMALL_PAIRS} pairs: ratio {figures.with_file_ratio:.2f} (no bar)")
    print(f"2,000 steps a second for ten seconds: {streamed['stalls']:.0f} stalls over 100 ms, bar 0: {said[calm]}")
    print(f"  longest {streamed['longest_ms']:.0f} ms; the stream was {streamed['stream_late_ms']:.0f} ms late at most")
    return 0 if started and calm else 1


if __name__ == "__main__":
    sys.exit(main())
