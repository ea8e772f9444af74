"""What each action of `window_actions` does to a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QWidget

from app.trajectory.piece_text import inert
from app.views import help_pages
from app.views.copy_table import CopyTable
from app.views.evidence import evidence
from app.views.window_runs import DEMO

if TYPE_CHECKING:
    from app.views.pair_table import PairTable
    from app.views.pair_view import PairView
    from app.views.window import MainWindow
    from app.views.workbench import Workbench

Deed = Callable[[], object]
SAID_CHARACTERS = 40


def deeds_of(window: MainWindow) -> dict[str, Deed]:
    """Every action's deed by its name."""
    return {
        "open": window.ask_for_file,
        "open_sample": window.open_sample,
        "export": window.bundles.export,
        "copy_issue": window.bundles.copy_issue,
        "mark": window.marks.toggle,
        "edit_note": window.marks.edit_note,
        "undo_unmark": window.marks.undo,
        "replay_here": window.bundles.replay_here,
        "shrink": window.bundles.ask_to_shrink,
        "close_window": window.close,
        "quit": QApplication.closeAllWindows,
        "doctor": lambda: show_doctor(window),
        "environment": lambda: show_environment(window),
        "show_folder": lambda: show_folder(window),
        "preferences": lambda: change_preferences(window),
        "run": lambda: ask_for_run(window),
        "demo": lambda: window.runs.start(DEMO),
        "stop": window.control.stop,
        "follow": lambda: window.bench().follow(window.actions_by_name["follow"].isChecked()),
        "resume": window.runs.resume,
        "run_again": window.runs.run_again,
        "try_on_server": window.trial.start,
        "replay": window.runs.replay,
        "pause": lambda: window.runs.pause(window.actions_by_name["pause"].isChecked()),
        "close_innermost": lambda: close_innermost(window),
        "larger": lambda: window.change_text_scale(1),
        "smaller": lambda: window.change_text_scale(-1),
        "normal_size": lambda: window.change_text_scale(0),
        "theme_auto": lambda: window.choose_theme("auto"),
        "theme_light": lambda: window.choose_theme("light"),
        "theme_dark": lambda: window.choose_theme("dark"),
        "shortcuts": lambda: help_pages.show_shortcuts(window),
        "reading": lambda: help_pages.show_page(window, "How to read the screen", "reading.md"),
        "bundles": lambda: help_pages.show_page(window, "Bundles", "bundles.md"),
        "engines": lambda: help_pages.show_page(window, "Engines", "engines.md"),
        "glossary": lambda: help_pages.show_page(window, "Glossary", "glossary.md"),
        "study": lambda: help_pages.show_page(window, "The study and its numbers", "study.md"),
        "about": lambda: help_pages.show_about(window, window.verbs),
        **_deeds_on_a_pair(window),
    }


def _deeds_on_a_pair(window: MainWindow) -> dict[str, Deed]:
    """Deeds that do nothing while the start page is shown."""

    def view(deed: Callable[[PairView], object]) -> Deed:
        return lambda: deed(window.shown_bench.view) if window.shown_bench is not None else None

    def table(deed: Callable[[PairTable], bool], sentence: str) -> Deed:
        def call() -> None:
            bench = window.shown_bench
            if bench is not None and not deed(bench.table):
                window.flash(sentence)

        return call

    def shown(part: Callable[[Workbench], QWidget], name: str) -> None:
        if window.shown_bench is not None:
            part(window.shown_bench).setVisible(window.actions_by_name[name].isChecked())

    def near_tie(view: PairView, direction: int) -> None:
        if not view.to_near_tie(direction, window.settings.near_tie):
            window.flash("There is no near tie " + ("after" if direction > 0 else "before") + " this step.")

    def to_fork(view: PairView) -> None:
        if not view.to_fork():
            window.flash("This pair has no fork.")

    return {
        "copy": lambda: copy(window),
        "copy_tokens": view(lambda v: say_copied(window, v.panes.copy_selection("tokens"))),
        "copy_ids": view(lambda v: say_copied(window, v.panes.copy_selection("ids"))),
        "copy_rows": view(lambda v: say_copied(window, v.panes.copy_selection("rows"))),
        "copy_verdict": lambda: copy_verdict(window),
        "find": view(lambda v: v.find_bar.open()),
        "find_next": view(lambda v: v.find_bar.search(backwards=False)),
        "find_previous": view(lambda v: v.find_bar.search(backwards=True)),
        "filter": lambda: window.shown_bench.table.filter.setFocus() if window.shown_bench is not None else None,
        "fold_all": view(lambda v: v.panes.fold_all()),
        "unfold_all": view(lambda v: v.panes.unfold_all()),
        "lock_scroll": view(lambda v: v.panes.set_scroll_locked(window.actions_by_name["lock_scroll"].isChecked())),
        "show_table": lambda: shown(lambda bench: bench.table, "show_table"),
        "show_inspector": lambda: shown(lambda bench: bench.view.inspector, "show_inspector"),
        "show_plot": lambda: shown(lambda bench: bench.view.plot, "show_plot"),
        "swap_sides": view(lambda v: v.panes.swap_sides()),
        "next_forked": table(lambda t: t.next_forked(), "This is the last forked pair."),
        "previous_forked": table(lambda t: t.previous_forked(), "This is the first forked pair."),
        "first_forked": table(lambda t: t.first_forked(), "No pair is forked."),
        "last_forked": table(lambda t: t.last_forked(), "No pair is forked."),
        "to_fork": view(to_fork),
        "next_near_tie": view(lambda v: near_tie(v, 1)),
        "previous_near_tie": view(lambda v: near_tie(v, -1)),
        "next_step": view(lambda v: v.step_by(1)),
        "previous_step": view(lambda v: v.step_by(-1)),
        "request_start": view(lambda v: v.to_edge(end=False)),
        "request_end": view(lambda v: v.to_edge(end=True)),
        "go_to": view(lambda v: v.go_to_bar.open()),
    }


def copy(window: MainWindow) -> None:
    """Copy what is selected where the keyboard is; else the selection of the panes."""
    focus, bench = QApplication.focusWidget(), window.shown_bench
    if isinstance(focus, QLineEdit):
        focus.copy()
        return
    if isinstance(focus, QLabel) and focus.hasSelectedText():
        text = focus.selectedText()
    elif isinstance(focus, CopyTable) and focus.selected_text():
        text = focus.selected_text()
    elif bench is not None and focus is bench.table.view:
        text = bench.table.current_text()
    elif bench is not None:
        text = bench.view.panes.copy_selection("text")
    else:
        return
    QGuiApplication.clipboard().setText(text)
    say_copied(window, text)


def say_copied(window: MainWindow, text: str) -> None:
    """What is on the clipboard now, as far as a line shows it."""
    shown = " ".join(text.split())
    window.say(f"Copied: {inert(shown[:SAID_CHARACTERS])}{'…' if len(shown) > SAID_CHARACTERS else ''}")


def copy_verdict(window: MainWindow) -> None:
    """The verdict as plain text, with its rule and what proves it: for an issue."""
    bench = window.shown_bench
    if bench is not None and bench.view.pair is not None and bench.experiment is not None:
        QGuiApplication.clipboard().setText(evidence(bench.view.pair, bench.experiment))
        window.say("Copied the verdict, its rule and the proof of reuse.")


def close_innermost(window: MainWindow) -> None:
    """Close what was opened last: a bar, the banner. Never stops a run."""
    bench = window.shown_bench
    for part in (bench.view.find_bar, bench.view.go_to_bar) if bench is not None else ():
        if part.isVisible():
            part.shut()
            bench.view.panes.setFocus() if bench is not None else None
            return
    if bench is not None and bench.table.filter.hasFocus() and bench.table.filter.text():
        bench.table.filter.clear()
    elif window.banner.isVisible():
        window.banner.hide()
    elif bench is not None:
        bench.view.panes.setFocus()


def ask_for_run(window: MainWindow) -> None:
    """The new-run dialog; what it makes is run."""
    from app.views.run_dialog import RunDialog

    dialog = RunDialog(window.verbs, window.settings, window)
    if dialog.exec() and dialog.request is not None:
        window.settings_changed.emit()
        window.runs.start(dialog.request)


def show_doctor(window: MainWindow) -> None:
    """The doctor's page, beside the window: an examination goes on while one looks at pairs."""
    from app.views.doctor_page import DoctorPage

    page = DoctorPage(window.verbs, window.settings, window)
    page.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    page.finished.connect(window.settings_changed)
    page.show()


def change_preferences(window: MainWindow) -> None:
    """The preferences dialog."""
    from app.views.preferences import Preferences

    if Preferences(window.settings, window).exec():
        window.settings_changed.emit()


def show_environment(window: MainWindow) -> None:
    """The sealed environment record, as it is in the file."""
    bench = window.shown_bench
    if bench is not None and bench.experiment is not None:
        help_pages.show_record(window, "Environment of this run", bench.experiment)


def show_folder(window: MainWindow) -> None:
    """The file's folder, in the system's own way."""
    bench = window.shown_bench
    if bench is not None and bench.session is not None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(bench.session.path.parent)))
