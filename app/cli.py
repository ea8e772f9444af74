"""The commands. Each calls the session and prints; `--json` prints one documented object (resources/help/json.md)."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click
from click_default_group import DefaultGroup

from app import __version__, logs, session
from app.errors import AppError
from app.session import KV_TYPES, EmbeddedSettings, RunHandle, RunRequest, Sampling, Session, resume_run, start_run
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
from app.trajectory.report import STEP_COLUMNS, is_finished, pair_report, row_report, step_rows, token_lines

F = TypeVar("F", bound=Callable[..., Any])
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


@click.group(cls=DefaultGroup, default="open", default_if_no_args=True)
@click.version_option(__version__, prog_name="forkpoint")
def cli() -> None:
    """Same request, different answer: where, why, and can I show it?

    `forkpoint [FILE...]` opens the window; the commands below give the same results on the terminal.
    """
    logs.start()


@cli.command(name="open")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--demo", is_flag=True, help="Run the demo at once; without a display, render it offscreen.")
@click.option("--shots", "folder", type=click.Path(path_type=Path, file_okay=False), default=Path("shots"),
              help="Where the demo saves its screenshots without a display.")  # fmt: skip
def open_(files: tuple[Path, ...], demo: bool, folder: Path) -> None:
    """Open the window, on FILES where given (the default command)."""
    from app import application

    if has_display():
        sys.exit(application.main(list(files), demo=demo))
    if demo:
        click.echo("No display: rendering the demo offscreen.", err=True)
        sys.exit(application.offscreen_demo(folder))
    raise click.ClickException("There is no display to open a window on. `forkpoint --help` lists the commands.")


def has_display() -> bool:
    """Whether a window can be shown: always off Linux, with a display server or a chosen Qt platform on it."""
    if sys.platform in ("win32", "darwin"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))


def engine_options(command: F) -> F:
    """The embedded engine's settings as options, named as llama.cpp names them."""
    kinds: dict[str, Any] = {"type_k": click.Choice(KV_TYPES), "type_v": click.Choice(KV_TYPES)}
    for setting in reversed(fields(EmbeddedSettings)):
        flag = setting.name.replace("_", "-")
        is_switch = isinstance(setting.default, bool)
        command = click.option(
            f"--{flag}/--no-{flag}" if is_switch else f"--{flag}",
            type=None if is_switch else kinds.get(setting.name, type(setting.default)),
            default=setting.default,
            show_default=True,
        )(command)
    return command


@cli.command()
@click.option("--model", type=EXISTING, help="A GGUF file; the default model where absent.")
@click.option("--episodes", default="0-7", show_default=True, help="Indices and ids, e.g. 0-7,calendar-10.")
@click.option(
    "--import", "imported", type=EXISTING, help="A recorded conversation (JSON, JSONL) instead of --episodes."
)
@click.option("--repeat", default=2, show_default=True, help="How often each path runs from an empty state.")
@click.option("--repeat-first", type=int, help="Repeat only the first N episodes.")
@click.option("--rivals", default=5, show_default=True, help="Most probable tokens kept at each step.")
@click.option("--max-tokens", default=RunRequest.max_tokens, show_default=True, help="Longest answer.")
@click.option("--history", type=click.Choice(["tokens", "chat"]), default="tokens", show_default=True,
              help="Continue on sampled ids, or render and tokenise anew as a chat client would.")  # fmt: skip
@click.option("--until-fork", is_flag=True, help="Pair by pair until one forks, three minutes at most.")
@click.option("--temperature", default=0.0, show_default=True, help="0 is greedy.")
@click.option("--top-k", default=Sampling().top_k, show_default=True)
@click.option("--top-p", default=Sampling().top_p, show_default=True)
@click.option("--seed", default=Sampling().seed, show_default=True)
@engine_options
@click.option("--out", type=FILE, help="The .forkpoint file to write or add to; an unnamed one where absent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def run(out: Path | None, as_json: bool, **options: Any) -> None:
    """Run episodes on the cached and on the recompute path, and compare them."""
    with explained():
        sampling = Sampling(**{f.name: options.pop(f.name) for f in fields(Sampling)})
        settings = EmbeddedSettings(**{f.name: options.pop(f.name) for f in fields(EmbeddedSettings)})
        handle = start_run(RunRequest(out=out, sampling=sampling, settings=settings, **options))
        finish_run(handle, as_json)


@cli.command()
@click.argument("file", type=EXISTING)
@click.option("--experiment", type=int, help="The newest where absent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def resume(file: Path, experiment: int | None, as_json: bool) -> None:
    """Go on with a run that was stopped or killed."""
    with explained(), opened(file) as source:
        experiment_id = source.experiment(experiment).id
    with explained():
        finish_run(resume_run(file, experiment_id), as_json)


@contextmanager
def opened(file: Path) -> Iterator[Session]:
    """A session that is closed afterwards."""
    session = Session.open(file)
    try:
        yield session
    finally:
        session.close()


def finish_run(handle: RunHandle, as_json: bool) -> None:
    """Follow a run to its end, on stderr. Exits 2 where it failed.

    Ctrl+C stops it and keeps what was recorded; a second one does not wait for that, nor for a model that loads.
    """
    previous = signal.getsignal(signal.SIGINT)

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, previous)
        handle.stop()

    progress = Progress()
    signal.signal(signal.SIGINT, stop)
    try:
        while not handle.join(0.1):
            progress.show_all(handle.inbox)
        progress.show_all(handle.inbox)
    finally:
        signal.signal(signal.SIGINT, previous)
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
            case RunStarted(experiment_id, title, episodes, repeats):
                self.experiment_id = experiment_id
                click.echo(f"{title}: {episodes} episode{'s' * (episodes != 1)}, both paths, {repeats} x", err=True)
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


@cli.command(name="list")
@click.argument("file", type=EXISTING)
@click.option("--experiment", type=int, help="The newest where absent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(file: Path, experiment: int | None, as_json: bool) -> None:
    """List the pairs of an experiment."""
    with explained(), opened(file) as source:
        info = source.experiment(experiment)
        rows = source.rows(info.id)
        if as_json:
            report = {
                "file": str(file),
                "experiment": info.id,
                "title": info.title,
                "created": info.created,
                "status": str(info.status),
                "experiments": [{"id": e.id, "title": e.title, "created": e.created} for e in source.experiments()],
                "pairs": [row_report(row) for row in rows],
            }
            click.echo(json.dumps(report, ensure_ascii=False))
            return
        click.echo(f"{info.title} ({info.created}, {info.status})")
        for row in rows:
            mark = "≈" if row.code == "drift" else {True: "◆", False: "○", None: "·"}[row.diverged]
            click.echo(f"{mark} {row.episode_id:14} {row.headline}{'' if row.valid is not False else '  [invalid]'}")


@cli.command()
@click.argument("file", type=EXISTING)
@click.option("--episode", required=True, help="Episode id, e.g. calendar-02.")
@click.option("--experiment", type=int, help="The newest where absent.")
@click.option("--repeat", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(file: Path, episode: str, experiment: int | None, repeat: int, as_json: bool) -> None:
    """Compare both paths of an episode. Exits 0 without a fork, 1 with one, 2 on an error or a pair that is invalid,
    unproven or unfinished."""
    with explained(), opened(file) as source:
        pair = source.pair(source.experiment(experiment).id, episode, repeat)
        if as_json:
            click.echo(json.dumps(pair_report(pair), ensure_ascii=False))
        else:
            click.echo(f"{pair.verdict.headline}\n{pair.verdict.detail}\n[{pair.verdict.code}] {pair.verdict.rule}")
    counts = pair.comparison.valid and is_finished(pair)
    sys.exit(int(pair.comparison.fork is not None) if counts else 2)


@cli.command()
@click.argument("file", type=EXISTING)
@click.option("--episode", required=True, help="Episode id, e.g. calendar-02.")
@click.option("--experiment", type=int, help="The newest where absent.")
@click.option("--repeat", default=1, show_default=True)
@click.option("--csv", "as_csv", is_flag=True, help="A row per step of both paths.")
def show(file: Path, episode: str, experiment: int | None, repeat: int, as_csv: bool) -> None:
    """Print both paths' tokens, the fork marked."""
    with explained(), opened(file) as source:
        pair = source.pair(source.experiment(experiment).id, episode, repeat)
    if as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(STEP_COLUMNS)
        writer.writerows(step_rows(pair))
    else:
        for line in token_lines(pair):
            click.echo(line)


@cli.command()
@click.argument("file", type=EXISTING)
@click.option("--experiment", type=int, help="The newest where absent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def summary(file: Path, experiment: int | None, as_json: bool) -> None:
    """Count an experiment's forks, with intervals; invalid and unfinished pairs are left out."""
    with explained(), opened(file) as source:
        found = source.summary(source.experiment(experiment).id)
    if as_json:
        click.echo(json.dumps(session.summary_report(found)))
    else:
        for line in session.summary_lines(found):
            click.echo(line)


@cli.command()
@click.argument("file", type=EXISTING)
@click.option("--out", type=FILE, required=True, help="The plain SQLite file to write.")
def unpack(file: Path, out: Path) -> None:
    """Write plain row-per-step tables, for Datasette and the sqlite3 shell."""
    with explained():
        session.unpack(file, out)
    click.echo(str(out))


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--file", type=EXISTING, help="The run to show; the sample where absent.")
def shots(folder: Path, file: Path | None) -> None:
    """Save screenshots of the window's states, both sizes, light and dark."""
    from app import application

    with explained():
        for picture in application.shots(folder, file):
            click.echo(str(picture))


@cli.command()
@click.argument("source", type=EXISTING)
@click.argument("type_name")
@click.option("--out", type=FILE, required=True, help="The GGUF file to write.")
def quantise(source: Path, type_name: str, out: Path) -> None:
    """Requantise a GGUF file with llama.cpp's quantiser, e.g. to F16 for the dequantised control."""
    with explained():
        session.quantise(source, out, type_name)
    click.echo(str(out))


@cli.command(name="self-test")
def self_test() -> None:
    """Check this installation: model, engine, both paths, file, window."""
    from app import application

    checks = {**session.SELF_TESTS, "a window opens": application.self_test}
    failed = False
    for name, check in checks.items():
        try:
            click.echo(f"ok    {name}: {check()}")
        except AppError as error:
            failed = True
            click.echo(f"FAIL  {name}: {error}")
    sys.exit(2 if failed else 0)


def main() -> None:
    """The `forkpoint` command."""
    cli()
