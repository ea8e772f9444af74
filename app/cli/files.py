"""Commands that make one file of another: unpack, quantise."""

from __future__ import annotations

from pathlib import Path

import click

from app import session
from app.cli.terminal import EXISTING, FILE, explained


@click.command()
@click.argument("file", type=EXISTING)
@click.option("--out", type=FILE, required=True, help="The plain SQLite file to write.")
def unpack(file: Path, out: Path) -> None:
    """Write plain row-per-step tables, for Datasette and the sqlite3 shell."""
    with explained():
        session.unpack(file, out)
    click.echo(str(out))


@click.command()
@click.argument("source", type=EXISTING)
@click.argument("type_name")
@click.option("--out", type=FILE, required=True, help="The GGUF file to write.")
def quantise(source: Path, type_name: str, out: Path) -> None:
    """Requantise a GGUF file with llama.cpp's quantiser, e.g. to F16 for the dequantised control."""
    with explained():
        session.quantise(source, out, type_name)
    click.echo(str(out))
