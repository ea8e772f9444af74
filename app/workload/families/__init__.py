"""The eight families of built-in episodes, in the order in which the canonical order interleaves them."""

from __future__ import annotations

from typing import Final

from app.workload.families import calendar, files, messages, notes, stock, tickets, travel, units
from app.workload.world import Family

FAMILIES: Final[tuple[Family, ...]] = (
    files.FAMILY,
    units.FAMILY,
    calendar.FAMILY,
    messages.FAMILY,
    tickets.FAMILY,
    stock.FAMILY,
    travel.FAMILY,
    notes.FAMILY,
)
