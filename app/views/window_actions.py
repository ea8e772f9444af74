"""Every action of the window: its menu, its words, its keys. Menus and shortcuts page are both made from this."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu

MENUS = ("File", "Edit", "View", "Go", "Run", "Tools", "Help")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a menu. `keys` in Qt's portable spelling, the first one is shown; `group` makes a radio choice."""

    name: str
    menu: str
    text: str
    keys: tuple[str, ...] = ()
    checkable: bool = False
    group: str = ""
    line_before: bool = False


ENTRIES = (
    Entry("open", "File", "&Open…", ("Ctrl+O",)),
    Entry("open_sample", "File", "Open the &sample (recorded)"),
    Entry("export", "File", "&Export a bundle…", ("Ctrl+E",), line_before=True),
    Entry("close_window", "File", "&Close window", ("Ctrl+W",), line_before=True),
    Entry("quit", "File", "&Quit", ("Ctrl+Q",)),
    Entry("copy", "Edit", "&Copy", ("Ctrl+C",)),
    Entry("copy_tokens", "Edit", "Copy as &tokens"),
    Entry("copy_ids", "Edit", "Copy token &ids", ("Ctrl+Shift+C",)),
    Entry("copy_rows", "Edit", "Copy as &rows (id, bytes, logprob, margin)"),
    Entry("copy_verdict", "Edit", "Copy the &verdict"),
    Entry("find", "Edit", "&Find…", ("Ctrl+F",), line_before=True),
    Entry("find_next", "Edit", "Find &next", ("F3",)),
    Entry("find_previous", "Edit", "Find &previous", ("Shift+F3",)),
    Entry("filter", "Edit", "Filter the p&airs", ("Ctrl+Shift+F",)),
    Entry("copy_issue", "Edit", "Copy the issue te&xt"),
    Entry("mark", "Edit", "&Mark this pair", ("M",), checkable=True, line_before=True),
    Entry("edit_note", "Edit", "N&ote on this mark", ("Shift+M",)),
    Entry("undo_unmark", "Edit", "&Undo unmarking", ("Ctrl+Z",)),
    Entry("fold_all", "View", "&Fold all", ("Ctrl+Shift+[", "Ctrl+{")),
    Entry("unfold_all", "View", "&Unfold all", ("Ctrl+Shift+]", "Ctrl+}")),
    Entry("lock_scroll", "View", "&Lock scrolling of both panes", ("Ctrl+L",), checkable=True),
    Entry("swap_sides", "View", "S&wap sides", ("Ctrl+Alt+X",)),
    Entry("show_table", "View", "&Pairs", ("Ctrl+1",), checkable=True, line_before=True),
    Entry("show_inspector", "View", "&Inspector", ("Ctrl+2",), checkable=True),
    Entry("show_plot", "View", "&Margin plot", ("Ctrl+3",), checkable=True),
    Entry("larger", "View", "L&arger text", ("Ctrl+=", "Ctrl++"), line_before=True),
    Entry("smaller", "View", "&Smaller text", ("Ctrl+-",)),
    Entry("normal_size", "View", "&Normal text size", ("Ctrl+0",)),
    Entry("theme_auto", "View", "Colours of the s&ystem", checkable=True, group="theme", line_before=True),
    Entry("theme_light", "View", "Li&ght", checkable=True, group="theme"),
    Entry("theme_dark", "View", "&Dark", checkable=True, group="theme"),
    Entry("close_innermost", "View", "&Close what is open last", ("Esc",), line_before=True),
    Entry("next_forked", "Go", "&Next forked pair", ("Alt+Down", "F8")),
    Entry("previous_forked", "Go", "&Previous forked pair", ("Alt+Up", "Shift+F8")),
    Entry("first_forked", "Go", "&First forked pair", ("Alt+Home",)),
    Entry("last_forked", "Go", "&Last forked pair", ("Alt+End",)),
    Entry("to_fork", "Go", "&Back to this pair's fork", ("F7",), line_before=True),
    Entry("next_near_tie", "Go", "Next n&ear tie", ("Alt+Right",)),
    Entry("previous_near_tie", "Go", "Previous near &tie", ("Alt+Left",)),
    Entry("next_step", "Go", "Next &step", ("Right",), line_before=True),
    Entry("previous_step", "Go", "Previous step", ("Left",)),
    Entry("request_start", "Go", "First step of the &request", ("Home",)),
    Entry("request_end", "Go", "Last step of the request", ("End",)),
    Entry("go_to", "Go", "&Go to request:token…", ("Ctrl+I",)),
    Entry("run", "Run", "&Run…", ("Ctrl+R",)),
    Entry("demo", "Run", "Run the &demo"),
    Entry("stop", "Run", "&Stop", ("Ctrl+.",)),
    Entry("follow", "Run", "&Follow the run", checkable=True),
    Entry("resume", "Run", "&Go on with this run", line_before=True),
    Entry("run_again", "Run", "Run &both again here", ("Ctrl+Shift+R",)),
    Entry("try_on_server", "Run", "&Try this fork on a llama-server"),
    Entry("replay_here", "Run", "Replay &here, beside what was reported"),
    Entry("shrink", "Run", "Shrin&k this fork…"),
    Entry("replay", "Run", "Re&play this pair at reading speed", ("Ctrl+P",), line_before=True),
    Entry("pause", "Run", "P&ause the replay", ("Ctrl+Shift+P",), checkable=True),
    Entry("doctor", "Tools", "&Doctor…", ("Ctrl+D",)),
    Entry("environment", "Tools", "&Environment of this run…"),
    Entry("show_folder", "Tools", "Show the file's &folder"),
    Entry("preferences", "Tools", "&Preferences…", ("Ctrl+,",), line_before=True),
    Entry("shortcuts", "Help", "&Keyboard shortcuts", ("F1",)),
    Entry("reading", "Help", "How to &read the screen"),
    Entry("bundles", "Help", "&Bundles: send a fork, check one, replay it"),
    Entry("engines", "Help", "&Engines, and what can be proved on each"),
    Entry("glossary", "Help", "&Glossary"),
    Entry("study", "Help", "The &study and its numbers"),
    Entry("about", "Help", "&About and licences", line_before=True),
)


def install(window: QMainWindow, deeds: Mapping[str, Callable[[], object]]) -> dict[str, QAction]:
    """Make the menus and return the actions by name. Every entry needs its deed: KeyError names a missing one."""
    menus = {name: window.menuBar().addMenu(f"&{name}") for name in MENUS}
    for menu in menus.values():
        menu.setToolTipsVisible(True)  # they say why an action is greyed
    groups: dict[str, QActionGroup] = {}
    actions = {}
    for entry in ENTRIES:
        if entry.line_before:
            menus[entry.menu].addSeparator()
        action = QAction(entry.text, window, checkable=entry.checkable)
        action.setObjectName(entry.name)
        action.setShortcuts([QKeySequence(key) for key in entry.keys])
        if entry.group:
            groups.setdefault(entry.group, QActionGroup(window)).addAction(action)
        action.triggered.connect(_without_arguments(deeds[entry.name]))
        menus[entry.menu].addAction(action)
        window.addAction(action)  # so that the keys work with the menu bar hidden, too
        actions[entry.name] = action
    return actions


def _without_arguments(deed: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        deed()

    return call


def recent_menu(window: QMainWindow, before: QAction) -> QMenu:
    """The submenu of recent files in the File menu; whoever owns the list fills it when it is about to show."""
    menu = QMenu("Open &recent", window)
    file_menu = next(owner for owner in before.associatedObjects() if isinstance(owner, QMenu))
    file_menu.insertMenu(before, menu)
    return menu


def add_columns_menu(actions: Mapping[str, QAction], columns: QMenu) -> None:
    """The pair table's columns as a submenu, below the switch that shows the table."""
    view_menu = next(owner for owner in actions["show_table"].associatedObjects() if isinstance(owner, QMenu))
    view_menu.insertMenu(actions["show_inspector"], columns)


def keys_of(entry: Entry) -> list[str]:
    """The keys as this system writes them, duplicates of a spelling left out."""
    shown = (key for key in entry.keys if key not in {"Ctrl+{", "Ctrl+}", "Ctrl++"})
    return [QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText) for key in shown]
