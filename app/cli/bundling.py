"""Commands on bundles: export, verify."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import click

from app import session
from app.cli.terminal import EXISTING, FILE, explained, interruptible, opened
from app.errors import BundleError
from app.session import FORMS, QUESTIONS, REDACTIONS, ExportRequest, Form, Redaction

STATES = ("whole", "altered", "unreadable")
"""What `verify` finds, in the order of its exit codes."""


@click.command()
@click.argument("file", type=EXISTING)
@click.option("--pair", "pairs", multiple=True, metavar="EPISODE",
              help="Episode id, e.g. calendar-02; may be given more than once, or as a list with commas.")  # fmt: skip
@click.option("--marked", is_flag=True, help="All pairs that are marked, each with its own note.")
@click.option("--out", type=FILE, required=True, help="The zip to write.")
@click.option("--experiment", type=int, help="The newest where absent.")
@click.option("--redact", type=click.Choice(REDACTIONS), default="none", show_default=True,
              help="Texts out and ids exchanged, or nothing left that tells a token.")  # fmt: skip
@click.option("--form", type=click.Choice(FORMS), help="Whose issue form report.md follows; the engine's where absent.")
@click.option("--no-verify", is_flag=True, help="Do not run the repro scripts before the export.")
@click.option("--model", type=EXISTING, help="The model file for the repro scripts; the run's own where absent.")
@click.option("--server-binary", type=EXISTING, help="The llama-server that they are run against; else that on PATH.")
@click.option("--gpu", metavar="TEXT", help=QUESTIONS["gpu"])
@click.option("--launch", metavar="TEXT", help=QUESTIONS["launch"])
@click.option("--link", metavar="TEXT", help=QUESTIONS["link"])
@click.option("--note", default="", metavar="TEXT", help="What you want to say about the pairs.")
@click.option("--log", "log_file", type=EXISTING, help="A file with what the engine's log says around the request.")
@click.option("--force", is_flag=True, help="Replace the zip where it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def export(
    file: Path, pairs: tuple[str, ...], marked: bool, out: Path, experiment: int | None, redact: Redaction,
    form: Form | None, no_verify: bool, model: Path | None, server_binary: Path | None, note: str,
    log_file: Path | None, force: bool, as_json: bool, **answers: str | None,
) -> None:  # fmt: skip
    """Write pairs into a bundle that a maintainer can open, check and replay. What looks private is told on stderr."""
    names = tuple(name.strip() for given in pairs for name in given.split(",") if name.strip())
    with explained(), opened(file) as source:
        marks = session.marks_of(source, source.experiment(experiment).id)
        names = tuple(dict.fromkeys([*names, *(marks if marked else ())]))
        if not names:
            what = "No pair of it is marked." if marked else "No pair is named."
            raise BundleError(what, "Name one with --pair, or mark pairs in the window and say --marked.")
        request = ExportRequest(
            episodes=names,
            experiment=experiment,
            redaction=redact,
            form=form,
            answers={key: text for key, text in answers.items() if text},
            notes={name: note or marks.get(name, "") for name in names},
            logs=dict.fromkeys(names, session.log_excerpt(log_file) if log_file else ""),
        )
        runner = session.ScriptRunner(model or session.model_of(source, experiment), server_binary)
        stop = threading.Event()
        with interruptible(stop.set):
            made = session.export_pairs(
                source, request, out, replace=force, run_scripts=None if no_verify else runner,
                tell=lambda said: click.echo(said, err=True), stop=stop,
            )  # fmt: skip
    if made is None:
        click.echo("Stopped; nothing was written.", err=True)
        sys.exit(130)
    for key in session.open_questions(made.contents):
        click.echo(f"Left open in the report: {QUESTIONS[key]} (--{key})", err=True)
    if as_json:
        click.echo(json.dumps(session.export_report(made, out), ensure_ascii=False))
    else:
        click.echo(str(out))


@click.command()
@click.argument("bundle", type=EXISTING)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(bundle: Path, as_json: bool) -> None:
    """Check that a bundle is as it was written. Exits 0 where it is whole, 1 where it was altered, 2 where it cannot be
    read. Runs nothing of it."""
    found = session.verify(bundle)
    if as_json:
        click.echo(json.dumps(session.verification_report(found, bundle), ensure_ascii=False))
    else:
        click.echo(found.sentence)
        for name, why in found.findings.items():
            click.echo(f"  {name} {why}")
    sys.exit(STATES.index(found.state))
