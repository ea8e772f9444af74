from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app import paths
from app.session import EmbeddedSettings, Sampling
from app.settings import Settings
from app.views.preferences import Preferences
from app.views.run_dialog import RunDialog
from tests.views.fakes import FakeProduct


@pytest.fixture
def dialog(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunDialog:
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path)
    made = RunDialog(FakeProduct({}).verbs(), Settings(threads=2))
    qtbot.addWidget(made)
    qtbot.waitUntil(lambda: not made.picker.model.is_reading)
    return made


def test_the_dialog_makes_the_request_that_it_shows(dialog: RunDialog, tmp_path: Path) -> None:
    dialog.episodes.selection.setText("0-11")
    dialog.repeat.setValue(3)
    dialog.repeat_first.setValue(4)
    dialog.rivals.setValue(7)
    dialog.history.setCurrentIndex(1)
    dialog.sampling.kind.setCurrentIndex(1)
    dialog.sampling.temperature.setValue(0.5)
    dialog.picker.embedded.n_ubatch.setValue(64)
    dialog.picker.embedded.flash_attention.setChecked(True)
    dialog.out.setText(str(tmp_path / "mine.forkpoint"))
    dialog.accept()
    made = dialog.request
    assert made is not None
    assert (made.episodes, made.repeat, made.repeat_first, made.rivals) == ("0-11", 3, 4, 7)
    assert (made.history, made.model, made.out) == ("chat", None, tmp_path / "mine.forkpoint")
    assert made.sampling == Sampling(0.5)
    assert made.settings == EmbeddedSettings(n_ubatch=64, flash_attention=True, threads=2)


def test_it_says_what_the_model_file_holds(dialog: RunDialog) -> None:
    text = dialog.picker.model.said.text()
    assert "98.0 MB" in text
    assert "210 × Q4_1" in text
    assert "chat template: yes" in text
    assert "(default)" in dialog.picker.model.choice.currentText()


def test_a_bad_model_gets_a_sentence_and_cannot_be_run(dialog: RunDialog, qtbot: QtBot) -> None:
    dialog.picker.model.choose(Path("short.gguf"))
    qtbot.waitUntil(lambda: not dialog.picker.model.is_reading)
    assert dialog.picker.model.said.text() == "short.gguf is cut short. Download it again."
    assert not dialog.go.isEnabled()
    dialog.accept()
    assert dialog.request is None


def test_a_good_model_is_remembered(dialog: RunDialog, qtbot: QtBot) -> None:
    dialog.picker.model.choose(Path("good.gguf"))
    qtbot.waitUntil(lambda: not dialog.picker.model.is_reading)
    dialog.accept()
    assert dialog.request is not None
    assert dialog.request.model == Path("good.gguf")


def test_an_unknown_episode_gets_a_sentence(dialog: RunDialog) -> None:
    dialog.episodes.selection.setText("nowhere-99")
    assert "There is no episode nowhere-99." in dialog.episodes.said.text()
    assert not dialog.go.isEnabled()


def test_families_select_their_episodes(dialog: RunDialog) -> None:
    for name, box in dialog.episodes.families.items():
        if name not in ("calendar", "notes") and box.isChecked():
            box.click()
    chosen = dialog.episodes.selection.text().split(",")
    assert {name.split("-")[0] for name in chosen} == {"calendar", "notes"}
    assert len(chosen) == 20


def test_an_estimate_is_given_and_grows_with_the_repeats(dialog: RunDialog) -> None:
    dialog.repeat.setValue(1)
    once = dialog.said.text()
    dialog.repeat.setValue(5)
    assert once.startswith("Roughly")
    assert dialog.said.text() != once


@pytest.mark.parametrize(
    ("field", "value", "said"), [("n_ubatch", 4096, "n_ubatch is larger"), ("n_ctx", 256, "n_batch is larger")]
)
def test_settings_that_llama_cpp_would_refuse_are_said(dialog: RunDialog, field: str, value: int, said: str) -> None:
    getattr(dialog.picker.embedded, field).setValue(value)
    assert said in dialog.said.text()
    assert not dialog.go.isEnabled()


def test_a_pasted_conversation_is_kept_only_where_it_is_run(dialog: RunDialog, tmp_path: Path) -> None:
    dialog.episodes.source.setCurrentIndex(1)
    assert not dialog.go.isEnabled()
    dialog.episodes.pasted.setPlainText('[{"role": "user", "content": "Hello"}]')
    assert dialog.episodes.is_import
    kept = dialog.episodes.import_file()
    assert kept is not None
    assert kept.parent == tmp_path
    assert "Hello" in kept.read_text(encoding="utf-8")
    dialog.reject()
    assert not kept.exists()


def test_preferences_change_the_settings_only_when_accepted(qtbot: QtBot) -> None:
    settings = Settings()
    dialog = Preferences(settings)
    qtbot.addWidget(dialog)
    dialog.theme.setCurrentIndex(2)
    dialog.near_tie.setValue(0.25)
    dialog.threads.setValue(3)
    dialog.reject()
    assert settings == Settings()
    dialog.accept()
    assert (settings.theme, settings.near_tie, settings.threads) == ("dark", 0.25, 3)
    settings.check()


def test_the_engine_settings_get_room_when_they_are_unfolded(dialog: RunDialog, qtbot: QtBot) -> None:
    dialog.show()
    before = dialog.height()
    dialog.picker.advanced.click()
    qtbot.waitUntil(
        lambda: dialog.picker.embedded.visibleRegion().boundingRect().height() >= dialog.picker.embedded.height() - 1
    )
    assert dialog.height() > before
