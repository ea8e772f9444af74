"""Where things lie: a person's data, settings and log by the platform's rules, and the resources that came with us."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path

from platformdirs import PlatformDirs

from app.errors import SettingsError

_DIRS = PlatformDirs("forkpoint", appauthor=False)
SUFFIX = ".forkpoint"


def data_dir() -> Path:
    """The folder of unnamed runs; it may not exist yet."""
    return Path(_DIRS.user_data_dir)


def settings_file() -> Path:
    """The file of settings; it may not exist yet."""
    return Path(_DIRS.user_config_dir) / "settings.json"


def log_file() -> Path:
    """The newest log file; it may not exist yet."""
    return Path(_DIRS.user_log_dir) / "forkpoint.log"


def unnamed_run(now: datetime | None = None) -> Path:
    """A new name in the data folder for a run that nobody named; `now` is local time.

    No two runs get the same name, whatever an earlier one left behind: SQLite would take a dead run's write-ahead log
    for this one's. Raises SettingsError where the folder cannot be made.
    """
    folder = data_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The data folder {folder} cannot be made: {error.strerror}.", "Name a file with --out."
        ) from error
    return folder / f"run-{now or datetime.now():%Y-%m-%d-%H%M%S}-{secrets.token_hex(2)}{SUFFIX}"


def resources_dir() -> Path:
    """The folder of icons, help pages and the sample: it lies beside `app`, in a checkout and where installed."""
    return Path(__file__).parent.parent / "resources"


def sample_file() -> Path:
    """The recorded sample run."""
    return resources_dir() / f"demo{SUFFIX}"
