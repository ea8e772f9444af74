"""The command shrink: the shortest history and prompt that still fork."""

from __future__ import annotations

import json
import sys
from collections import deque
from pathlib import Path
from typing import Any

import click

from app import session
from app.cli.terminal import EXISTING, FILE, ExplainedError, explained, interruptible, opened
from app.errors import AppError
from app.trajectory.events import EngineLoading, Event, RunEnded, RunFailed, RunStarted, Shrunk
from app.trajectory.pair import PairRow
from app.trajectory.report import row_report


@click.command()
@click.argument("file", type=EXISTING)
@click.option("--pair", "episode", required=True, metavar="EPISODE", help="Episode id, e.g. calendar-02.")
@click.option(
    "--budget-s",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds to search, once the fork has shown again.",
)
@click.option("--experiment", type=int, help="The newest that ran the episode where absent.")
@click.option("--out", type=FILE, help="The .forkpoint file for the result; FILE itself where absent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def shrink(file: Path, episode: str, budget_s: float, experiment: int | None, out: Path | None, as_json: bool) -> None:
    """Search for the shortest history and prompt of a pair that still fork at the same token.

    The result is a pair of its own in the file. Ctrl+C keeps what was found; the same command goes on from there.
    Exits 0 where the search has ended, also by its time; 2 where the fork does not show here.
    """
    with explained(), opened(file) as source:
        handle = session.shrink(source, episode, budget_s, experiment_id=experiment, out=out)
    progress = _Progress()
    with interruptible(handle.stop):
        while not handle.join(0.1):
            progress.show_all(handle.inbox)
    progress.show_all(handle.inbox)
    if progress.failure is not None:
        raise ExplainedError(progress.failure)
    if progress.experiment_id is not None and progress.last is not None:
        with explained(), opened(handle.path) as result:
            row = next(row for row in result.rows(progress.experiment_id) if row.episode_id == episode)
        report = _report(handle.path, progress.reason, progress.last, row)
        click.echo(json.dumps(report, ensure_ascii=False) if as_json else _text(handle.path, progress.last, row))
    if progress.reason == "stopped":
        click.echo("Stopped. The same command goes on from here.", err=True)
        sys.exit(130)


class _Progress:
    """A search's events: sentences on stderr, the last state kept."""

    def __init__(self) -> None:
        self.experiment_id: int | None = None
        self.last: Shrunk | None = None
        self.failure: AppError | None = None
        self.reason = ""

    def show_all(self, inbox: deque[Event]) -> None:
        """Print what has come in."""
        while inbox:
            self._show(inbox.popleft())

    def _show(self, event: Event) -> None:
        match event:
            case EngineLoading(sentence):
                click.echo(sentence, err=True)
            case RunStarted(experiment_id):
                self.experiment_id = experiment_id
            case Shrunk():
                self.last = event
                click.echo(event.sentence, err=True)
            case RunFailed(_, message, hint):
                self.failure = AppError(message, hint)
            case RunEnded(_, reason, _):
                self.reason = reason


def _report(file: Path, ended: str, last: Shrunk, row: PairRow) -> dict[str, Any]:
    """The object of `--json`."""
    return {
        "file": str(file),
        "experiment": row.experiment_id,
        "ended": ended,
        "tries": last.tries,
        "requests": {"before": last.requests_before, "now": last.requests_now},
        "tokens": {"before": last.tokens_before, "now": last.tokens_now},
        "minimal": last.is_minimal,
        "seconds": last.seconds,
        "engine_seconds": last.engine_seconds,
        "pair": row_report(row),
    }


def _text(file: Path, last: Shrunk, row: PairRow) -> str:
    return (
        f"{file}, experiment {row.experiment_id}: {row.headline}\n"
        f"{last.requests_before} → {last.requests_now} requests, "
        f"{last.tokens_before:,} → {last.tokens_now:,} tokens in {last.tries:,} tries"
    )
