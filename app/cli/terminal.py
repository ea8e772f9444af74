"""What the commands share: arguments, known errors as sentences, an open file, a run followed to its end."""

from __future__ import annotations

import json
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from app.errors import AppError
from app.session import RunHandle, Session
from app.trajectory.events import (
    EngineLoading,
    Estimate,
    Event,
    Notice,
    PairCompared,
    PassFinished,
    RunEnded,
    RunFailed,
    RunStarted,
    TrajectoryFinished,
    TrajectoryStarted,
)
from app.trajectory.report import row_report

FILE = click.Path(path_type=Path, dir_okay=False)
EXISTING = click.Path(path_type=Path, dir_okay=False, exists=True)


class ExplainedError(click.ClickException):
    """A known error on the terminal: the sentence, then the hint; exit code 2."""

    exit_code = 2

    def __init__(self, error: AppError) -> None:
        super().__init__(f"{error.message}\n  {error.hint}" if error.hint else error.message)


@contextmanager
def explained() -> Iterator[None]:
    """Turn an AppError into a sentence and exit code 2; anything else is a bug and keeps its trace."""
    try:
        yield
    except AppError as error:
        raise ExplainedError(error) from error


@contextmanager
def opened(file: Path) -> Iterator[Session]:
    """A session that is closed afterwards."""
    session = Session.open(file)
    try:
        yield session
    finally:
        session.close()


@contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl+C calls `stop`, a second one ends the program as usual."""
    previous = signal.getsignal(signal.SIGINT)

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, previous)
        stop()

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def finish_run(handle: RunHandle, as_json: bool) -> None:
    """Follow a run to its end, on stderr. Exits 2 where it failed.

    Ctrl+C stops it and keeps what was recorded; a second one does not wait for that, nor for a model that loads.
    """
    progress = Progress()
    with interruptible(handle.stop):
        while not handle.join(0.1):
            progress.show_all(handle.inbox)
        progress.show_all(handle.inbox)
    if progress.failure is not None:
        if progress.experiment_id is not None:
            click.echo(f"Go on with: forkpoint resume {handle.path}", err=True)
        raise ExplainedError(progress.failure)
    with opened(handle.path) as source:
        info = source.experiment(progress.experiment_id)
        report = {
            "file": str(handle.path),
            "experiment": info.id,
            "ended": progress.reason,
            "pairs": [row_report(row) for row in source.rows(info.id)],
        }
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        click.echo(f"{handle.path}")
    if progress.reason == "stopped":
        click.echo(f"Stopped. Go on with: forkpoint resume {handle.path}", err=True)
        sys.exit(130)


class Progress:
    """A run's events as lines on stderr."""

    def __init__(self) -> None:
        self.experiment_id: int | None = None
        self.reason = ""
        self.failure: AppError | None = None
        self._names: dict[int, str] = {}
        self._headlines: dict[str, str] = {}

    def show_all(self, inbox: deque[Event]) -> None:
        """Print what has come in."""
        while inbox:
            self._show(inbox.popleft())

    def _show(self, event: Event) -> None:
        match event:
            case EngineLoading(sentence) | Notice(sentence):
                click.echo(sentence, err=True)
            case RunStarted(experiment_id, title, episodes, repeats, kind):
                self.experiment_id = experiment_id
                what = "one server history" if kind == "repeat" else "both paths"
                click.echo(f"{title}: {episodes} episode{'s' * (episodes != 1)}, {what}, {repeats} x", err=True)
            case TrajectoryStarted(trajectory_id, episode_id, _, path, repeat):
                self._names[trajectory_id] = f"{episode_id} {path}" + (f" (repeat {repeat})" if repeat > 1 else "")
            case TrajectoryFinished(trajectory_id, status, outcome):
                click.echo(
                    f"  {self._names[trajectory_id]}: {status}, {outcome.kind} {outcome.detail}".rstrip(), err=True
                )
            case PairCompared(row) if self._headlines.get(row.episode_id) != row.headline:  # compared again at the end
                self._headlines[row.episode_id] = row.headline
                click.echo(f"{row.episode_id}: {row.headline}", err=True)
            case PassFinished(_, path, repeat, False, reasons):
                click.echo(f"The {path} pass {repeat} is not accepted: {'; '.join(reasons)}", err=True)
            case Estimate(done, total, seconds) if seconds is not None and done < total:
                click.echo(f"  {done} of {total} trajectories, about {max(1, round(seconds / 60))} min left", err=True)
            case RunEnded(_, reason, _):
                self.reason = reason
            case RunFailed(_, message, hint):
                self.failure = AppError(message, hint)
