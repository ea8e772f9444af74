"""Pictures of what the window does with bundles, from the same real file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

from PySide6.QtCore import QEventLoop
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QApplication, QDialog

from app.session import Redaction
from app.trajectory.events import EngineLoading, Event, Replayed, RunEnded, Shrunk
from app.trajectory.pair import Pair
from app.trajectory.reproducer import ReplayResult, Served
from app.views.export_dialog import ExportDialog
from app.views.picture import grab, grab_over
from app.views.run_control import Kind
from app.views.shrink_dialog import ShrinkDialog
from app.views.window import MainWindow

State = Callable[[MainWindow], QPixmap]
BUNDLE = "shot.zip"
INTO_THE_PART = 48
"""Bytes from a part's header in the zip to somewhere in what it holds."""


class ToldRun:
    """A run of which some events are told, and no more: nothing works behind it."""

    def __init__(self, events: list[Event]) -> None:
        self.inbox = deque(events)
        self.is_running = not any(isinstance(event, RunEnded) for event in events)

    def stop(self) -> None:
        """It is over."""
        self.is_running = False

    def join(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as a run's handle has it
        """It is over at once."""
        return True


def bundle_states(file: Path, folder: Path) -> dict[str, State]:
    """The states by name; a bundle is written into `folder` on the way, and removed."""
    return {
        "export": lambda window: _export(window, file, "none"),
        "export-redacted": lambda window: _export(window, file, "strict"),
        "bundle": lambda window: _bundle(window, file, folder, altered=False),
        "bundle-altered": lambda window: _bundle(window, file, folder, altered=True),
        "replayed": lambda window: _replayed(window, file),
        "shrink": lambda window: _shrink(window, file),
        "shrinking": lambda window: _shrinking(window, file),
    }


def _over(window: MainWindow, dialog: QDialog) -> QPixmap:
    """The dialog over its window; it is closed then."""
    picture = grab_over(window, dialog)
    dialog.reject()
    return picture


def _dialog(window: MainWindow, file: Path) -> ExportDialog:
    window.open_file(file)
    window.bundles.export()
    dialog = window.bundles.export_dialog
    assert dialog is not None
    return dialog


def _await(dialog: ExportDialog) -> None:
    while dialog.works:
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)


def _export(window: MainWindow, file: Path, redaction: Redaction) -> QPixmap:
    dialog = _dialog(window, file)
    dialog.fields.redactions[redaction].setChecked(True)
    _await(dialog)
    return _over(window, dialog)


def _bundle(window: MainWindow, file: Path, folder: Path, *, altered: bool) -> QPixmap:
    dialog = _dialog(window, file)
    _await(dialog)
    target = folder / BUNDLE
    dialog.write(target)
    _await(dialog)
    dialog.reject()
    if altered:
        with ZipFile(target) as bundle:
            report = bundle.getinfo("report.html").header_offset
        data = bytearray(target.read_bytes())
        data[report + INTO_THE_PART] ^= 1
        target.write_bytes(data)
    window.bench().close_session()
    window.open_file(target)
    target.unlink()
    return grab(window)


def _replayed(window: MainWindow, file: Path) -> QPixmap:
    """The pair as if this machine had given the recorded answers."""
    window.open_file(file)
    bench = window.bench()
    pair = bench.view.pair
    assert pair is not None
    window.bundles.show_replay(pair, ToldRun([Replayed("", _as_recorded(pair)), RunEnded(1, "replayed")]))
    while window.control.running:
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    dialog = window.bundles.replay_dialog
    assert dialog is not None
    return _over(window, dialog)


def _as_recorded(pair: Pair) -> ReplayResult:
    fork = pair.comparison.fork
    at = fork.request if fork is not None else 0
    reports = [request.report for request in pair.cached.requests[: at + 1]]
    counts = [report.cached_tokens if report else None for report in reports]
    served = tuple(Served(f"request {number}", count, count) for number, count in enumerate(counts, 1))
    cached, recompute = (side.requests[at].steps for side in (pair.cached, pair.recompute))
    because = f"The same request, and the same two tokens at {fork.place}." if fork is not None else ""
    return ReplayResult(pair.cached.episode_id, "reproduced", because, (), served, cached, recompute, fork)


def _shrink(window: MainWindow, file: Path) -> QPixmap:
    window.open_file(file)
    return _over(window, ShrinkDialog("this fork", window))


def _shrinking(window: MainWindow, file: Path) -> QPixmap:
    window.open_file(file)
    window.banner.hide()
    told = "41 tries, 1,204 → 318 tokens: trying fewer messages"
    run = ToldRun([EngineLoading("Opening the engine…"), Shrunk(41, 5, 2, 1204, 318, told)])
    window.control.begin(run, Kind.SHRINK)
    while run.inbox:
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    return grab(window)
