"""Commands that read a file or a bundle: list, compare, show, summary. What others wrote is shown and never obeyed."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import click

from app import session
from app.cli.terminal import EXISTING, explained, opened
from app.trajectory.pair import PairRow
from app.trajectory.piece_text import inert
from app.trajectory.report import STEP_COLUMNS, is_finished, pair_report, row_report, step_rows, token_lines


@click.command(name="list")
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
        click.echo(inert(f"{info.title} ({info.created}, {info.status})"))
        for row in rows:
            click.echo(inert(f"{mark_of(row)} {row.episode_id:14} {row.headline}"))


def mark_of(row: PairRow) -> str:
    """The mark of a pair as in the window's table; what does not count is neither a fork nor equal."""
    if row.valid is False:
        return "?" if row.code == "unproven" else "✗"
    if row.diverged is None:
        return "…"
    return {"equal": "○", "drift": "≈", "open": "…"}.get(row.code, "◆")


@click.command()
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
            verdict = pair.verdict
            click.echo(inert(f"{verdict.headline}\n{verdict.detail}\n[{verdict.code}] {verdict.rule}"))
    counts = pair.comparison.valid and is_finished(pair)
    sys.exit(int(pair.comparison.fork is not None) if counts else 2)


@click.command()
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
            click.echo(inert(line))


@click.command()
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
