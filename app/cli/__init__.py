"""The commands. Each calls the session and prints; `--json` prints one documented object (resources/help/json.md)."""

from __future__ import annotations

import click
from click_default_group import DefaultGroup

from app import __version__, logs
from app.cli import bundling, doctor, files, reading, replaying, running, shrinking, window


@click.group(cls=DefaultGroup, default="open", default_if_no_args=True)
@click.version_option(__version__, prog_name="forkpoint")
def cli() -> None:
    """Same request, different answer: where, why, and can I show it?

    `forkpoint [FILE...]` opens the window; the commands below give the same results on the terminal.
    """
    logs.start()


for command in (
    window.open_,
    running.run,
    running.resume,
    doctor.doctor,
    reading.list_,
    reading.compare,
    reading.show,
    reading.summary,
    bundling.export,
    bundling.verify,
    replaying.replay,
    shrinking.shrink,
    files.unpack,
    files.quantise,
    window.shots,
    window.self_test,
):
    cli.add_command(command)


def main() -> None:
    """The `forkpoint` command."""
    cli()
