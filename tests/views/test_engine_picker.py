from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication, QStandardItemModel
from pytestqt.qtbot import QtBot

from app import paths
from app.session import Capabilities, EmbeddedSettings, EngineInfo, ManagedSettings, ServerSettings
from app.settings import Settings
from app.views.run_dialog import RunDialog
from tests.views.fakes import FakeProduct

ADDRESS = "http://127.0.0.1:8080"


def info(**capabilities: bool | None) -> EngineInfo:
    can = Capabilities(**capabilities)
    return EngineInfo("llama-server", {"build_info": "b1"}, {"name": "made-up.gguf"}, {}, can, frozenset(), 4096)


@pytest.fixture
def product() -> FakeProduct:
    return FakeProduct({})


@pytest.fixture
def dialog(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, product: FakeProduct) -> RunDialog:
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path)
    made = RunDialog(product.verbs(), Settings(threads=2))
    qtbot.addWidget(made, before_close_func=lambda widget: widget.picker.close_down())
    qtbot.waitUntil(lambda: not made.picker.model.is_reading)
    made.show()
    return made


def connected(dialog: RunDialog, product: FakeProduct, qtbot: QtBot, told: EngineInfo) -> None:
    product.told = told
    dialog.picker.choose("server")
    dialog.picker.server.address.setText(ADDRESS)
    dialog.picker.server.test.click()
    product.tests[-1].is_running = False
    qtbot.waitUntil(lambda: dialog.picker.info is told)


def test_a_managed_server_is_run_with_the_flags_of_the_form(
    dialog: RunDialog, product: FakeProduct, qtbot: QtBot
) -> None:
    dialog.picker.choose("managed")
    managed = dialog.picker.managed
    qtbot.waitUntil(lambda: managed.problem == "")
    managed.parallel.setValue(2)
    managed.ctx_checkpoints.setValue(0)
    managed.type_v.setCurrentText("q8_0")
    assert "needs flash attention" in dialog.said.text()
    managed.flash_attention.setChecked(True)
    managed.arguments.setText("--seed 3 --jinja")
    dialog.kind.setCurrentIndex(1)
    dialog.accept()
    assert dialog.request is not None
    assert (dialog.request.engine, dialog.request.kind, dialog.request.model) == ("managed", "repeat", None)
    assert dialog.request.managed == ManagedSettings(
        binary=product.server, threads=2, parallel=2, ctx_checkpoints=0, cache_type_v="q8_0", flash_attention=True,
        arguments=("--seed", "3", "--jinja"),
    )  # fmt: skip


def test_one_click_turns_the_server_level_cache_off_and_the_command_shows_it(dialog: RunDialog, qtbot: QtBot) -> None:
    dialog.picker.choose("managed")
    managed = dialog.picker.managed
    qtbot.waitUntil(lambda: managed.command.toPlainText() != "")
    default, off = managed.presets
    assert managed.command.toPlainText().endswith("--cache-ram None")
    off.click()
    assert managed.value().cache_ram == 0
    managed.copy.click()
    assert QGuiApplication.clipboard().text().endswith("--cache-ram 0")
    default.click()
    assert managed.value().cache_ram is None


def test_without_a_llama_server_the_dialog_says_what_to_do(dialog: RunDialog, qtbot: QtBot) -> None:
    dialog.picker.choose("managed")
    dialog.picker.managed.binary.line.setText("/nowhere/llama-server")
    qtbot.waitUntil(lambda: "No llama-server was found." in dialog.said.text())
    assert not dialog.go.isEnabled()
    dialog.picker.managed.binary.line.clear()
    qtbot.waitUntil(lambda: dialog.go.isEnabled())


@pytest.mark.parametrize("argument", ["--api-key secret", "--port 1", '"unclosed'])
def test_arguments_that_the_server_may_not_be_given_are_said(dialog: RunDialog, qtbot: QtBot, argument: str) -> None:
    dialog.picker.choose("managed")
    qtbot.waitUntil(lambda: dialog.picker.managed.problem == "")
    dialog.picker.managed.arguments.setText(argument)
    assert "argument" in dialog.said.text() or "further flag" in dialog.said.text()
    assert not dialog.go.isEnabled()


def test_a_server_elsewhere_is_run_as_it_is_reached(dialog: RunDialog, tmp_path: Path) -> None:
    dialog.picker.choose("server")
    assert dialog.said.text() == "Give the address of the server."
    fields = dialog.picker.server
    fields.address.setText("gpu:8000/base")
    fields.key_file.line.setText(str(tmp_path / "key"))
    fields.model.setText("served")
    fields.allow_reset.setChecked(True)
    dialog.accept()
    assert dialog.request is not None
    assert (dialog.request.engine, dialog.request.model) == ("http://gpu:8000/base", None)
    assert dialog.request.server == ServerSettings(key_file=tmp_path / "key", model="served", allow_reset=True)
    assert dialog.request.settings == EmbeddedSettings()


@pytest.mark.parametrize(
    ("address", "said"), [("http://", "This is no address"), ("http://me:secret@host", "Leave name and password out")]
)
def test_an_address_that_cannot_be_used_is_said_and_not_tested(dialog: RunDialog, address: str, said: str) -> None:
    dialog.picker.choose("server")
    dialog.picker.server.address.setText(address)
    assert said in dialog.said.text()
    assert not dialog.picker.server.test.isEnabled()


def test_a_tested_server_shows_what_it_can_do_by_shape_and_word(
    dialog: RunDialog, product: FakeProduct, qtbot: QtBot
) -> None:
    connected(dialog, product, qtbot, info(token_ids=True, reset=False))
    card = dialog.picker.server.card
    assert "llama-server, build b1" in card.about.text()
    shown = {name: (label.text()[0], label.accessibleName().split(": ")[1]) for name, label in card.answers.items()}
    assert shown["token_ids"] == ("✓", "yes")
    assert shown["reset"] == ("✗", "no")
    assert shown["rivals"] == ("?", "unknown")


def test_a_server_that_goes_away_is_seen_while_the_dialog_is_open(
    dialog: RunDialog, product: FakeProduct, qtbot: QtBot
) -> None:
    connected(dialog, product, qtbot, info(token_ids=True))
    assert dialog.picker.server.card.state.text() == "● reachable"
    product.pulse.is_there = False
    qtbot.waitUntil(lambda: dialog.picker.server.card.state.text() == "✗ does not answer")
    dialog.reject()
    assert product.pulse.is_closed, "a closed dialog asks nobody"


def test_a_failing_test_says_why_and_a_cancelled_one_is_stopped(
    dialog: RunDialog, product: FakeProduct, qtbot: QtBot
) -> None:
    dialog.picker.choose("server")
    fields = dialog.picker.server
    fields.address.setText("127.0.0.1:8080")
    fields.test.click()
    assert product.tests[0].url == ADDRESS
    assert not dialog.go.isEnabled()
    fields.test.click()
    assert product.tests[0].stops == 1
    assert dialog.go.isEnabled()
    fields.test.click()
    product.tests[1].is_running = False
    qtbot.waitUntil(lambda: "Nothing listens" in fields.card.state.text())


def test_what_a_server_said_is_forgotten_with_its_address(
    dialog: RunDialog, product: FakeProduct, qtbot: QtBot
) -> None:
    connected(dialog, product, qtbot, info(token_ids=True))
    dialog.picker.server.address.setText("http://127.0.0.1:8081")
    assert dialog.picker.info is None
    assert product.pulse.is_closed


def test_a_server_without_a_recompute_path_can_only_be_served_again(
    dialog: RunDialog, product: FakeProduct, qtbot: QtBot
) -> None:
    connected(dialog, product, qtbot, info(recompute=False))
    choices = dialog.kind.model()
    assert isinstance(choices, QStandardItemModel)
    assert not choices.item(0).isEnabled()
    assert "no recompute path" in choices.item(0).toolTip()
    assert dialog.kind.currentData() == "repeat"
    dialog.picker.choose("embedded")
    assert choices.item(0).isEnabled()


def test_run_to_run_needs_two_runs(dialog: RunDialog) -> None:
    dialog.repeat.setValue(1)
    dialog.kind.setCurrentIndex(1)
    assert dialog.repeat.value() == 2


def test_the_address_that_was_run_on_is_there_the_next_time(product: FakeProduct, qtbot: QtBot) -> None:
    settings = Settings(last_server="http://old:1")
    second = RunDialog(product.verbs(), settings)
    qtbot.addWidget(second, before_close_func=lambda widget: widget.picker.close_down())
    second.picker.choose("server")
    assert second.picker.server.url == "http://old:1"
    second.picker.server.address.setText(ADDRESS)
    second.accept()
    assert settings.last_server == ADDRESS
    settings.check()
