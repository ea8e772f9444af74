"""The demo where there is no display: the real window, rendered into pictures, and the verdict in words."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from app.trajectory.events import Again, RunEnded, RunFailed
from app.trajectory.pair import PairRow
from app.trajectory.trajectory import Path as RunPath
from app.views.picture import grab
from app.views.window import MainWindow
from app.views.window_runs import DEMO

STEPS_BEFORE_PICTURE = 12


class OffscreenDemo(QObject):
    """Runs the demo in a window, both paths again at its fork, and quits the application at the end.

    `exit_code` is 2 where the run failed.
    """

    def __init__(self, window: MainWindow, folder: Path) -> None:
        super().__init__()
        self.exit_code = 0
        self._window = window
        self._folder = folder
        self._pictures: list[Path] = []
        self._headlines: dict[str, str] = {}
        control = window.control
        control.pairs_changed.connect(self._picture_of_the_run)
        control.pair_compared.connect(self._compared)
        control.answered_again.connect(self._answered_again)
        control.said.connect(lambda sentence: print(sentence, flush=True))
        control.ended.connect(lambda event: QTimer.singleShot(0, self, lambda: self._ended(event)))
        control.failed.connect(lambda event: QTimer.singleShot(0, self, lambda: self._failed(event)))

    def start(self) -> None:
        """Begin."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._window.runs.start(DEMO)
        if not self._window.control.running:
            self._could_not_begin()

    def _could_not_begin(self) -> None:
        """The banner says why."""
        banner = self._window.banner
        self._failed(RunFailed(None, banner.sentence.text(), banner.hint.text()))

    def _picture_of_the_run(self) -> None:
        bench = self._window.bench()
        live = self._window.control.live.pair(bench.shown) if bench.shown else None
        recompute = live.side(RunPath.RECOMPUTE) if live else None
        if not self._pictures and recompute is not None and recompute.step_count >= STEPS_BEFORE_PICTURE:
            self._pictures.append(self._folder / "demo-running.png")
            QTimer.singleShot(0, self, lambda: self._save("demo-running.png"))

    def _compared(self, row: PairRow) -> None:
        if self._headlines.get(row.episode_id) != row.headline:  # a pair is compared once more at the run's end
            self._headlines[row.episode_id] = row.headline
            print(f"  {row.episode_id}: {row.headline}", flush=True)

    def _answered_again(self, again: Again) -> None:
        if again.identical is not None:
            print(f"  {again.sentence}", flush=True)

    def _ended(self, event: RunEnded) -> None:
        pair = self._window.bench().view.pair
        if event.reason == "forked" and pair is not None:
            self._save("demo-fork.png")
            print(f"\n{pair.verdict.headline}\n{pair.verdict.detail}\n\nRunning both again here:", flush=True)
            self._window.runs.run_again()
            if not self._window.control.running:
                self._could_not_begin()
            return
        self._save("demo-again.png" if event.reason == "again" else "demo-end.png")
        if event.reason != "again":
            print(f"\nThe demo ended without a fork ({event.reason}).")
        self._finish()

    def _failed(self, event: RunFailed) -> None:
        self.exit_code = 2
        self._save("demo-error.png")
        print(f"\n{event.message} {event.hint}")
        self._finish()

    def _finish(self) -> None:
        session = self._window.bench().session
        if session is not None:
            print(f"Recorded in {session.path}")
        for picture in self._pictures:
            print(f"Picture: {picture}")
        QApplication.exit(self.exit_code)

    def _save(self, name: str) -> None:
        path = self._folder / name
        grab(self._window).save(str(path))
        if path not in self._pictures:
            self._pictures.append(path)
