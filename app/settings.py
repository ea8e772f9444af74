"""What a person has chosen, in one small JSON file that is replaced whole and never lost."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from app import paths
from app.errors import SettingsError

THEMES = ("auto", "light", "dark")
LONGEST_RECENT = 10
BOUNDS: dict[str, tuple[float, float]] = {"near_tie": (0.0, 10.0), "text_scale": (0.5, 4.0), "threads": (0, 256)}
"""Least and largest value of each number."""


@dataclass
class Settings:
    """Whoever changes a field calls `save`. `near_tie` in nats; `threads` 0 is automatic; `last_model` "" the default.

    `recent` are absolute paths, newest first. `geometry` is the window's, as Qt saves it, in base64.
    """

    theme: str = "auto"
    near_tie: float = 0.1
    text_scale: float = 1.0
    threads: int = 0
    last_model: str = ""
    recent: list[str] = field(default_factory=list)
    geometry: str = ""

    def remember(self, file: Path) -> None:
        """Put a file on top of the recent ones."""
        name = str(file.absolute())
        self.recent = [name, *(other for other in self.recent if other != name)][:LONGEST_RECENT]

    def recent_files(self) -> list[Path]:
        """The recent files that are still there, newest first."""
        return [file for file in map(Path, self.recent) if file.is_file()]

    def check(self) -> None:
        """Raise SettingsError for the first value that cannot be used."""
        for each in fields(self):
            _check(each.name, getattr(self, each.name))

    def save(self, file: Path | None = None) -> None:
        """Replace the file at once, so that a crash leaves the old one or the new one. Raises SettingsError."""
        self.check()
        target = file or paths.settings_file()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, suffix=".new", delete=False) as new:
                json.dump(asdict(self), new, indent=2, ensure_ascii=False)
                new.flush()
                os.fsync(new.fileno())
            Path(new.name).replace(target)
        except OSError as error:
            raise SettingsError(
                f"The settings cannot be saved in {target}: {error.strerror}.", "They hold until you close."
            ) from error


def load(file: Path | None = None) -> tuple[Settings, str]:
    """The settings, and a sentence for a person where something was wrong with the file ("" else).

    A file that cannot be used as a whole is set aside under another name; what can be used of it is kept.
    """
    source = file or paths.settings_file()
    try:
        read = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Settings(), ""
    except OSError as error:
        return Settings(), f"The settings in {source} cannot be read ({error.strerror}); the defaults are used."
    except ValueError:
        read = None
    settings, wrong = _from_json(read)
    if not wrong:
        return settings, ""
    return settings, f"{wrong} {_set_aside(source)}"


def _from_json(read: Any) -> tuple[Settings, str]:
    """Settings of every value that can be used; unknown names are of a newer version and are passed over."""
    if not isinstance(read, dict):
        return Settings(), "The settings file cannot be read; the defaults are used."
    usable, wrong = {}, ""
    for name in [each.name for each in fields(Settings) if each.name in read]:
        try:
            _check(name, read[name])
            usable[name] = read[name]
        except SettingsError as error:
            wrong = wrong or error.message
    return Settings(**usable), wrong


def _check(name: str, value: object) -> None:
    if name in BOUNDS:
        least, largest = BOUNDS[name]
        whole = name == "threads"
        number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not (number and isinstance(value, int | float) and math.isfinite(value) and least <= value <= largest):
            raise SettingsError(f"The setting {name} is {value!r}.", f"It must be from {least} to {largest}.")
    elif name == "theme":
        if value not in THEMES:
            raise SettingsError(f"The setting theme is {value!r}.", f"It must be one of {', '.join(THEMES)}.")
    elif name == "recent":
        if not (isinstance(value, list) and all(isinstance(entry, str) for entry in value)):
            raise SettingsError("The setting recent is no list of files.", "Remove it from the file.")
    elif not isinstance(value, str):
        raise SettingsError(f"The setting {name} is {value!r}.", "It must be text.")


def _set_aside(source: Path) -> str:
    """Move the file out of the way, never over another one; says where it is now."""
    number = 1
    while (aside := source.with_name(f"{source.stem}.broken-{number}{source.suffix}")).exists():
        number += 1
    try:
        source.rename(aside)
    except OSError as error:
        return f"It could not be set aside ({error.strerror})."
    return f"The file was set aside as {aside}."
