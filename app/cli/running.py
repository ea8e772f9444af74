"""Commands that run an engine: run, resume."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from app.cli.engine_options import engine_options, take_engine
from app.cli.terminal import EXISTING, FILE, explained, finish_run, opened
from app.session import RunRequest, Sampling, resume_run, start_run


@click.command()
@click.option(
    "--engine",
    default="embedded",
    show_default=True,
    help='"embedded", "managed" (a llama-server that Forkpoint starts), or the URL of a server.',
)
@click.option(
    "--kind",
    type=click.Choice(["pair", "repeat"]),
    default="pair",
    show_default=True,
    help="Cached against recompute, or the cached path served again by one server.",
)
@click.option("--model", type=EXISTING, help="A GGUF file; the default model where absent.")
@click.option("--episodes", default="0-7", show_default=True, help="Indices and ids, e.g. 0-7,calendar-10.")
@click.option(
    "--import", "imported", type=EXISTING, help="A recorded conversation (JSON, JSONL) instead of --episodes."
)
@click.option("--repeat", default=2, show_default=True, help="How often each path runs.")
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
def run(engine: str, out: Path | None, as_json: bool, **options: Any) -> None:
    """Run episodes on the cached and on the recompute path, or twice on the cached one, and compare them."""
    with explained():
        sampling = Sampling(**{f.name: options.pop(f.name) for f in fields(Sampling)})
        handle = start_run(RunRequest(out=out, sampling=sampling, **take_engine(engine, options), **options))
        finish_run(handle, as_json)


@click.command()
@click.argument("file", type=EXISTING)
@click.option("--experiment", type=int, help="The newest where absent.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def resume(file: Path, experiment: int | None, as_json: bool) -> None:
    """Go on with a run that was stopped or killed."""
    with explained(), opened(file) as source:
        experiment_id = source.experiment(experiment).id
    with explained():
        finish_run(resume_run(file, experiment_id), as_json)
