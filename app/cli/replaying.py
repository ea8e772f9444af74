"""The command replay: does a recorded fork show here?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from app import session
from app.cli.terminal import EXISTING, ExplainedError, explained, interruptible, opened
from app.errors import AppError
from app.session import ReplayOn, ServerSettings
from app.trajectory.events import EngineLoading, Event, Notice, Replayed, RunEnded, RunFailed
from app.trajectory.reproducer import ReplayResult


@click.command()
@click.argument("bundle", type=EXISTING)
@click.option("--pair", "pairs", multiple=True, metavar="EPISODE", help="Episode id; all of the bundle where absent.")
@click.option("--experiment", type=int, help="Of a .forkpoint file; the newest where absent.")
@click.option("--engine", default="embedded", show_default=True,
              help='"embedded", "managed" (a llama-server that Forkpoint starts), or the URL of a server.')  # fmt: skip
@click.option("--model", type=EXISTING, help="A GGUF file; the default model where absent.")
@click.option("--server-binary", type=EXISTING, help="The llama-server of --engine managed; else that on PATH.")
@click.option("--key-file", type=EXISTING, help="The API key, in a file that only you can read (0600).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def replay(
    bundle: Path, pairs: tuple[str, ...], experiment: int | None, engine: str, model: Path | None,
    server_binary: Path | None, key_file: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Ask the forks of a bundle (or of a .forkpoint file) again on this machine's engine.

    Exits 0 where every fork was reproduced, 1 where one was not, 2 where one cannot be compared. Settings come from the
    record by an allow-list; no command of the bundle is run and no path of it is opened.
    """
    where = ReplayOn(engine, model, ServerSettings(key_file=key_file), server_binary)
    with explained(), opened(bundle) as source:
        info = source.experiment(experiment)
        episodes = list(pairs) or session.bundled_episodes(source, info.id)
        progress = _Progress()
        handle = session.replay_pairs(source, info.id, episodes, where)
        with interruptible(handle.stop):
            while not handle.join(0.1):
                progress.show_all(handle.inbox)
        progress.show_all(handle.inbox)
        if progress.failure is not None:
            raise ExplainedError(progress.failure)
        told = [(result, source.pair(info.id, result.episode_id)) for result in progress.results]
    if progress.was_stopped:
        click.echo("Stopped.", err=True)
        sys.exit(130)
    if as_json:
        report = {"file": str(bundle), "replays": [session.replay_report(*each) for each in told]}
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        for each in told:
            for line in session.replay_lines(*each):
                click.echo(line)
    sys.exit(session.replay_exit_code(progress.results))


class _Progress:
    """A replay's events: sentences on stderr, results kept."""

    def __init__(self) -> None:
        self.results: list[ReplayResult] = []
        self.failure: AppError | None = None
        self.was_stopped = False

    def show_all(self, inbox: Any) -> None:
        """Print what has come in."""
        while inbox:
            self._show(inbox.popleft())

    def _show(self, event: Event) -> None:
        match event:
            case EngineLoading(sentence) | Notice(sentence):
                click.echo(sentence, err=True)
            case Replayed(_, result):
                self.results.append(result)
            case RunFailed(_, message, hint):
                self.failure = AppError(message, hint)
            case RunEnded(_, reason, _):
                self.was_stopped = reason == "stopped"
