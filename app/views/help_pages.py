"""Help: shortcuts, how to read the screen, glossary, the study's numbers, licences, and a run's environment record."""

from __future__ import annotations

import json

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QTabWidget, QTextBrowser, QVBoxLayout, QWidget

from app import __version__, paths
from app.errors import AppError
from app.trajectory.trajectory import ExperimentInfo
from app.views.verbs import Verbs
from app.views.window_actions import ENTRIES, MENUS, keys_of

LIBRARIES = (
    ("Qt for Python (PySide6)", "LGPL-3.0"),
    ("pyqtgraph", "MIT"),
    ("llama.cpp and llama-cpp-python", "MIT"),
    ("NumPy, SciPy", "BSD-3-Clause"),
    ("sqlite-utils", "Apache-2.0"),
    ("Jinja, Click", "BSD-3-Clause"),
    ("gguf, platformdirs", "MIT"),
)


def show_shortcuts(parent: QWidget) -> QDialog:
    """All keys, from the same table that makes the menus."""
    lines = ["# Keyboard shortcuts", "", "| menu | action | keys |", "|:---|:---|:---|"]
    for menu in MENUS:
        entries = [entry for entry in ENTRIES if entry.menu == menu and entry.keys]
        for place, entry in enumerate(entries):
            keys = " or ".join(keys_of(entry))
            lines.append(f"| {'' if place else f'**{menu}**'} | {entry.text.replace('&', '')} | {keys} |")
    lines += ["", "In the token panes: ↑ ↓ and Page Up / Page Down scroll, Space or Enter folds, Shift selects."]
    return _show(parent, "Keyboard shortcuts", _browser("\n".join(lines)))


def show_page(parent: QWidget, title: str, file: str) -> QDialog:
    """One of the pages under resources/help."""
    page = paths.resources_dir() / "help" / file
    return _show(parent, title, _browser(page.read_text(encoding="utf-8")))


def show_about(parent: QWidget, verbs: Verbs) -> QDialog:
    """What this is, and the licences of what it stands on, the model's among them."""
    libraries = "\n".join(f"| {name} | {licence} |" for name, licence in LIBRARIES)
    about = (
        f"# Forkpoint {__version__}\n\nSame request, different answer: where, why, and can I show it?\n\n"
        f"Forkpoint is free software under the MIT licence.\n\n| stands on | licence |\n|:---|:---|\n{libraries}\n"
    )
    tabs = QTabWidget()
    tabs.addTab(_browser(about), "About")
    tabs.addTab(_plain(_model_licence(verbs)), "The default model")
    return _show(parent, "About Forkpoint", tabs)


def show_record(parent: QWidget, title: str, experiment: ExperimentInfo) -> QDialog:
    """The plan and the sealed environment record of an experiment, as they are in the file."""
    record = {"plan": experiment.plan, "environment": experiment.environment}
    return _show(parent, title, _plain(json.dumps(record, indent=2, ensure_ascii=False, default=str), monospaced=True))


def _model_licence(verbs: Verbs) -> str:
    try:
        return f"SmolLM2-135M-Instruct, Apache License 2.0\n\n{verbs.default_model_licence()}"
    except AppError as error:
        return str(error)


def _browser(markdown: str) -> QTextBrowser:
    browser = QTextBrowser(openExternalLinks=True)
    browser.document().setDocumentMargin(18)
    browser.setMarkdown(markdown)
    return browser


def _plain(text: str, monospaced: bool = False) -> QPlainTextEdit:
    edit = QPlainTextEdit(text, readOnly=True)
    if monospaced:
        edit.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    return edit


def _show(parent: QWidget, title: str, page: QWidget) -> QDialog:
    """A window beside the main one: help can stay open while one looks."""
    dialog = QDialog(parent)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(title)
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    buttons.rejected.connect(dialog.reject)
    column = QVBoxLayout(dialog)
    column.addWidget(page, 1)
    column.addWidget(buttons)
    dialog.resize(760, 640)
    dialog.show()
    return dialog
