"""The inside of the fence: how a stranger's jinja2 template is rendered, here or in a child process."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn

from jinja2 import Template, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_OUTPUT: Final = 4_000_000
"""Longest rendering in characters: a million tokens, more than any context here."""

MAX_MEMORY: Final = 1 << 28
"""Address space in bytes that the child process may take on top of what it has, where the system can limit it."""

FIXED_DATE: Final = "26 Jul 2024"
"""What `strftime_now` answers: the clock must not get into a prompt, and this is the date in Llama 3's own template."""


class _OutputTooLong(Exception):
    pass


def environment() -> ImmutableSandboxedEnvironment:
    """A jinja2 environment with what chat templates may expect (the set of Hugging Face's `apply_chat_template`)."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
        cache_size=0,
    )
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = _raise_exception
    made.globals["strftime_now"] = lambda _format: FIXED_DATE
    return made


def render(template: Template, variables: Mapping[str, Any]) -> str:
    """Render piece by piece, so that too long an output ends it; raises whatever the template raises."""
    pieces: list[str] = []
    length = 0
    for piece in template.generate(variables):
        length += len(piece)
        if length > MAX_OUTPUT:
            raise _OutputTooLong
        pieces.append(piece)
    return "".join(pieces)


def reason(error: BaseException) -> str:
    """Why a rendering failed, as the second half of a sentence without its full stop."""
    if isinstance(error, _OutputTooLong):
        return f"it wrote more than {MAX_OUTPUT:,} characters"
    if isinstance(error, MemoryError):
        return "it took too much memory"
    if isinstance(error, RecursionError):
        return "it calls itself without end"
    if isinstance(error, SecurityError):
        return f"it reached for what the sandbox keeps away ({error})".replace(".)", ")")
    if isinstance(error, TemplateError):
        return f"it says “{str(error)[:300]}”"
    return f"it failed ({type(error).__name__}: {str(error)[:300]})"


def serve(pipe: Connection, source: str) -> None:
    """The child process: render what comes through the pipe, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is the parent's to handle
    _limit_memory()
    template: Template | None = None
    pipe.send(("ready", ""))
    while True:
        try:
            variables = pipe.recv()
        except EOFError:
            return
        try:
            template = template or environment().from_string(source)  # compiling works out constants: inside the fence
            answer = ("text", render(template, variables))
        except Exception as error:  # a template is a stranger's program: whatever it raises is its own failure
            answer = ("refused", reason(error))
        pipe.send(answer)


def _limit_memory() -> None:
    if sys.platform != "linux":  # elsewhere the time limit has to do: RLIMIT_AS is not kept or not there
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - not a file of ours
        in_use = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MAX_MEMORY, in_use + MAX_MEMORY))


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)
