"""Commands that need Qt: open, shots, self-test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from app import session
from app.cli.terminal import EXISTING, explained
from app.errors import AppError


@click.command(name="open")
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


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--file", type=EXISTING, help="The run to show; the sample where absent.")
@click.option("--server", default="", help="Address of a server that is shown as tested.")
def shots(folder: Path, file: Path | None, server: str) -> None:
    """Save screenshots of the window's states, both sizes, light and dark."""
    from app import application

    with explained():
        for picture in application.shots(folder, file, server):
            click.echo(str(picture))


@click.command(name="self-test")
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
