"""From a recorded fork to a bundle, to a replay and a smaller pair: the window and the whole product on the scripted
engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.engine.scripted import ScriptedEngine
from app.session import RunRequest
from app.settings import Settings
from app.views.theme import LIGHT
from app.views.verbs import Verbs
from app.views.window import MainWindow
from tests.unit.experiment.test_runner import Run
from tests.unit.experiment.test_shrink import model
from tests.views.made_windows import bench_of, trigger, view_of

WAIT_MS = 60_000
Open = Callable[[Path], MainWindow]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two recorded episodes; both fork in their second request."""
    path = tmp_path / "run.forkpoint"
    Run(path, ScriptedEngine(model), RunRequest(episodes="0-1", repeat=1))
    return path


@pytest.fixture
def open_window(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setattr("app.session.replay.open_engine", lambda *_, **__: ScriptedEngine(model))
    monkeypatch.setattr("app.session.shrinking.opener", lambda *_: lambda: ScriptedEngine(model))

    def open_on(path: Path) -> MainWindow:
        window = MainWindow(Verbs(), Settings(), LIGHT)
        qtbot.addWidget(window, before_close_func=lambda widget: widget.close())
        window.resize(1280, 800)
        window.show()
        window.open_file(path)
        return window

    return open_on


def exported(window: MainWindow, qtbot: QtBot, target: Path) -> Path:
    trigger(window, "export")
    dialog = window.bundles.export_dialog
    assert dialog is not None
    qtbot.waitUntil(lambda: not dialog.works, timeout=WAIT_MS)
    dialog.write(target)
    qtbot.waitUntil(lambda: not dialog.works, timeout=WAIT_MS)
    dialog.reject()
    return target


def replay(window: MainWindow, qtbot: QtBot) -> str:
    trigger(window, "replay_here")
    qtbot.waitUntil(lambda: not window.control.running, timeout=WAIT_MS)
    dialog = window.bundles.replay_dialog
    assert dialog is not None
    assert dialog.table.rowCount() > 0
    return dialog.headline.text()


def test_a_bundle_that_was_sent_is_reproduced_by_the_same_engine(
    file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    window = open_window(exported(open_window(file), qtbot, tmp_path / "sent.zip"))
    assert window.banner.sentence.text().endswith("whole. Checksums and its own comparison agree.")
    assert replay(window, qtbot) == "Reproduced"


def test_another_engine_says_that_it_does_not_fork(
    file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = exported(open_window(file), qtbot, tmp_path / "sent.zip")
    monkeypatch.setattr(
        "app.session.replay.open_engine", lambda *_, **__: ScriptedEngine(lambda prompt, _cached: model(prompt, 0))
    )
    assert replay(open_window(target), qtbot) == "Does not fork"


def test_a_redacted_bundle_cannot_be_compared(file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path) -> None:
    window = open_window(file)
    trigger(window, "export")
    dialog = window.bundles.export_dialog
    assert dialog is not None
    dialog.fields.redactions["light"].setChecked(True)
    qtbot.waitUntil(lambda: not dialog.works, timeout=WAIT_MS)
    dialog.write(tmp_path / "sent.zip")
    qtbot.waitUntil(lambda: not dialog.works, timeout=WAIT_MS)
    received = open_window(tmp_path / "sent.zip")
    trigger(received, "replay_here")
    qtbot.waitUntil(lambda: not received.control.running, timeout=WAIT_MS)
    found = received.bundles.replay_dialog
    assert found is not None
    assert found.headline.text() == "Cannot be compared"
    assert "redacted" in found.because.text()


def test_a_search_ends_on_the_smaller_pair_which_can_be_exported(
    file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    window = open_window(file)
    bench = bench_of(window)
    before = view_of(window).pair
    assert before is not None
    window.bundles.shrink(600.0)
    qtbot.waitUntil(lambda: not window.control.running, timeout=WAIT_MS)
    assert bench.experiment is not None
    assert bench.experiment.plan["kind"] == "shrink"
    after = view_of(window).pair
    assert after is not None
    fork = after.comparison.fork
    assert fork is not None
    assert len(after.cached.requests[fork.request].prompt.ids) < len(before.cached.requests[1].prompt.ids)
    assert "1-minimal" in window.banner.hint.text()
    rows = bench.session.rows(1) if bench.session is not None else []
    assert [row.request for row in rows] == [1, 1]  # those of the run are as they were
    assert exported(window, qtbot, tmp_path / "small.zip").exists()
    assert replay(open_window(tmp_path / "small.zip"), qtbot) == "Reproduced"
