"""Bundles in the window: exported from a real file, opened and shrunk. No engine runs here."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copy

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app import paths
from app.bundle.format import BundleContents
from app.session import ScriptRunner
from app.settings import Settings
from app.store.recorder import Recorder
from app.trajectory.events import RunEnded, Shrunk
from app.views.export_dialog import CHECK, GO, ExportDialog
from app.views.shrink_dialog import ShrinkDialog
from app.views.theme import LIGHT
from app.views.verbs import Verbs
from app.views.window import MainWindow
from tests.views.made_windows import FILE, MakeWindow, bench_of, trigger, view_of

WAIT_MS = 30_000
Open = Callable[[Path], MainWindow]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Path(copy(paths.sample_file(), tmp_path / "a.forkpoint"))


@pytest.fixture
def open_window(qtbot: QtBot) -> Open:
    """Windows of the real product."""

    def open_on(path: Path) -> MainWindow:
        window = MainWindow(Verbs(), Settings(), LIGHT)
        qtbot.addWidget(window, before_close_func=lambda widget: widget.control.close())
        window.resize(1280, 800)
        window.show()
        window.open_file(path)
        return window

    return open_on


def export_of(window: MainWindow, qtbot: QtBot) -> ExportDialog:
    trigger(window, "export")
    dialog = window.bundles.export_dialog
    assert dialog is not None
    settle(dialog, qtbot)
    return dialog


def settle(dialog: ExportDialog, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: not dialog.works, timeout=WAIT_MS)


def shown_files(dialog: ExportDialog) -> dict[str, str]:
    table = dialog.preview.files
    shown = {}
    for row in range(table.rowCount()):
        table.setCurrentCell(row, 0)
        item = table.item(row, 0)
        assert item is not None
        shown[item.text()] = dialog.preview.content.toPlainText()
    return shown


def bundle_of(window: MainWindow, qtbot: QtBot, target: Path, redaction: str = "none") -> Path:
    dialog = export_of(window, qtbot)
    for key, button in dialog.fields.redactions.items():
        button.setChecked(key == redaction)
    settle(dialog, qtbot)
    dialog.write(target)
    settle(dialog, qtbot)
    dialog.reject()
    return target


def test_what_is_written_is_what_was_shown(file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path) -> None:
    window = open_window(file)
    dialog = export_of(window, qtbot)
    assert dialog.said.text() == "Nothing has been written yet."
    assert sorted(tmp_path.glob("*.zip*")) == []
    shown = shown_files(dialog)
    target = tmp_path / "b.zip"
    dialog.write(target)
    settle(dialog, qtbot)
    with zipfile.ZipFile(target) as bundle:
        assert {name: bundle.read(name).decode() for name in bundle.namelist()} == shown
    assert dialog.said.text().startswith("b.zip is written")
    assert dialog.show_folder.isVisible()


def test_marked_pairs_are_exported_with_their_notes_and_else_the_shown_one(
    file: Path, open_window: Open, qtbot: QtBot
) -> None:
    window = open_window(file)
    dialog = export_of(window, qtbot)
    assert dialog.fields.request().episodes == ("calendar-02",)
    dialog.reject()
    trigger(window, "next_forked")
    trigger(window, "edit_note")
    QTest.keyClicks(bench_of(window).table.note.line, "look here")
    dialog = export_of(window, qtbot)
    assert dialog.fields.request().episodes == ("stock-05",)
    assert dialog.fields.note.text() == "look here"
    assert dialog.made is not None
    assert dialog.made.contents.pairs[0].note == "look here"


def test_what_the_app_cannot_know_is_asked_and_what_it_knows_is_filled_in(
    file: Path, open_window: Open, qtbot: QtBot
) -> None:
    dialog = export_of(open_window(file), qtbot)
    assert dialog.fields.answers["gpu"].text() == "none, this build computes on the CPU"
    dialog.fields.answers["launch"].setText("llama-server -c 4096")
    assert not dialog.go.isEnabled()  # what was shown does not hold any more, so it cannot be written
    settle(dialog, qtbot)
    assert dialog.go.isEnabled()
    assert dialog.made is not None
    assert dialog.made.contents.answers["launch"] == "llama-server -c 4096"
    assert dialog.made.contents.form == "llama.cpp"


def test_what_looks_private_is_listed_and_leads_to_its_place(file: Path, open_window: Open, qtbot: QtBot) -> None:
    dialog = export_of(open_window(file), qtbot)
    assert not dialog.preview.warnings.isVisible()
    dialog.fields.note.setText("ask jo@example.org")
    settle(dialog, qtbot)
    assert dialog.preview.warnings.isVisible()
    dialog.preview.warnings.setCurrentRow(0)
    assert dialog.preview.content.toPlainText() == "ask jo@example.org"
    assert dialog.preview.content.textCursor().selectedText() == "jo@example.org"


def test_a_redaction_says_what_the_bundle_can_no_longer_do(file: Path, open_window: Open, qtbot: QtBot) -> None:
    dialog = export_of(open_window(file), qtbot)
    assert dialog.go.text() == CHECK
    dialog.fields.redactions["light"].setChecked(True)
    settle(dialog, qtbot)
    assert "from a glance only" in dialog.fields.redaction_words.text()
    assert "cannot be replayed" in dialog.fields.redaction_words.text()
    assert dialog.go.text() == GO
    assert not any("repro" in name for name in shown_files(dialog))


def test_the_issue_text_has_facts_and_empty_fields(file: Path, open_window: Open, qtbot: QtBot) -> None:
    dialog = export_of(open_window(file), qtbot)
    dialog.copy_issue.click()
    copied = QGuiApplication.clipboard().text()
    assert "SmolLM2-135M-Instruct.Q4_1.gguf" in copied
    assert "write this yourself" in copied


def test_the_shown_pair_s_issue_text_is_copied_without_an_export(file: Path, open_window: Open, qtbot: QtBot) -> None:
    window = open_window(file)
    QGuiApplication.clipboard().clear()
    trigger(window, "copy_issue")
    qtbot.waitUntil(lambda: "### Name and Version" in QGuiApplication.clipboard().text(), timeout=WAIT_MS)
    assert window.said_words.text().startswith("Copied the issue text.")


def test_scripts_are_run_before_the_bundle_is_shown_again(
    file: Path, open_window: Open, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(
        _self: object, _contents: BundleContents, scripts: Mapping[str, str], tell: Callable[[str], None], _: object
    ) -> Mapping[str, str]:
        tell("Running one of them…")
        return {name: f"as recorded\nexit code {int(name.endswith('.sh'))}" for name in scripts}

    monkeypatch.setattr(ScriptRunner, "__call__", run)
    dialog = export_of(open_window(file), qtbot)
    dialog.go.click()
    assert dialog.stop.isVisible()
    settle(dialog, qtbot)
    assert dialog.said.text().startswith("2 of 3 scripts that were run show the fork.")
    assert dialog.go.text() == GO
    assert "as recorded" in shown_files(dialog)["manifest.json"]


def test_stopping_the_scripts_leaves_nothing_behind(
    file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def run(
        _self: object, _contents: object, _scripts: object, _tell: object, stop: threading.Event
    ) -> Mapping[str, str]:
        begun.set()
        assert stop.wait(10)
        return {}

    monkeypatch.setattr(ScriptRunner, "__call__", run)
    dialog = export_of(open_window(file), qtbot)
    before = sorted(tmp_path.iterdir())
    dialog.go.click()
    qtbot.waitUntil(begun.is_set)
    assert dialog.stop.isVisible()
    dialog.stop.click()
    settle(dialog, qtbot)
    assert dialog.said.text() == "Stopped; nothing was written."
    assert sorted(tmp_path.iterdir()) == before
    assert dialog.go.isEnabled()


def test_a_bundle_that_cannot_be_written_is_said(file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path) -> None:
    dialog = export_of(open_window(file), qtbot)
    dialog.write(tmp_path / "nowhere" / "b.zip")
    settle(dialog, qtbot)
    assert "b.zip cannot be written" in dialog.said.text()
    assert not dialog.show_folder.isVisible()


def test_pairs_are_exported_while_a_run_writes_the_file(
    file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    recorder = Recorder(file)
    try:
        recorder.add_experiment("running", {"kind": "pair", "episode_ids": []}, {})
        window = open_window(file)
        bench_of(window).show_experiment(1)
        assert bundle_of(window, qtbot, tmp_path / "b.zip").stat().st_size > 10_000
    finally:
        recorder.close()


def test_a_dropped_bundle_opens_read_only_and_says_that_it_is_whole(
    file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    target = bundle_of(open_window(file), qtbot, tmp_path / "b.zip")
    window = MainWindow(Verbs(), Settings(), LIGHT)
    qtbot.addWidget(window)
    window.show()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(target))])
    window.dropEvent(
        QDropEvent(
            QPointF(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        )
    )
    assert window.banner.sentence.text().endswith("whole. Checksums and its own comparison agree.")
    assert window.banner.offer.text() == "Replay here"
    assert view_of(window).pair is not None
    assert window.settings.recent == [str(target)]
    for name in ("export", "mark", "run_again", "shrink"):
        assert not window.actions_by_name[name].isEnabled()
    assert window.actions_by_name["replay_here"].isEnabled()


def test_an_altered_bundle_says_which_part_and_offers_no_replay(
    file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    target = bundle_of(open_window(file), qtbot, tmp_path / "b.zip")
    with zipfile.ZipFile(target) as bundle:
        place = bundle.getinfo("report.html")
    data = bytearray(target.read_bytes())
    data[place.header_offset + 200] ^= 1
    target.write_bytes(data)
    window = open_window(target)
    assert "ALTERED: report.html" in window.banner.sentence.text()
    assert not window.banner.offer.isVisible()
    assert view_of(window).pair is not None


def test_a_redacted_bundle_opens_and_says_what_it_cannot_do(
    file: Path, open_window: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    window = open_window(bundle_of(open_window(file), qtbot, tmp_path / "b.zip", "strict"))
    assert "whole" in window.banner.sentence.text()
    assert "It cannot be replayed." in window.banner.hint.text()
    assert not window.banner.offer.isVisible()
    assert view_of(window).pair is not None


def test_a_file_that_is_no_bundle_after_all_gets_a_sentence(open_window: Open, tmp_path: Path) -> None:
    broken = tmp_path / "b.zip"
    broken.write_bytes(b"PK\3\4 and then nothing")
    window = open_window(broken)
    assert "b.zip cannot be opened." in window.banner.sentence.text()
    assert window.stack.currentWidget() is window.start_page


def test_a_window_that_closes_ends_its_export(
    file: Path, open_window: Open, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def run(
        _self: object, _contents: object, _scripts: object, _tell: object, stop: threading.Event
    ) -> Mapping[str, str]:
        begun.set()
        if stop.wait(10):
            stopped.set()
        return {}

    monkeypatch.setattr(ScriptRunner, "__call__", run)
    window = open_window(file)
    export_of(window, qtbot).go.click()
    qtbot.waitUntil(begun.is_set)
    window.close()
    assert stopped.wait(5)


def test_a_search_shows_its_progress_and_then_the_pair_it_found(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, product = make_window()
    window.open_file(FILE)
    trigger(window, "shrink")
    (asked,) = window.findChildren(ShrinkDialog)
    assert product.searches == []
    asked.minutes.setValue(2)
    asked.accept()
    assert product.searches == [("units-01", 120.0)]
    run = product.runs[-1]
    run.inbox.append(Shrunk(7, 4, 2, 900, 300, "7 tries, 900 → 300 tokens: trying fewer messages"))
    qtbot.waitUntil(lambda: "900 → 300 tokens" in window.run_bar.words.text())
    session = product.sessions[-1]
    found = replace(session.experiment_infos[0], id=1, title="shrink · units-01", plan={"kind": "shrink"})
    session.experiment_infos = [found]
    product.sessions[-1].experiment_infos = [found]
    trigger(window, "stop")
    assert run.stops == 1
    run.inbox.append(RunEnded(1, "stopped", "units-01"))
    qtbot.waitUntil(lambda: not window.control.running)
    assert "300 of 900 tokens" in window.banner.sentence.text()
    assert view_of(window).pair is not None
