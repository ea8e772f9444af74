"""Pictures of the window's states, made by the window itself from a real file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QApplication

from app.settings import Settings
from app.trajectory.events import Estimate, Event, PairCompared, RunStarted
from app.trajectory.pair import Pair, PairRow
from app.trajectory.trajectory import ExperimentInfo, Trajectory
from app.views.engine_shots import EngineShots
from app.views.picture import grab, grab_over
from app.views.replay import replay_events
from app.views.run_dialog import RunDialog
from app.views.shots_bundles import bundle_states
from app.views.style import apply_theme
from app.views.theme import DARK, LIGHT, Theme
from app.views.verbs import Verbs
from app.views.window import MainWindow

SIZES = ((1280, 800), (1920, 1080))
CUT = 0.72
"""Where the mid-run picture stops: in the second path, near three quarters of all events."""


class CutRun:
    """A recorded pair as a run that is under way: the same events, and then no more."""

    def __init__(self, path: Path, events: list[Event]) -> None:
        self.path = path
        self.inbox = deque(events)
        self.is_running = True

    def stop(self) -> None:
        """Nothing works behind it."""
        self.is_running = False

    def join(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as a run's handle has it
        """It is over at once."""
        return True


def render_shots(verbs: Verbs, settings: Settings, file: Path, folder: Path, server: str = "") -> Iterator[Path]:
    """Render every state in both sizes and both themes; yields the pictures as they are saved. `server` is the address
    of a server that is shown as tested.

    Raises StoreError where the file cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    states: dict[str, Callable[[MainWindow], QPixmap]] = {
        "empty": grab,
        "fork": lambda window: _fork(window, file),
        "mid-run": lambda window: _mid_run(window, file),
        "error": lambda window: _error(window, folder),
        "new-run": _new_run,
        **EngineShots(file, server).states(),
        **bundle_states(file, folder),
    }
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    for theme in (LIGHT, DARK):
        apply_theme(application, theme, settings.text_scale)
        for width, height in SIZES:
            for name, state in states.items():
                window = _window(verbs, replace(settings, recent=[]), theme, width, height)
                picture = state(window)
                path = folder / f"{name}-{width}x{height}-{theme.name}.png"
                picture.save(str(path))
                window.control.close()
                window.close()
                window.deleteLater()
                QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
                yield path


def _window(verbs: Verbs, settings: Settings, theme: Theme, width: int, height: int) -> MainWindow:
    window = MainWindow(verbs, settings, theme)
    window.resize(width, height)
    window.show()
    QApplication.processEvents()
    return window


def _fork(window: MainWindow, file: Path) -> QPixmap:
    window.open_file(file)
    return grab(window)


def _mid_run(window: MainWindow, file: Path) -> QPixmap:
    session = window.verbs.open_session(file, window.settings.near_tie)
    try:
        experiment = session.experiments()[0]
        rows = session.rows(experiment.id)
        at = next((number for number, row in enumerate(rows) if row.diverged), 0)
        pair = session.pair(experiment.id, rows[at].episode_id)
    finally:
        session.close()
    run = CutRun(file, list(_first_part(experiment, rows, at, pair)))
    window.runs.watch(run)
    bench = window.bench()
    while run.inbox:
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    bench.table.set_rows([*rows[:at], *(as_not_run_yet(row) for row in rows[at:])])
    bench.view.follow_all()
    return grab(window)


def as_not_run_yet(row: PairRow) -> PairRow:
    """The row as the table had it before its pair was run."""
    return PairRow(
        row.experiment_id, row.episode_id, row.family, row.repeat, None, None, None, None, None, 0, False, False,
        None, "open", "",
    )  # fmt: skip


def _first_part(experiment: ExperimentInfo, rows: list[PairRow], at: int, pair: Pair) -> Iterator[Event]:
    """The events of a run up to the middle of the pair at row `at`."""
    seconds = [_seconds(side) for side in (pair.cached, pair.recompute)]
    yield RunStarted(experiment.id, experiment.title, len(rows), 1)
    for row in rows[:at]:
        yield PairCompared(row)
    yield Estimate(2 * at + 1, 2 * len(rows), (len(rows) - at) * sum(seconds) - seconds[0])
    events = [event for _, event in replay_events(pair, side_by_side=False)]
    yield from islice(events, round(CUT * len(events)))


def _seconds(side: Trajectory) -> float:
    reports = [request.report for request in side.requests if request.report is not None]
    return sum((report.prefill_ms or 0) + (report.decode_ms or 0) for report in reports) / 1000


def _error(window: MainWindow, folder: Path) -> QPixmap:
    broken = folder / "broken.forkpoint"
    broken.write_bytes(b"SQLite format 3\0 and then the disk was full")
    window.open_file(broken)
    broken.unlink()
    return grab(window)


def _new_run(window: MainWindow) -> QPixmap:
    """The dialog over its window, as a window manager would place it."""
    dialog = RunDialog(window.verbs, window.settings, window)
    dialog.show()
    while dialog.picker.model.is_reading:
        QApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    behind = grab_over(window, dialog)
    dialog.reject()
    return behind
