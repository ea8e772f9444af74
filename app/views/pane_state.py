"""What is marked in both token panes. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.views.pair_layout import Key, Position
from app.views.token_selection import Selection


@dataclass(frozen=True, slots=True)
class PaneState:
    """The step cursor, the title of a row that has the keyboard instead, and the selected tokens."""

    cursor: Position = (0, 0)
    header: Key | None = None
    selection: Selection | None = None
