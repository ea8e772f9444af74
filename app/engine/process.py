"""A native library in a process of its own: spawned, quiet, and gone when its pipe closes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from app.errors import AppError, EngineDied

_LAST_LINES = 6


def _run(connection: Connection, output: str, target: Callable[..., None], args: tuple[Any, ...]) -> None:
    """First thing in the child: whatever native code prints goes to `output`, and Ctrl+C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["GGML_NO_BACKTRACE"] = "1"  # an abort would start a debugger and take seconds to die
    with Path(output).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    target(connection, *args)


class ChildProcess:
    """Runs `target(connection, *args)` in a spawned process and talks to it by pickled messages.

    `target` is a module-level function. An AppError that the child sends is raised by `receive`; a child that is gone
    raises EngineDied with the last lines it printed. Close it; a child whose parent is gone must end by itself when
    its connection closes.
    """

    def __init__(self, name: str, target: Callable[..., None], *args: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._output = tempfile.NamedTemporaryFile(  # noqa: SIM115  closed by close()
            prefix="forkpoint-", suffix=".log", delete=False
        )
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_run, args=(theirs, self._output.name, target, args), name=name, daemon=True
        )
        self._process.start()
        theirs.close()  # else this process would keep the pipe open and never see the child's end
        self._closed = False
        self._killed_because = ""

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._process.pid

    def send(self, message: object) -> None:
        """Send one message; raises EngineDied where the child is gone."""
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._died() from error

    def poll(self, seconds: float) -> bool:
        """Whether a message, or the child's end, is there within `seconds`."""
        try:
            return self._connection.poll(seconds)
        except OSError as error:
            raise self._died() from error

    def receive(self) -> Any:
        """The next message; raises it where it is an AppError, and EngineDied where the child is gone."""
        try:
            message = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        self._unlink_output()
        if isinstance(message, AppError):
            raise message
        return message

    def output(self, most_bytes: int = 65536) -> str:
        """The end of what the child, and whatever it started, printed so far."""
        end = os.fstat(self._output.fileno()).st_size
        self._output.seek(max(0, end - most_bytes))
        return self._output.read().decode(errors="replace")

    def kill(self, because: str) -> None:
        """End the child at once; `because` is the sentence that EngineDied will carry from now on."""
        self._killed_because = because
        self._process.kill()
        self._process.join(1)

    def close(self) -> None:
        """Let the child go; kill it where it does not. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        self._connection.close()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(1)
        self._output.close()
        self._unlink_output()

    def _unlink_output(self) -> None:
        """The open handles keep the file; without a name it cannot outlive both processes (POSIX)."""
        with contextlib.suppress(OSError):  # Windows: not while it is open; close() comes back here
            Path(self._output.name).unlink(missing_ok=True)

    def _died(self) -> EngineDied:
        if self._closed:
            return EngineDied("The engine is closed.")
        if self._killed_because:
            return EngineDied(self._killed_because, "What was recorded stays. A new engine starts with an empty cache.")
        self._process.join(1)
        code = self._process.exitcode
        if code is not None and code < 0:
            how = f"was ended by signal {signal.Signals(-code).name}"
        else:
            how = "closed its connection" if code is None else f"ended with exit code {code}"
        hint = "What was recorded stays. Run again; if it happens again, the machine may be out of memory."
        return EngineDied(f"The engine's process {how}.", " ".join([hint, *self._last_lines()]))

    def _last_lines(self) -> list[str]:
        lines = [line for line in self.output(4096).splitlines() if line.strip()]
        return ["Its last lines:", " | ".join(lines[-_LAST_LINES:])] if lines else []
