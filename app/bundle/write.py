"""Writing a bundle: all of it or nothing; and showing beforehand what is in it, file by file."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.bundle.container import pack
from app.bundle.format import (
    CANNOT,
    FORMAT,
    FORMAT_VERSION,
    LABELS,
    QUESTIONS,
    BundleContents,
    Manifest,
    Part,
    folder_of,
)
from app.bundle.names import describe
from app.bundle.parts import data_parts
from app.errors import BundleError
from app.trajectory.codec import WIRE_VERSION, compact, encode

MANIFEST, SUMS, README = "manifest.json", "SHA256SUMS", "README.txt"

_ZIP = b"PK\3\4"
"""How every zip with a file in it begins."""


@dataclass(frozen=True)
class PreviewLine:
    """A file that would leave the machine: its name in the zip, size in bytes, what it is, and all that it holds."""

    name: str
    size: int
    what: str
    data: bytes

    @property
    def text(self) -> str:
        """What it holds, as text; every part is text."""
        return self.data.decode("utf-8", errors="replace")


def preview(contents: BundleContents, extra: Mapping[str, str | bytes] | None = None) -> list[PreviewLine]:
    """Exactly what `write_bundle` would write of the same arguments, in the order of the zip."""
    return [
        PreviewLine(name, len(data), describe(name), data) for name, data in sorted(parts_of(contents, extra).items())
    ]


def write_bundle(
    contents: BundleContents, target: Path, extra: Mapping[str, str | bytes] | None = None, *, replace: bool = False
) -> int:
    """Write a bundle, with files made from it (reports, scripts) in `extra`, by name; returns its size in bytes.

    The file appears whole under its name or not at all, also where the disk is full or the process is killed. Raises
    BundleError where `check_target` does, or where it cannot be written.
    """
    check_target(target, replace=replace)
    data = pack(parts_of(contents, extra))
    try:
        _write_whole(target, data)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        why = "the disk is full" if full else error.strerror or str(error)
        hint = f"It needs {len(data):,} bytes; nothing was left behind." if full else "Choose another folder."
        raise BundleError(f"{target.name} cannot be written: {why}.", hint) from error
    return len(data)


def check_target(target: Path, *, replace: bool) -> None:
    """Raise BundleError where a bundle may not be written there: the file exists already (unless `replace`), or it is
    anything else than a zip: a bundle never takes the place of recorded runs."""
    if not target.exists():
        return
    if not replace:
        raise BundleError(f"{target.name} exists already.", "Choose another name, or replace it with --force.")
    try:
        replaceable = target.is_file() and _first_bytes(target) in (b"", _ZIP)
    except OSError as error:
        raise BundleError(
            f"{target.name} cannot be read: {error.strerror or error}.", "Choose another name."
        ) from error
    if not replaceable:
        raise BundleError(f"{target.name} is no bundle, so it is not replaced.", "Choose another name.")


def parts_of(contents: BundleContents, extra: Mapping[str, str | bytes] | None = None) -> dict[str, bytes]:
    """Every file of the zip, by name: data, `extra`, README.txt, manifest.json and SHA256SUMS. Raises BundleError where
    a name of `extra` is none that a bundle may have."""
    parts = data_parts(contents) | {
        name: data.encode(errors="backslashreplace") if isinstance(data, str) else data
        for name, data in (extra or {}).items()
    }
    parts[README] = _readme(contents).encode()
    for name in parts:
        if not describe(name):
            raise BundleError(
                f"{name} is no file that a bundle may hold.", "resources/help/bundle-format.md lists them."
            )
    manifest = _manifest(contents, parts)
    parts[MANIFEST] = (compact(encode(manifest)) + "\n").encode()
    parts[SUMS] = sums(manifest, hashlib.sha256(parts[MANIFEST]).hexdigest())
    return parts


def sums(manifest: Manifest, manifest_sha256: str) -> bytes:
    """SHA256SUMS, as `sha256sum -c` reads it: follows from the manifest and its own digest."""
    lines = [*((part.sha256, part.name) for part in manifest.parts), (manifest_sha256, MANIFEST)]
    return "".join(f"{digest}  {name}\n" for digest, name in lines).encode()


def _manifest(contents: BundleContents, parts: Mapping[str, bytes]) -> Manifest:
    return Manifest(
        format=FORMAT,
        format_version=FORMAT_VERSION,
        wire_version=WIRE_VERSION,
        app_version=contents.app_version,
        created=contents.created,
        redaction=contents.redaction,
        redaction_label=LABELS[contents.redaction],
        cannot=CANNOT[contents.redaction],
        form=contents.form,
        near_tie=contents.near_tie,
        experiment=contents.experiment,
        questions=QUESTIONS,
        answers=contents.answers,
        replay_log=contents.replay_log,
        pairs=tuple(folder_of(n, part.pair.cached.episode_id) for n, part in enumerate(contents.pairs, 1)),
        parts=tuple(Part(name, len(parts[name]), hashlib.sha256(parts[name]).hexdigest()) for name in sorted(parts)),
    )


def _readme(contents: BundleContents) -> str:
    lines = [
        "This is a Forkpoint bundle: requests that a language model answered in another way when the beginning of the",
        "prompt came from the key-value cache, with everything needed to look at the difference.",
        "",
        "report.html      open it in a browser: the fork, both answers, the margins",
        "report.md        the same as tables, in the fields of an issue form",
        "manifest.json    engine, model, settings, and a list of all files",
        "pairs/           a folder for each pair: its data in JSON, and scripts that show the fork without Forkpoint,",
        "                 where there are any (repro*): read them, then run them",
        "",
        "Check that it is whole:  sha256sum -c SHA256SUMS   or   forkpoint verify FILE.zip",
        "Look at it in Forkpoint: forkpoint FILE.zip",
        "The format is described in resources/help/bundle-format.md of the Forkpoint repository.",
        "",
        LABELS[contents.redaction],
        *CANNOT[contents.redaction],
    ]
    return "\n".join(lines) + "\n"


def _first_bytes(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(len(_ZIP))


def _write_whole(target: Path, data: bytes) -> None:
    """Into a new file beside the target, onto the disk, then under its name."""
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with unfinished.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
