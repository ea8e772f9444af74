"""The stall watchdog: says where the GUI thread was when it did not come back for more than 100 ms."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
import traceback

from PySide6.QtCore import QObject, Qt, QTimer

log = logging.getLogger(__name__)

LIMIT_S = 0.1
BEAT_MS = 20
STACK_DEPTH = 25


class StallWatchdog(QObject):
    """Made in the GUI thread. A timer beats there, a thread watches the beat from the first one on.

    `stalls` counts how often the beat was late by more than `LIMIT_S`, `longest_s` is the longest such time, `stacks`
    holds the GUI thread's stack of each stall that the watching thread could see: code that keeps the interpreter
    lock hides from it, but not from the count. Only the last fifty stacks are kept.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.stalls = 0
        self.longest_s = 0.0
        self.stacks: list[str] = []
        self._watched = threading.get_ident()
        self._beat_at = math.inf  # before the event loop runs, nothing stands still
        self._over = threading.Event()
        self._timer = QTimer(self, interval=BEAT_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start()
        self._thread = threading.Thread(target=self._watch, name="stall watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching; closing twice is harmless."""
        self._timer.stop()
        self._over.set()
        self._thread.join()

    def _late_s(self) -> float:
        return time.monotonic() - self._beat_at - BEAT_MS / 1000

    def _beat(self) -> None:
        late_s = self._late_s()
        self._beat_at = time.monotonic()
        if late_s > LIMIT_S:
            self.stalls += 1
            self.longest_s = max(self.longest_s, late_s)
            log.warning("the window stood still for %.0f ms (%d so far)", 1000 * late_s, self.stalls)

    def _watch(self) -> None:
        seen = 0.0
        while not self._over.wait(BEAT_MS / 1000):
            beat_at = self._beat_at
            if beat_at == seen or self._late_s() <= LIMIT_S:
                continue
            seen = beat_at
            frame = sys._current_frames().get(self._watched)
            if frame is not None:
                calls = [call for call in traceback.extract_stack(frame) if "<frozen" not in call.filename]
                stack = "".join(traceback.format_list(calls[-STACK_DEPTH:]))
                self.stacks = [*self.stacks[-49:], stack]
                log.warning("the window is standing still in:\n%s", stack)
