"""The composition root: windows, settings, unexpected errors, the demo without a display."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer, qInstallMessageHandler, qWarning
from PySide6.QtGui import QFileOpenEvent, QImage

from app import application as root
from app import paths
from app.application import Application, Desktop
from app.engine.base import Engine
from app.engine.scripted import ScriptedEngine
from app.errors import StoreError
from app.session import runs
from app.settings import Settings
from app.views.theme import DARK, LIGHT
from app.views.window import MainWindow
from tests.views.fakes import FakeProduct, made_up_pairs
from tests.views.test_window_real import forking


@pytest.fixture
def desktop(qapp: Application, tmp_path: Path) -> Iterator[Desktop]:
    settings = Settings.load(tmp_path / "settings.json")
    made = Desktop(qapp, FakeProduct(made_up_pairs(3)).verbs(), settings)
    yield made
    for window in list(made.windows):
        window.close()
    made.close()


def test_settings_reach_every_window_and_are_saved(desktop: Desktop, tmp_path: Path) -> None:
    first, second = desktop.open_window(Path("a.forkpoint")), desktop.open_window()
    first.choose_theme("dark")
    assert desktop.theme is DARK
    assert second.theme is DARK
    first.choose_theme("light")
    assert second.theme is LIGHT
    assert Settings.load(tmp_path / "settings.json").theme == "light"


def test_another_file_opens_another_window(desktop: Desktop) -> None:
    first = desktop.open_window(Path("a.forkpoint"))
    first.open_file(Path("b.forkpoint"))
    assert [window.windowTitle().split()[0] for window in desktop.windows] == ["a.forkpoint", "b.forkpoint"]


def test_a_file_that_the_system_hands_over_opens(desktop: Desktop, qapp: Application) -> None:
    qapp.sendEvent(qapp, QFileOpenEvent("/somewhere/c.forkpoint"))
    assert [window.windowTitle().split()[0] for window in desktop.windows] == ["c.forkpoint"]


def test_a_closed_window_is_forgotten_and_its_size_remembered(desktop: Desktop, tmp_path: Path) -> None:
    window = desktop.open_window(Path("a.forkpoint"))
    window.resize(1111, 777)
    window.close()
    assert desktop.windows == []
    assert Settings.load(tmp_path / "settings.json").window_size == (1111, 777)


def test_a_bug_is_shown_as_one_and_the_window_lives_on(desktop: Desktop, caplog: pytest.LogCaptureFixture) -> None:
    window = desktop.open_window()
    try:
        raise RuntimeError("a slot fell over")
    except RuntimeError:
        kind, error, trace = sys.exc_info()
        assert kind is not None
        assert error is not None
        desktop.say_bug(kind, error, trace)
    assert "a slot fell over" in window.banner.sentence.text()
    assert "This is a bug" in window.banner.hint.text()
    assert "a slot fell over" in caplog.text


def test_damage_that_shows_only_where_a_person_looks_is_no_bug(desktop: Desktop) -> None:
    window = desktop.open_window()
    error = StoreError("The file is damaged.", "Copy it again.")
    desktop.say_bug(StoreError, error, None)
    assert window.banner.sentence.text().endswith("The file is damaged.")
    assert window.banner.hint.text() == "Copy it again."


def test_settings_that_cannot_be_saved_are_said(desktop: Desktop, tmp_path: Path) -> None:
    window = desktop.open_window()
    (tmp_path / "file").write_text("")
    desktop.settings.file = tmp_path / "file" / "settings.json"
    window.choose_theme("dark")
    assert "cannot be saved" in window.banner.sentence.text()
    assert desktop.theme is DARK
    desktop.settings.file = None


@pytest.mark.usefixtures("qapp")
def test_the_demo_without_a_display_saves_pictures_and_says_the_verdict(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def opened(*_args: object, **_options: object) -> Engine:
        return ScriptedEngine(forking)

    monkeypatch.setattr(runs, "open_engine", opened)
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path)
    assert root.offscreen_demo(tmp_path / "pictures") == 0
    said = capsys.readouterr().out
    assert "Forked at request" in said
    assert said.index("Forked at request") < said.index("recompute again: identical") < said.index("cached again: ide")
    for picture in (tmp_path / "pictures" / "demo-fork.png", tmp_path / "pictures" / "demo-again.png"):
        assert str(picture) in said
        assert QImage(str(picture)).width() == 1440


@pytest.mark.usefixtures("qapp")
def test_without_a_display_one_message_of_qt_is_not_printed_and_all_others_are() -> None:
    said: list[str] = []
    before = qInstallMessageHandler(lambda _kind, _context, message: said.append(message))
    try:
        with root.without_display():
            qWarning("This plugin does not support propagateSizeHints()")
            qWarning("This plugin does not support propagateSizeHints() at all")
        qWarning(root.OFFSCREEN_NOISE)
    finally:
        qInstallMessageHandler(before)
    assert said == ["This plugin does not support propagateSizeHints() at all", root.OFFSCREEN_NOISE]


def test_main_opens_its_files_and_ends_with_them(
    qapp: Application, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.forkpoint"
    file.write_bytes(b"nothing of ours")
    monkeypatch.setattr(paths, "settings_file", lambda: tmp_path / "settings.json")
    monkeypatch.setattr(paths, "log_file", lambda: tmp_path / "forkpoint.log")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    seen: list[str] = []

    def look() -> None:
        seen.extend(
            window.banner.sentence.text() for window in qapp.topLevelWidgets() if isinstance(window, MainWindow)
        )
        qapp.closeAllWindows()

    interrupt = signal.getsignal(signal.SIGINT)
    QTimer.singleShot(200, look)
    try:
        assert root.main([file]) == 0
    finally:
        signal.signal(signal.SIGINT, interrupt)
    assert any("wrong.forkpoint" in sentence for sentence in seen)
