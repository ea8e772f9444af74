"""The log file: what the app did and what went wrong, without secrets, in a megabyte or four."""

from __future__ import annotations

import logging
import os
import re
from logging.handlers import RotatingFileHandler
from pathlib import Path

from app import paths

LARGEST_BYTES = 1_000_000
OLDER_FILES = 3
HIDDEN = "[hidden]"

_NAMES = r"authorization|api[-_]?key|access[-_]?token|auth[-_]?token|hf[-_]?token|password|passwd|secret"
_VALUE = r"""(?:(?:bearer|basic)\s+)?(?:"[^"]*"|'[^']*'|[^\s,;&)}'"]+)"""
_SECRETS = (
    (re.compile(rf"""(?i)((?:{_NAMES})[\w-]{{0,20}}['"]?\s*[:=]\s*){_VALUE}"""), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"""(?i)(cookie['"]?\s*[:=]\s*).+"""), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:sk|hf|ghp|gho|github_pat|xox[bp])[-_][\w-]{8,}"), HIDDEN),  # keys by their usual shapes
    (re.compile(r"(://)[^/\s:@]{1,200}:[^/\s@]{1,200}@"), rf"\1{HIDDEN}@"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def without_secrets(text: str) -> str:
    """The text with keys, tokens and passwords hidden, and control characters written out."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class LogFile:
    """Writes what the app logs (INFO and up) to a file that rotates; `close` gives the file back.

    A log that cannot be written is no reason not to work: that is said on stderr, once.
    """

    def __init__(self, file: Path) -> None:
        self._logger = logging.getLogger("app")
        self._handler = RotatingFileHandler(
            file,
            maxBytes=LARGEST_BYTES,
            backupCount=OLDER_FILES,
            encoding="utf-8",
            errors="backslashreplace",
            delay=True,
        )
        self._handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s [%(threadName)s] %(message)s"))
        self._logger.setLevel(logging.INFO)
        for earlier in [handler for handler in self._logger.handlers if isinstance(handler, RotatingFileHandler)]:
            self._logger.removeHandler(earlier)  # one log file a process
            earlier.close()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            writable = os.access(file if file.exists() else file.parent, os.W_OK)
        except OSError:
            writable = False
        if writable:
            self._logger.addHandler(self._handler)
        else:
            self._logger.warning("The log file %s cannot be written.", file)

    def close(self) -> None:
        """Stop logging to the file; closing twice is harmless."""
        self._logger.removeHandler(self._handler)
        self._handler.close()


class _Formatter(logging.Formatter):
    """Hides secrets last, so that traces and arguments are covered too."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def start(file: Path | None = None) -> LogFile:
    """Begin to log, to the platform's log folder unless told otherwise."""
    return LogFile(file or paths.log_file())
