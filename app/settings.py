"""What a person has chosen, in one small JSON file that is replaced whole and never lost."""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from app import paths
from app.errors import SettingsError

THEMES = ("auto", "light", "dark")
LONGEST_RECENT = 10
BOUNDS: dict[str, tuple[float, float]] = {"near_tie": (0.0, 10.0), "text_scale": (0.5, 4.0), "threads": (0, 256)}
"""Least and largest value of each number."""


@dataclass
class Settings:
    """Whoever changes a field calls `save`. `near_tie` in nats; `threads` 0 is automatic; `last_model` "" the default;
    `last_server` is the address of the server that was run on last.

    `recent` are absolute paths, newest first; `window_size` is width and height in pixels. `file` is where they were
    loaded from and are saved to; settings from no file are not saved (tests, screenshots). `notice` is a sentence for
    a person where something was wrong with that file, "" else.
    """

    theme: str = "auto"
    near_tie: float = 0.1
    text_scale: float = 1.0
    threads: int = 0
    last_model: str = ""
    last_server: str = ""
    recent: list[str] = field(default_factory=list)
    window_size: tuple[int, int] | None = None
    file: Path | None = field(default=None, compare=False)
    notice: str = field(default="", compare=False)

    @classmethod
    def load(cls, file: Path | None = None) -> Settings:
        """The settings of a file, by default the person's own; the defaults where there is none.

        A file that cannot be used as a whole is set aside under another name; what can be used of it is kept.
        """
        source = file or paths.settings_file()
        read: Any = {}
        try:
            read = json.loads(source.read_text(encoding="utf-8"))
        except FileNotFoundError:
            pass
        except OSError as error:
            notice = f"The settings in {source} cannot be read ({error.strerror}); the defaults are used."
            return cls(notice=notice)
        except (ValueError, RecursionError):
            read = None
        usable, wrong = _usable(read)
        settings = cls(**usable, file=source, notice=wrong)
        if wrong:
            settings._set_aside(source)
        return settings

    def remember(self, file: Path) -> None:
        """Put a file on top of the recent ones."""
        name = str(file.absolute())
        self.recent = [name, *(other for other in self.recent if other != name)][:LONGEST_RECENT]

    def recent_files(self) -> list[Path]:
        """The recent files that are still there, newest first."""
        return [file for file in map(Path, self.recent) if file.is_file()]

    def check(self) -> None:
        """Raise SettingsError for the first value that cannot be used."""
        for name in SAVED:
            _check(name, getattr(self, name))

    def save(self) -> None:
        """Replace the file at once, so that a crash leaves the old one or the new one. Raises SettingsError."""
        self.check()
        if self.file is None:
            return
        target = self.file
        new = target.with_name(f"{target.name}.{os.getpid()}.new")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with new.open("w", encoding="utf-8") as stream:
                json.dump({name: getattr(self, name) for name in SAVED}, stream, indent=2, ensure_ascii=False)
                stream.flush()
                os.fsync(stream.fileno())
            new.replace(target)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            problem = f"The settings cannot be saved in {target}: {error.strerror}."
            raise SettingsError(problem, "They hold until you close.") from error

    def _set_aside(self, broken: Path) -> None:
        """Move the broken file out of the way, never over another one; where that fails, nothing is saved over it."""
        number = 1
        while (aside := broken.with_name(f"{broken.stem}.broken-{number}{broken.suffix}")).exists():
            number += 1
        try:
            broken.rename(aside)
        except OSError as error:
            self.file = None
            self.notice += f" The file could not be set aside ({error.strerror}); changes are not saved."
        else:
            self.notice += f" The file was set aside as {aside}."


SAVED = tuple(each.name for each in fields(Settings) if each.compare)


def _usable(read: Any) -> tuple[dict[str, Any], str]:
    """Every value that can be used, and what is wrong; unknown names are of a newer version and are passed over."""
    if not isinstance(read, dict):
        return {}, "The settings file cannot be read; the defaults are used."
    usable, wrong = {}, ""
    for name in [name for name in SAVED if name in read]:
        value = tuple(read[name]) if name == "window_size" and isinstance(read[name], list) else read[name]
        try:
            _check(name, value)
            usable[name] = value
        except SettingsError as error:
            wrong = wrong or error.message
    return usable, wrong


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
    elif name == "window_size":
        sides = value if isinstance(value, tuple) else ()
        if value is not None and not (
            len(sides) == 2 and all(type(side) is int and 0 < side < 1 << 16 for side in sides)
        ):
            raise SettingsError(f"The setting window_size is {value!r}.", "It must be two numbers of pixels.")
    elif not isinstance(value, str):
        raise SettingsError(f"The setting {name} is {value!r}.", "It must be text.")
