from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QMenu, QPlainTextEdit, QTextBrowser, QWidget
from pytestqt.qtbot import QtBot

from app import paths
from app.settings import Settings
from app.views import help_pages
from app.views.pair_model import NEAR_TIES
from app.views.theme import LIGHT
from app.views.window import MainWindow
from app.views.window_actions import ENTRIES, MENUS
from tests.views.fakes import FakeProduct, made_up_pairs

DESIGNED = {
    "next_forked": ("Alt+Down", "F8"), "previous_forked": ("Alt+Up", "Shift+F8"),
    "next_near_tie": ("Alt+Right",), "previous_near_tie": ("Alt+Left",),
    "to_fork": ("F7",), "first_forked": ("Alt+Home",), "last_forked": ("Alt+End",),
    "previous_step": ("Left",), "next_step": ("Right",), "request_start": ("Home",), "request_end": ("End",),
    "find": ("Ctrl+F",), "find_next": ("F3",), "go_to": ("Ctrl+I",),
    "fold_all": ("Ctrl+Shift+[",), "unfold_all": ("Ctrl+Shift+]",), "lock_scroll": ("Ctrl+L",),
    "swap_sides": ("Ctrl+Alt+X",),
    "show_table": ("Ctrl+1",), "show_inspector": ("Ctrl+2",), "show_plot": ("Ctrl+3",),
    "copy": ("Ctrl+C",), "larger": ("Ctrl+=",), "smaller": ("Ctrl+-",),
    "run": ("Ctrl+R",), "stop": ("Ctrl+.",), "shortcuts": ("F1",), "close_innermost": ("Esc",),
}  # fmt: skip


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    made = MainWindow(FakeProduct(made_up_pairs(3)).verbs(), Settings(), LIGHT)
    qtbot.addWidget(made)
    return made


def test_no_two_actions_have_the_same_keys() -> None:
    counts = Counter(QKeySequence(key).toString() for entry in ENTRIES for key in entry.keys)
    assert [key for key, count in counts.items() if count > 1 or not key] == []
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("name", DESIGNED)
def test_the_designed_keys_are_there(window: MainWindow, name: str) -> None:
    keys = {sequence.toString() for sequence in window.actions_by_name[name].shortcuts()}
    assert set(DESIGNED[name]) <= keys


@pytest.mark.parametrize("where", ["panes", "plot", "inspector", "table"])
def test_every_key_reaches_its_action_wherever_the_keyboard_is(window: MainWindow, qtbot: QtBot, where: str) -> None:
    window.open_file(Path("calendar.forkpoint"))
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    bench = window.bench()
    place: QWidget = bench.table.view if where == "table" else getattr(bench.view, where)
    place.setFocus()
    reached: list[str] = []
    for name, action in window.actions_by_name.items():
        action.triggered.disconnect()
        action.triggered.connect(lambda _checked=False, name=name: reached.append(name))
        action.setEnabled(True)
    for entry in ENTRIES:
        for key in entry.keys:
            reached.clear()
            QTest.keySequence(QApplication.focusWidget() or place, QKeySequence(key))
            assert reached == [entry.name], f"{key} with the keyboard in the {where}"


def test_every_action_is_in_a_menu(window: MainWindow) -> None:
    bar = window.menuBar().actions()
    assert tuple(action.text().replace("&", "") for action in bar) == MENUS
    menus = [menu for action in bar if isinstance(menu := action.menu(), QMenu)]
    in_menus = {action.objectName() for menu in menus for action in menu.actions()}
    assert in_menus >= {entry.name for entry in ENTRIES}


def test_the_pair_table_s_columns_are_in_the_view_menu(window: MainWindow) -> None:
    window.open_file(Path("calendar.forkpoint"))
    bar = {action.text().replace("&", ""): action.menu() for action in window.menuBar().actions()}
    view_menu = bar["View"]
    assert isinstance(view_menu, QMenu)
    columns = window.bench().table.columns_menu
    assert columns.menuAction() in view_menu.actions()
    near_ties = next(action for action in columns.actions() if action.text().startswith("Near ties"))
    near_ties.trigger()
    assert not window.bench().table.view.isColumnHidden(NEAR_TIES)


def test_no_two_entries_of_a_menu_have_the_same_mnemonic() -> None:
    for menu in MENUS:
        letters = Counter(
            entry.text[entry.text.index("&") + 1].lower()
            for entry in ENTRIES
            if entry.menu == menu and "&" in entry.text
        )
        assert [letter for letter, count in letters.items() if count > 1] == [], menu


def test_the_shortcuts_page_lists_every_key(window: MainWindow, qtbot: QtBot) -> None:
    page = help_pages.show_shortcuts(window)
    qtbot.addWidget(page)
    browser = page.findChild(QTextBrowser)
    assert isinstance(browser, QTextBrowser)
    text = browser.toPlainText()
    for entry in ENTRIES:
        if entry.keys:
            assert entry.text.replace("&", "") in text
            assert QKeySequence(entry.keys[0]).toString(QKeySequence.SequenceFormat.NativeText) in text


@pytest.mark.parametrize("name", ["reading", "glossary", "study"])
def test_a_help_page_opens(window: MainWindow, name: str) -> None:
    window.actions_by_name[name].trigger()
    pages = window.findChildren(QTextBrowser)
    assert len(pages) == 1
    assert len(pages[0].toPlainText()) > 500


def test_the_study_s_numbers_are_said_to_be_the_study_s() -> None:
    text = (paths.resources_dir() / "help" / "study.md").read_text(encoding="utf-8")
    assert "the study's, not Forkpoint's" in text
    assert "2609.04748" in text


def test_about_shows_the_model_s_licence(window: MainWindow) -> None:
    page = help_pages.show_about(window, window.verbs)
    assert any("Apache License" in text for text in texts_of(page))


def texts_of(page: QDialog) -> list[str]:
    return [edit.toPlainText() for edit in page.findChildren(QPlainTextEdit)]
