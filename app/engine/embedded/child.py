"""The child process of the embedded engine: reads commands, answers them in order, ends with its pipe."""

from __future__ import annotations

import os
import queue
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.engine.base import GenerateRequest, Progress
from app.engine.settings import EmbeddedSettings
from app.errors import AppError
from app.trajectory.trajectory import RequestReport

if TYPE_CHECKING:
    from app.engine.embedded.llama_model import LlamaModel
    from app.engine.embedded.llama_state import LlamaState


def serve(connection: Connection, path: Path, settings: EmbeddedSettings) -> None:
    """Load the model, send what is known of it, then serve commands until the pipe closes.

    Anything but an AppError is a bug: it ends the process, and its traceback is what the parent finds in the output.
    """
    from app.engine.embedded.build import native_build
    from app.engine.embedded.llama_model import LlamaModel
    from app.engine.embedded.llama_state import LlamaState

    commands = _Commands(connection)
    try:
        model = LlamaModel(path, settings)
        states = _States(model, LlamaState)
        connection.send(
            {
                "build": native_build(),
                "eog_ids": model.eog_ids,
                "n_swa": model.n_swa,
                "recurrent": model.recurrent,
                **states.sizes(),
            }
        )
    except AppError as error:
        connection.send(error)
        return
    server = _Server(connection, model, states, commands.stop)
    while True:
        name, *args = commands.next()
        try:
            getattr(server, name)(*args)
        except AppError as error:
            connection.send(error)


class _Commands:
    """Reads the pipe on its own thread, so that a stop, or the parent's end, is seen while tokens are evaluated."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.stop = threading.Event()
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def next(self) -> tuple[Any, ...]:
        """The next command, in order: the name of a method of the server, and its arguments."""
        return self._waiting.get()

    def _read(self) -> None:
        while True:
            try:
                command = self._connection.recv()
            except (EOFError, OSError):
                os._exit(0)  # the parent is gone or has closed: nothing here is worth finishing
            if command[0] == "stop":
                self.stop.set()
            else:
                self.stop.clear()  # a stop that came after the answer's end must not reach the next one
                self._waiting.put(command)


class _States:
    """Open states by number. One closed context is kept: a recompute pass opens and closes one per request."""

    def __init__(self, model: LlamaModel, new_state: type[LlamaState]) -> None:
        self._model = model
        self._new_state = new_state
        self._idle: LlamaState | None = new_state(model)
        self._open: dict[int, LlamaState] = {}
        self._last = 0

    def sizes(self) -> dict[str, int]:
        """What the settings became in a real context."""
        assert self._idle is not None
        return {name: getattr(self._idle, name) for name in ("n_ctx", "n_batch", "n_ubatch")}

    def __getitem__(self, number: int) -> LlamaState:
        return self._open[number]

    def open(self) -> int:
        """Number of a state that holds nothing."""
        state, self._idle = self._idle or self._new_state(self._model), None
        self._last += 1
        self._open[self._last] = state
        return self._last

    def close(self, number: int) -> None:
        """Keep the state's context for the next one, or free it where one is kept already."""
        state = self._open.pop(number)
        if self._idle is None:
            state.clear()
            self._idle = state
        else:
            state.close()


class _Server:
    """The commands. Each sends exactly one last answer; `generate` sends progress and steps before it."""

    def __init__(self, connection: Connection, model: LlamaModel, states: _States, stop: threading.Event) -> None:
        self._send = connection.send
        self._model = model
        self._states = states
        self._stop = stop
        self._told: set[int] = set()  # ids whose bytes the parent has

    def tokenize(self, text: str, special: bool) -> None:
        self._send(self._model.tokenize(text, special))

    def open_state(self) -> None:
        self._send(self._states.open())

    def close_state(self, number: int) -> None:
        self._states.close(number)
        self._send(None)

    def snapshot(self, number: int) -> None:
        self._send(self._states[number].snapshot())

    def restore(self, snapshot: Any) -> None:
        number = self._states.open()
        try:
            self._states[number].restore(snapshot)
        except AppError:
            self._states.close(number)
            raise
        self._send(number)

    def rebuild(self, number: int, ids: Any, spans: Any) -> None:
        self._states[number].rebuild(ids, spans)
        self._send(None)

    def generate(self, number: int, request: GenerateRequest) -> None:
        for item in self._states[number].generate(request, self._stop.is_set):
            if isinstance(item, Progress | RequestReport):
                self._send(item)
            else:
                new = {item[0], *item[2]} - self._told
                self._told |= new
                self._send((*item, {token_id: self._model.piece(token_id) for token_id in new}))
