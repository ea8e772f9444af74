"""The window on real files and real runs; only the tokens come from the scripted engine."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app import paths
from app.engine.base import Engine
from app.engine.scripted import Mishap, ScriptedEngine, steps_of
from app.session import RunRequest, Session, runs
from app.settings import Settings
from app.trajectory.step import IdArray, Step
from app.trajectory.trajectory import Status
from app.views.theme import DARK
from app.views.verbs import Verbs
from app.views.window import MainWindow
from app.views.workbench import Workbench

RunAndWait = Callable[..., MainWindow]


def forking(prompt: IdArray, cached: int) -> list[Step]:
    """Another last word on the cached path, from the second request of an episode on."""
    return steps_of("Yes, it is short." if cached > len(prompt) // 2 else "Yes, it is long.", [1.0] * 11 + [0.02])


@pytest.fixture
def window(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MainWindow:
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path)
    made = MainWindow(Verbs(), Settings(), DARK)
    qtbot.addWidget(made, before_close_func=lambda widget: widget.control.close())
    made.resize(1280, 800)
    made.show()
    return made


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[ScriptedEngine], None]:
    def use(engine: ScriptedEngine) -> None:
        def opened(*_args: object, **_options: object) -> Engine:
            return engine

        monkeypatch.setattr(runs, "open_engine", opened)

    return use


def start(window: MainWindow, file: Path, episodes: str = "0-2", until_fork: bool = False) -> Workbench:
    window.runs.start(RunRequest(episodes=episodes, repeat=1, until_fork=until_fork, out=file))
    return window.bench()


def test_a_real_run_fills_the_table_and_stands_on_its_fork(
    window: MainWindow, play: Callable[[ScriptedEngine], None], qtbot: QtBot, tmp_path: Path
) -> None:
    play(ScriptedEngine(forking))
    bench = start(window, tmp_path / "a.forkpoint", until_fork=True)
    qtbot.waitUntil(lambda: not window.control.running, timeout=30_000)
    assert bench.session is not None
    assert bench.view.pair is not None
    fork = bench.view.pair.comparison.fork
    assert fork is not None
    assert bench.view.place == (fork.request, fork.step)
    assert bench.session.path == tmp_path / "a.forkpoint"
    assert not bench.session.read_only, "the run has let go of its file"
    assert bench.table.current_row() is not None


def test_a_run_served_twice_shows_its_two_runs_by_name(
    window: MainWindow, play: Callable[[ScriptedEngine], None], qtbot: QtBot, tmp_path: Path
) -> None:
    play(ScriptedEngine(forking))
    window.runs.start(RunRequest(episodes="0-1", kind="repeat", repeat=2, out=tmp_path / "r.forkpoint"))
    bench = window.bench()
    headlines = set()
    window.control.pairs_changed.connect(lambda _keys: headlines.add(bench.view.verdict.text().splitlines()[0]))
    qtbot.waitUntil(lambda: not window.control.running, timeout=30_000)
    assert any("on the second run" in line or "the second run goes on" in line for line in headlines)
    view = bench.view
    assert view.pair is not None
    assert view.pair.comparison.is_run_to_run
    assert [header.title.text() for header in view.panes.headers.values()] == ["◆  Second run", "●  First run"]
    assert "Served again by the same server" in view.verdict.text()
    sides = [layout_side.requests for layout_side in view.panes._layout.sides.values() if layout_side is not None]
    assert len(sides) == 2, "both runs stand side by side"


def test_an_engine_that_dies_leaves_what_was_recorded_and_can_be_gone_on_with(
    window: MainWindow, play: Callable[[ScriptedEngine], None], qtbot: QtBot, tmp_path: Path
) -> None:
    play(ScriptedEngine(forking, mishaps=[Mishap(14, 3, "die")]))
    bench = start(window, tmp_path / "b.forkpoint")
    qtbot.waitUntil(lambda: not window.control.running, timeout=30_000)
    assert window.banner.isVisible()
    assert window.banner.sentence.text().endswith(".")
    assert status_of(bench) is Status.FAILED
    rows = bench.table.model.rows
    assert [row.diverged is not None for row in rows] == [True, False, False]
    play(ScriptedEngine(forking))
    assert window.actions_by_name["resume"].isEnabled()
    window.actions_by_name["resume"].trigger()
    qtbot.waitUntil(lambda: not window.control.running, timeout=30_000)
    assert all(row.diverged is not None for row in bench.table.model.rows)
    assert status_of(bench) is Status.DONE


def status_of(bench: Workbench) -> Status:
    assert bench.experiment is not None
    return bench.experiment.status


def test_stop_ends_a_hanging_answer_within_a_second_and_keeps_it(
    window: MainWindow, play: Callable[[ScriptedEngine], None], qtbot: QtBot, tmp_path: Path
) -> None:
    play(ScriptedEngine(forking, mishaps=[Mishap(1, 4, "hang")]))
    bench = start(window, tmp_path / "c.forkpoint")
    qtbot.waitUntil(lambda: window.control.live.steps_taken >= 17, timeout=10_000)
    asked = time.monotonic()
    window.actions_by_name["stop"].trigger()
    qtbot.waitUntil(lambda: not window.control.running)
    assert time.monotonic() - asked < 1.0
    assert bench.session is not None
    assert bench.experiment is not None
    assert bench.experiment.status is Status.STOPPED
    assert "Stopped" in window.said_words.text()


def test_closing_the_window_ends_the_run_and_gives_the_file_back(
    window: MainWindow,
    play: Callable[[ScriptedEngine], None],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "d.forkpoint"
    play(ScriptedEngine(forking, mishaps=[Mishap(1, 4, "hang")]))
    start(window, file)
    qtbot.waitUntil(lambda: window.control.live.steps_taken >= 17, timeout=10_000)
    monkeypatch.setattr(MainWindow, "_may_stop", lambda _self: True)
    assert window.close()
    opened = Session.open(file)
    try:
        assert not opened.read_only
        assert opened.experiments()[0].status is Status.STOPPED
    finally:
        opened.close()
    assert not file.with_name(f"{file.name}-wal").exists()


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100, b"SQLite format 3\0" + b"\1" * 500])
def test_a_file_of_another_kind_gets_a_sentence(window: MainWindow, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "wrong.forkpoint"
    file.write_bytes(content)
    window.open_file(file)
    assert window.banner.isVisible()
    assert "wrong.forkpoint" in window.banner.sentence.text()
    assert window.banner.hint.text()
    assert window.stack.currentWidget() is window.start_page


def test_a_file_that_is_not_there_gets_a_sentence(window: MainWindow, tmp_path: Path) -> None:
    window.open_file(tmp_path / "gone.forkpoint")
    assert "gone.forkpoint" in window.banner.sentence.text()


def test_another_program_s_database_gets_a_sentence(window: MainWindow, tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.commit()
    connection.close()
    window.open_file(file)
    assert window.banner.isVisible()
    assert "other.db" in window.banner.sentence.text()


def test_a_second_window_on_a_file_that_is_being_written_reads_only(
    window: MainWindow, play: Callable[[ScriptedEngine], None], qtbot: QtBot, tmp_path: Path
) -> None:
    file = tmp_path / "e.forkpoint"
    play(ScriptedEngine(forking, mishaps=[Mishap(3, 4, "hang")]))
    start(window, file)
    qtbot.waitUntil(lambda: window.control.live.steps_taken >= 50, timeout=10_000)
    second = MainWindow(Verbs(), Settings(), DARK)
    qtbot.addWidget(second)
    second.show()
    second.open_file(file)
    assert second.banner.isVisible()
    assert second.banner.hint.text()
    assert second.bench().session is not None
    window.control.stop()
    qtbot.waitUntil(lambda: not window.control.running)
    second.close()
