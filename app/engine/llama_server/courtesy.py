"""Waiting for a slot that somebody else's request is in."""

from __future__ import annotations

from threading import Event

from app.engine.base import StopFlag
from app.engine.http.server import Server
from app.engine.llama_server.gaps import SLOT
from app.engine.llama_server.shape import as_list, as_mapping
from app.errors import ServerRefused

_LOOK_AGAIN_S = 0.25


def wait_for_slot(server: Server, stop: StopFlag | None = None) -> None:
    """Return when the slot is idle, or `stop` is set; at once where the server does not show its slots.

    llama.cpp 0c1e570 swaps the memory of a busy slot for a request that is pinned to it (`--cache-ram`): the answer
    under way there is spoilt. A request that comes in between is still seen in our answer, but not prevented.
    """
    pause = Event()
    while stop is None or not stop.is_set():
        try:
            slots = [as_mapping(slot) for slot in as_list(server.get("/slots", stop=stop).json())]
        except ServerRefused:
            return
        if not any(slot.get("id") == SLOT and slot.get("is_processing") is True for slot in slots):
            return
        pause.wait(_LOOK_AGAIN_S)
