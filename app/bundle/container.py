"""The zip around a bundle's parts: written the same way every time, read with distrust, sealed to its last byte.

The archive comment is `forkpoint sha256:` and the SHA-256 of every byte before the zip's end record, which is the last
22 bytes and the comment. So a changed byte that no part can tell of (a date in a header) is still seen.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import BundleError

MOST_PARTS = 20_000
LARGEST_PART_BYTES = 256 * 2**20
LARGEST_TOTAL_BYTES = 1024 * 2**20
"""Unpacked. A hundred pairs of 2 x 3,000 steps take some 100 MB."""

LARGEST_DIRECTORY_BYTES = MOST_PARTS * 512
LARGEST_FILE_BYTES = 512 * 2**20

CONTAINER = "the container"
"""What is named where a change lies in no part but in the zip around them."""

_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX, _FILE_MODE = 3, stat.S_IFREG | 0o644
_END = struct.Struct("<4s4H2LH")  # APPNOTE.TXT 4.3.16, end of central directory record
_SEAL = b"forkpoint sha256:"
_NAME = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,100}(/(?!\.)[A-Za-z0-9._-]{1,100}){0,3}")
_LEVEL = 3  # level 6 takes twice the time and saves 6 %
_HINT = "Ask for the bundle again; nothing of it was opened or run."


@dataclass(frozen=True)
class Unpacked:
    """What a zip held: `parts` name -> bytes, `damaged` name -> what is wrong with those that cannot be unpacked,
    `flaw` what is wrong with the container itself, "" where it is as it was written."""

    parts: Mapping[str, bytes]
    damaged: Mapping[str, str] = field(default_factory=dict)
    flaw: str = ""


def pack(parts: Mapping[str, bytes]) -> bytes:
    """The parts as a sealed zip; equal parts give equal bytes (by the same zlib)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in sorted(parts):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = _UNIX, _FILE_MODE << 16
            archive.writestr(entry, parts[name], zipfile.ZIP_DEFLATED, _LEVEL)
    data = file.getvalue()
    body, end = data[: -_END.size], _END.unpack(data[-_END.size :])
    seal = _SEAL + hashlib.sha256(body).hexdigest().encode()
    return body + _END.pack(*end[:-1], len(seal)) + seal


def unpack(path: Path) -> Unpacked:
    """All parts of a zip, in memory; nothing is written, opened or run.

    Sizes are checked as declared before anything is unpacked, and again while it is. Raises BundleError where the file
    is no zip, is cut short, or holds what no bundle holds: a path that escapes, a link, a folder, a name twice, an
    encrypted part, more than the limits above.
    """
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise BundleError(f"{path.name} is larger than any bundle ({path.stat().st_size:,} bytes).", _HINT)
        data = path.read_bytes()
        _check_end(data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _check(path.name, entries)
            parts, damaged = _inflate(archive, entries)
            return Unpacked(parts, damaged, _flaw(data, archive))
    except OSError as error:
        raise BundleError(f"{path.name} cannot be read: {error.strerror or error}.", "Check the name.") from error
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, EOFError) as error:
        raise BundleError(
            f"{path.name} is no whole zip: {CONTAINER} is damaged or cut short ({error}).", _HINT
        ) from error


def _check_end(data: bytes) -> None:
    """Raise ValueError where the end record does not end the file, or the list of parts is larger than any bundle's.

    zipfile overlooks the one, and reads all of the other at once.
    """
    at = data.rfind(b"PK\5\6", max(0, len(data) - _END.size - 0xFFFF))
    if at < 0 or len(data) - at < _END.size:
        raise ValueError("it has no end record")
    *_, size, _, comment = _END.unpack_from(data, at)
    if at + _END.size + comment != len(data):
        raise ValueError("something is missing or was added at its end")
    if size > LARGEST_DIRECTORY_BYTES or data[max(0, at - 20) :].startswith(b"PK\6\7"):  # zip64 has another size
        raise ValueError(f"its list of parts takes {size:,} bytes")


def _check(file: str, entries: list[zipfile.ZipInfo]) -> None:
    """Raise BundleError for what no bundle holds, before anything is unpacked."""
    if len(entries) > MOST_PARTS:
        raise BundleError(f"{file} holds {len(entries):,} parts; a bundle holds at most {MOST_PARTS:,}.", _HINT)
    seen: set[str] = set()
    for entry in entries:
        reason = _refused(entry)
        if not reason and entry.filename.lower() in seen:  # the same file where the file system ignores case
            reason = "its name stands there twice"
        if reason:
            raise BundleError(f"{file} is refused: its part {entry.orig_filename!r:.120}: {reason}.", _HINT)
        seen.add(entry.filename.lower())
    total = sum(entry.file_size for entry in entries)
    if total > LARGEST_TOTAL_BYTES:
        raise BundleError(f"{file} is refused: unpacked it would take {total:,} bytes.", _HINT)


def _refused(entry: zipfile.ZipInfo) -> str:
    mode = entry.external_attr >> 16
    if not _NAME.fullmatch(entry.orig_filename):
        return "its name is not one of a bundle's"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "it is no ordinary file"
    if entry.flag_bits & 0x1:
        return "it is encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is packed in a way that bundles do not use"
    if entry.file_size > LARGEST_PART_BYTES:
        return f"unpacked it would take {entry.file_size:,} bytes"
    return ""


def _inflate(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> tuple[dict[str, bytes], dict[str, str]]:
    parts, damaged = dict[str, bytes](), dict[str, str]()
    for entry in entries:
        try:
            with archive.open(
                entry
            ) as file:  # hands out file_size bytes at most, whatever there is, and checks its CRC
                data = file.read(LARGEST_PART_BYTES + 1)
            if len(data) == entry.file_size:
                parts[entry.filename] = data
            else:
                damaged[entry.filename] = f"it ends after {len(data):,} of {entry.file_size:,} bytes"
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
            damaged[entry.filename] = f"it cannot be unpacked ({error})"
    return parts, damaged


def _flaw(data: bytes, archive: zipfile.ZipFile) -> str:
    """What is wrong with the bytes around the parts, "" where nothing is."""
    size = _END.size + len(archive.comment)
    body, end = data[:-size], data[-size:]
    seal = _SEAL + hashlib.sha256(body).hexdigest().encode()
    count, start = len(archive.infolist()), archive.start_dir
    expected = _END.pack(b"PK\5\6", 0, 0, count, count, len(body) - start, start, len(seal)) + seal
    if not archive.comment.startswith(_SEAL):
        return "it was packed anew by another program, so its seal is gone"
    return "" if end == expected else "bytes around the parts were changed"
