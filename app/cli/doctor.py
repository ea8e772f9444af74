"""forkpoint doctor: is this engine reproducible, what can be proved on it, which flags would make it so?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from app import session
from app.cli.engine_options import engine_options, take_engine
from app.cli.terminal import EXISTING, ExplainedError, explained, interruptible
from app.errors import AppError
from app.session import Examination, ServerSettings


@click.command()
@click.argument("target", metavar="URL|MODEL")
@click.option("--probes", default=6, show_default=True, help="Short conversations that are served on both paths.")
@click.option("--model", type=EXISTING, help="The GGUF file for the target “managed”; the default model where absent.")
@click.option("--yes", is_flag=True, help="The same as --allow-reset: do not ask.")
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(target: str, probes: int, model: Path | None, yes: bool, as_json: bool, **options: Any) -> None:
    """Examine a server (URL) or a GGUF file: caches, history, both paths, what can be proved, what to change.

    “managed” examines a llama-server that Forkpoint starts. Exits 0 where ids and logprobs are bit-identical on every
    probe, 1 where anything differed, 2 where it could not be proved.
    """
    with explained():
        chosen = take_engine(target, options)
        del chosen["engine"]
        chosen["server"] = _permitted(target, chosen["server"], yes)
        examination = Examination(target, probes=probes, model=model, **chosen)
        follow(examination, lambda sentence: click.echo(sentence, err=True))
        if examination.failure is not None or examination.diagnosis is None:
            raise ExplainedError(examination.failure or AppError("The examination ended without a result."))
    shown = session.without_password(target) if session.evicts_others(target) else Path(target).name
    if as_json:
        click.echo(json.dumps(session.diagnosis_report(examination.diagnosis, shown), ensure_ascii=False))
    else:
        for line in session.diagnosis_lines(examination.diagnosis, shown):
            click.echo(line)
    sys.exit(examination.diagnosis.exit_code)


def follow(examination: Examination, say: Callable[[str], None]) -> None:
    """Say what it is at until it is over; Ctrl+C stops it, a second one does not wait for that."""
    with interruptible(examination.stop):
        while not examination.join(0.1):
            while examination.said:
                say(examination.said.popleft())


def _permitted(target: str, server: ServerSettings, yes: bool) -> ServerSettings:
    """The settings with the permission that a server elsewhere needs: given by a flag, or asked for on a terminal."""
    if server.allow_reset or not session.evicts_others(target):
        return server
    if yes or (sys.stdin.isatty() and _agrees()):
        return replace(server, allow_reset=True)
    return server


def _agrees() -> bool:
    return click.confirm("This evicts what others have in that server's cache. Go on?", err=True)
