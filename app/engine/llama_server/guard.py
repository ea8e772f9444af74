"""Stands between Forkpoint and a server that it started: whichever of the two ends, the other hears of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from types import FrameType
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def guard(connection: Connection, command: list[str]) -> None:
    """Run `command` until the connection closes, as it does when Forkpoint ends in whatever way; then kill its group.

    Sends the process id once it runs, an OSError's text where it cannot be started, and later its exit code, negative
    for a signal. What it prints goes where this process's own output goes. Runs in a ChildProcess.
    """
    signal.signal(signal.SIGTERM, _leave)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith(("LLAMA_", "FORKPOINT_"))},
            start_new_session=True,  # Ctrl+C in the terminal is Forkpoint's business
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
    except OSError as error:
        connection.send(str(error.strerror or error))
        return
    connection.send(process.pid)
    threading.Thread(target=lambda: connection.send(process.wait()), daemon=True).start()
    try:
        with contextlib.suppress(EOFError, OSError):
            connection.recv()
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Nothing is lost with it: what a server is asked to save is on disk when it answers."""
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit


def _die_with_parent() -> None:
    """In the server's process before it begins: the kernel kills it where even this guard was killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
