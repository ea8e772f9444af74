"""Reading a bundle that somebody sent: nothing in it is believed, opened or run."""

from __future__ import annotations

import math
from pathlib import Path

from app.bundle.container import unpack
from app.bundle.format import FORMAT, FORMAT_VERSION, BundleContents, Manifest
from app.bundle.names import describe
from app.bundle.parts import CARD, contents_of
from app.bundle.write import MANIFEST, SUMS
from app.errors import BundleError, StoreError
from app.trajectory.codec import decode, parse

_AGAIN = "Ask for the bundle again."


def read_bundle(path: Path) -> BundleContents:
    """What the bundle holds. Raises BundleError, which names the part, where something of it cannot be read.

    Checksums are not looked at: `verify_bundle` does that.
    """
    unpacked = unpack(path)
    for name, why in unpacked.damaged.items():
        raise BundleError(f"The part {name} of {path.name} is damaged: {why}.", _AGAIN)
    manifest = manifest_of(unpacked.parts.get(MANIFEST))
    if extra := unexpected(manifest, set(unpacked.parts)):
        name, why = extra[0]
        raise BundleError(f"The part {name} of {path.name} {why}.", _AGAIN)
    return contents_of(manifest, unpacked.parts)


def manifest_of(data: bytes | None) -> Manifest:
    """The manifest. Raises BundleError where it is none, or one of a newer Forkpoint."""
    if data is None:
        raise BundleError(f"This zip is no Forkpoint bundle: it has no {MANIFEST}.", "Choose another file.")
    try:
        fields = parse(data)
    except StoreError as error:
        raise BundleError(f"The part {MANIFEST} cannot be read: {error.message}", _AGAIN) from error
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise BundleError(f"This zip is no Forkpoint bundle: its {MANIFEST} is another one.", "Choose another file.")
    version = fields.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise BundleError(
            f"This bundle was written by a newer Forkpoint (format {version}; this one reads up to {FORMAT_VERSION}).",
            "Open it with a newer Forkpoint.",
        )
    try:
        manifest: Manifest = decode(Manifest, fields)
    except StoreError as error:
        raise BundleError(f"The part {MANIFEST} cannot be read: {error.message}", _AGAIN) from error
    if not math.isfinite(manifest.near_tie) or not manifest.pairs:
        raise BundleError(f"The part {MANIFEST} names no pairs, or no near tie.", _AGAIN)
    for name in [*(part.name for part in manifest.parts), *(f"{folder}/{CARD}" for folder in manifest.pairs)]:
        if not describe(name):
            raise BundleError(f"The part {MANIFEST} names what no bundle holds: {name!a:.120}.", _AGAIN)
    return manifest


def unexpected(manifest: Manifest, names: set[str]) -> list[tuple[str, str]]:
    """Parts that are missing or that the manifest does not list, and which of both they are."""
    listed = {part.name for part in manifest.parts} | {MANIFEST, SUMS}
    missing = [(name, "is missing") for name in sorted(listed - names)]
    unknown = [(name, "is not in its manifest") for name in sorted(names - listed)]
    return missing + unknown
