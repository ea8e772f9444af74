"""The composition root of the window: who is made, in which order, and who gives back what."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QEvent, QMessageLogContext, QObject, Qt, QTimer, QtMsgType, Signal, qInstallMessageHandler
from PySide6.QtGui import QFileOpenEvent, QIcon
from PySide6.QtWidgets import QApplication

from app import paths
from app.errors import AppError, SettingsError
from app.settings import Settings
from app.views.style import apply_theme, choose_theme
from app.views.verbs import Verbs
from app.views.watchdog import StallWatchdog
from app.views.window import MainWindow
from app.views.window_runs import DEMO

log = logging.getLogger(__name__)

PRELOAD_AFTER_MS = 100
OFFSCREEN_NOISE = "This plugin does not support propagateSizeHints()"
"""What Qt's offscreen platform says of every window that is shown; it means nothing where there is no window."""


class Application(QApplication):
    """On macOS a file to open is handed over by an event."""

    file_handed_over = Signal(object)

    def event(self, event: QEvent) -> bool:
        """Take a handed-over file."""
        if isinstance(event, QFileOpenEvent) and event.file():
            self.file_handed_over.emit(Path(event.file()))
            return True
        return super().event(event)


class Desktop(QObject):
    """The windows of this process, and what they share: settings, colours, the watchdog."""

    def __init__(self, application: Application, verbs: Verbs, settings: Settings) -> None:
        super().__init__()
        self.application = application
        self.verbs = verbs
        self.settings = settings
        self.theme = choose_theme(application, settings.theme)
        self.windows: list[MainWindow] = []
        self.watchdog = StallWatchdog(self)
        # The workbench loads pyqtgraph, a third of a second: done while a person still reads the start page.
        self._preload = threading.Thread(target=_preload, name="preload", daemon=True)
        self._preload_due = QTimer(self, singleShot=True, interval=PRELOAD_AFTER_MS)
        self._preload_due.timeout.connect(self._preload.start)
        apply_theme(application, self.theme, settings.text_scale)
        application.setWindowIcon(QIcon(str(paths.resources_dir() / "icon.svg")))
        application.styleHints().colorSchemeChanged.connect(self.apply_settings)
        application.file_handed_over.connect(self.open_window)

    def open_window(self, file: Path | None = None) -> MainWindow:
        """A new window, on a file where one is given."""
        window = MainWindow(self.verbs, self.settings, self.theme)
        window.closed.connect(self._forget)
        window.settings_changed.connect(self._settings_changed)
        window.open_elsewhere_requested.connect(self.open_window)
        self.windows.append(window)
        width, height = self.settings.window_size or (1440, 900)
        window.resize(width, height)
        window.show()
        if self.settings.notice:
            window.banner.say("notice", self.settings.notice)
            self.settings.notice = ""
        if file is not None:
            window.open_file(file)
        elif not self._preload_due.isActive() and not self._preload.ident:
            self._preload_due.start()
        return window

    def apply_settings(self) -> None:
        """Dress every window anew."""
        self.theme = choose_theme(self.application, self.settings.theme)
        apply_theme(self.application, self.theme, self.settings.text_scale)
        for window in self.windows:
            window.show_settings(self.theme)

    def say_bug(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """An unexpected error in a slot: the window lives on, the log has the trace, the banner says so.

        A known one is no bug: damage in a file may show only where a person looks.
        """
        log.error("unexpected error", exc_info=(kind, error, trace))
        for window in self.windows[-1:]:
            if isinstance(error, AppError):
                window.banner.show_error(error)
                continue
            hint = f"This is a bug in Forkpoint. What was recorded stays. The log has the details: {paths.log_file()}"
            window.banner.say("error", f"Something went wrong: {kind.__name__}: {error}", hint)

    def close(self) -> None:
        """Close what is open still, without asking."""
        for window in self.windows:
            window.control.close()
            if window.shown_bench is not None:
                window.shown_bench.close_session()
        self._preload_due.stop()
        if self._preload.ident:
            self._preload.join()
        self.watchdog.close()

    def _forget(self, window: MainWindow) -> None:
        self.settings.window_size = (window.width(), window.height())
        self._save(window)
        self.windows.remove(window)
        window.deleteLater()

    def _settings_changed(self) -> None:
        self._save(self.windows[-1])
        self.apply_settings()

    def _save(self, window: MainWindow) -> None:
        try:
            self.settings.save()
        except SettingsError as error:
            window.banner.show_error(error)


def _preload() -> None:
    for name in ("workbench", "run_dialog", "doctor_page"):
        importlib.import_module(f"app.views.{name}")


def make_application() -> Application:
    """The one application."""
    existing = QApplication.instance()
    if isinstance(existing, Application):
        return existing
    QApplication.setHighDpiScaleFactorRoundingPolicy(Qt.HighDpiScaleFactorRoundingPolicy.PassThrough)
    application = Application(sys.argv[:1])
    application.setApplicationName("forkpoint")
    application.setApplicationDisplayName("Forkpoint")
    application.setDesktopFileName("forkpoint")
    return application


def main(files: list[Path], *, demo: bool = False) -> int:
    """Open a window on each file, or an empty one; `demo` starts the demo at once. Returns the exit code."""
    logging.basicConfig(format="%(name)s: %(message)s")  # warnings go to the terminal too, the watchdog's among them
    application = make_application()
    desktop = Desktop(application, Verbs(), Settings.load())
    sys.excepthook = desktop.say_bug
    signal.signal(signal.SIGINT, lambda _signal, _frame: application.exit(128 + signal.SIGINT))
    for file in files:
        desktop.open_window(file)
    if not files:
        desktop.open_window()
    if demo:
        desktop.windows[0].runs.start(DEMO)
    try:
        return application.exec()
    finally:
        desktop.close()


@contextmanager
def without_display() -> Iterator[None]:
    """Render offscreen from here on; one message that then says nothing is not printed, all others are."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"

    def tell(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if message == OFFSCREEN_NOISE:
            return
        if earlier is None:
            print(message, file=sys.stderr)
        else:
            earlier(kind, context, message)

    earlier = qInstallMessageHandler(tell)
    try:
        yield
    finally:
        qInstallMessageHandler(earlier)


def shots(folder: Path, file: Path | None, server: str = "") -> Iterator[Path]:
    """Screenshots of every state from a real file (None: the sample), rendered without a display.

    `server` is the address of a server that is shown as tested.
    """
    from app.views.shots import render_shots

    with without_display():
        application = make_application()
        yield from render_shots(Verbs(), Settings(), file or paths.sample_file(), folder, server)
        application.processEvents()


def self_test() -> str:
    """Open a window offscreen and paint it; a finding for `forkpoint self-test`."""
    with without_display():
        desktop = Desktop(make_application(), Verbs(), Settings())
        try:
            picture = desktop.open_window().grab()
        finally:
            desktop.close()
    return f"painted at {picture.width()} x {picture.height()}"


def offscreen_demo(folder: Path) -> int:
    """The demo without a display: the same window and run, pictures in `folder`, the verdict printed."""
    from app.views.offscreen_demo import OffscreenDemo

    with without_display():
        application = make_application()
        desktop = Desktop(application, Verbs(), Settings())
        desktop.watchdog.close()  # nobody waits for this window, and saving its pictures takes a while
        demo = OffscreenDemo(desktop.open_window(), folder)
        demo.start()
        try:
            application.exec()
        finally:
            desktop.close()
    return demo.exit_code
