"""Pictures of the engine picker, the doctor and a tried fork. What is examined and tried is so once, really."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QPixmap

from app.session import Diagnosis
from app.trajectory.events import Event, Replayed, RunEnded
from app.views.doctor_page import DoctorPage
from app.views.engine_picker import EnginePicker
from app.views.picture import grab, grab_over, wait
from app.views.run_control import Kind
from app.views.run_dialog import RunDialog
from app.views.window import MainWindow

PROBES = 2
NOBODY = "http://127.0.0.1:8080"


class OverRun:
    """A run that has ended: its events wait to be taken."""

    def __init__(self, path: Path, events: list[Event]) -> None:
        self.path = path
        self.inbox = deque(events)
        self.is_running = False

    def stop(self) -> None:
        """It is over."""

    def join(self, timeout_s: float | None = None) -> bool:  # noqa: ARG002 - as a run's handle has it
        """It is over."""
        return True


class EngineShots:
    """`server` is the address of a server that the connection test is made with, "" where there is none."""

    def __init__(self, file: Path, server: str) -> None:
        self._file = file
        self._server = server
        self._diagnosis: Diagnosis | None = None
        self._tried: Replayed | None = None

    def states(self) -> dict[str, Callable[[MainWindow], QPixmap]]:
        """Name of the picture -> what makes it."""
        return {
            "new-run-managed": self._managed,
            "new-run-server": self._elsewhere,
            "doctor": self._doctor,
            "doctor-found": self._found,
            "tried-on-server": self._try,
        }

    def _managed(self, window: MainWindow) -> QPixmap:
        dialog = _dialog(window, "managed")
        while dialog.picker.managed.is_searching:
            wait()
        return _picture(window, dialog)

    def _elsewhere(self, window: MainWindow) -> QPixmap:
        dialog = _dialog(window, "server")
        fields = dialog.picker.server
        fields.address.setText(self._server or NOBODY)
        if self._server:
            fields.test.click()
            while fields.is_testing:
                wait()
        return _picture(window, dialog)

    def _doctor(self, window: MainWindow) -> QPixmap:
        return _picture(window, _page(window))

    def _found(self, window: MainWindow) -> QPixmap:
        page = _page(window)
        if self._diagnosis is None:
            page.probes.setValue(PROBES)
            page.go.click()
            while page.is_examining:
                wait()
            self._diagnosis = page.diagnosis
        elif page.diagnosis is None:
            page.show_diagnosis(self._diagnosis)
        return _picture(window, page)

    def _try(self, window: MainWindow) -> QPixmap:
        window.open_file(self._file)
        while window.trial.is_searching:
            wait()
        if self._tried is not None:
            ended = RunEnded(1, "replayed")
            window.control.begin(OverRun(self._file, [self._tried, ended]), Kind.TRY)
        else:
            window.control.replayed.connect(self._keep)
            window.actions_by_name["try_on_server"].trigger()  # where it is greyed the picture shows that
        while window.control.running:
            wait()
        return grab(window)

    def _keep(self, event: Replayed) -> None:
        self._tried = event


def _dialog(window: MainWindow, engine: str) -> RunDialog:
    dialog = RunDialog(window.verbs, window.settings, window)
    dialog.show()
    _await_model(dialog.picker)
    dialog.picker.choose(engine)
    return dialog


def _page(window: MainWindow) -> DoctorPage:
    page = DoctorPage(window.verbs, window.settings, window)
    page.show()
    _await_model(page.picker)
    return page


def _await_model(picker: EnginePicker) -> None:
    while picker.model.is_reading:
        wait()


def _picture(window: MainWindow, dialog: RunDialog | DoctorPage) -> QPixmap:
    picture = grab_over(window, dialog)
    dialog.reject()
    return picture
