"""Marks in the window: stars, notes, and what takes them away and brings them back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from shutil import copy

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app import paths
from app.errors import StoreError
from app.session import Session, mark, marks_of, why_no_marks
from app.session.bundle_contents import ExportRequest
from app.session.exporting import prepare, write
from app.views.pair_model import EPISODE
from app.views.window import MainWindow
from tests.views.made_windows import FILE, MakeWindow, bench_of, trigger


def stars(window: MainWindow) -> list[str]:
    table = bench_of(window).table
    texts = [table.shown.index(row, EPISODE).data() for row in range(table.shown.rowCount())]
    return [text.removesuffix(" ★") for text in texts if text.endswith("★")]


def test_m_marks_the_shown_pair_and_takes_the_mark_away(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, product = make_window()
    window.open_file(FILE)
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    bench_of(window).table.view.setFocus()
    assert stars(window) == []
    QTest.keyClick(bench_of(window).table.view, Qt.Key.Key_M)
    assert stars(window) == ["units-01"] == list(product.marks)
    assert window.actions_by_name["mark"].isChecked()
    trigger(window, "next_forked")
    assert not window.actions_by_name["mark"].isChecked()
    trigger(window, "mark")
    assert stars(window) == ["units-01", "calendar-02"]
    trigger(window, "mark")
    assert stars(window) == ["units-01"]


def test_a_mark_comes_back_with_its_note(make_window: MakeWindow) -> None:
    window, product = make_window()
    window.open_file(FILE)
    assert not window.actions_by_name["undo_unmark"].isEnabled()
    product.marks["units-01"] = "since Monday"
    bench_of(window).show_experiment(1)
    trigger(window, "mark")
    assert product.marks == {}
    assert "Ctrl+Z" in window.said_words.text()
    trigger(window, "next_forked")
    trigger(window, "undo_unmark")
    assert product.marks == {"units-01": "since Monday"}
    assert not window.actions_by_name["undo_unmark"].isEnabled()


def test_a_note_is_kept_when_another_pair_is_shown(make_window: MakeWindow) -> None:
    window, product = make_window()
    window.open_file(FILE)
    note = bench_of(window).table.note
    assert not note.isVisible()
    trigger(window, "edit_note")
    assert note.isVisible()
    QTest.keyClicks(note.line, "my forks")  # the m is text here, no shortcut
    trigger(window, "next_forked")
    assert product.marks == {"units-01": "my forks"}
    assert not note.isVisible()
    trigger(window, "previous_forked")
    assert note.line.text() == "my forks"


def test_the_filter_knows_marked_pairs(make_window: MakeWindow) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    trigger(window, "mark")
    table = bench_of(window).table
    table.filter.setText("marked")
    assert [row.episode_id for row in table.shown.shown_rows()] == ["units-01"]
    table.filter.setText("-marked")
    assert "units-01" not in [row.episode_id for row in table.shown.shown_rows()]
    assert not table.filter.property("problem")


def test_a_file_that_takes_no_marks_says_why(make_window: MakeWindow) -> None:
    window, product = make_window()
    product.why_no_marks = "It is read-only."
    window.open_file(FILE)
    assert not window.actions_by_name["mark"].isEnabled()
    assert window.actions_by_name["mark"].toolTip() == "It is read-only."


def test_a_mark_that_cannot_be_kept_is_said_and_not_shown(make_window: MakeWindow) -> None:
    window, product = make_window()
    window.open_file(FILE)
    product.why_no_marks = "The disk is full."
    trigger(window, "mark")
    assert window.banner.sentence.text().endswith("The disk is full.")
    assert stars(window) == []


def test_the_sample_and_bundles_are_not_marked(tmp_path: Path, qtbot: QtBot) -> None:
    with closing(Session.open(paths.sample_file())) as sample:
        assert why_no_marks(sample) == "The sample stays as it was recorded."
        with pytest.raises(StoreError, match="stays as it was recorded"):
            mark(sample, 1, "calendar-02")
    file = Path(copy(paths.sample_file(), tmp_path / "a.forkpoint"))
    with closing(Session.open(file)) as session:
        experiment = session.experiment()
        assert why_no_marks(session) == ""
        mark(session, experiment.id, "calendar-02", "look at this")
        assert marks_of(session, experiment.id) == {"calendar-02": "look at this"}
        request = ExportRequest(("calendar-02", "stock-05"), notes=marks_of(session, experiment.id))
        prepared = prepare(session, request)
        qtbot.waitUntil(lambda: not prepared.is_running, timeout=30_000)
        assert prepared.made is not None
        written = write(prepared.made, tmp_path / "b.zip")
        qtbot.waitUntil(lambda: not written.is_running, timeout=30_000)
    with closing(Session.open(tmp_path / "b.zip")) as bundle:
        assert marks_of(bundle, bundle.experiment().id) == {"calendar-02": "look at this"}
        assert why_no_marks(bundle) == "A bundle stays as it was written."
