"""The context menu of a token pane."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget

from app.views.pair_layout import PairLayout
from app.views.pane_hits import Hit
from app.views.token_selection import CopyKind

COPY_KINDS: tuple[tuple[str, CopyKind], ...] = (
    ("Copy text", "text"),
    ("Copy tokens as shown", "tokens"),
    ("Copy token ids", "ids"),
    ("Copy rows (tab-separated)", "rows"),
)


def pane_menu(
    parent: QWidget,
    layout: PairLayout,
    hit: Hit,
    copy: Callable[[CopyKind], object],
    toggle: Callable[[int], object],
    why_no_ids: str = "",
) -> QMenu:
    """What can be done with the selection, and with what `hit` says is under the mouse."""
    menu = QMenu(parent)
    menu.setToolTipsVisible(True)
    for label, kind in COPY_KINDS:
        action = menu.addAction(label, partial(copy, kind))
        if why_no_ids and kind in ("ids", "rows"):
            action.setEnabled(False)
            action.setToolTip(why_no_ids)
    if hit.paragraph is not None:
        menu.addAction("Copy this message", partial(QGuiApplication.clipboard().setText, hit.paragraph.text))
    if hit.row >= 0:
        menu.addSeparator()
        menu.addAction("Fold" if layout.rows[hit.row].is_open else "Unfold", partial(toggle, hit.row))
    return menu
