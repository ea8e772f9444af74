"""Bundles: shown beforehand, written, and checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from app.bundle.format import BundleContents
from app.bundle.report_html import report_html
from app.bundle.report_md import issue_text, report_md
from app.bundle.repro import repro_files
from app.bundle.scan import Suspect, scan
from app.bundle.scrub import Machine
from app.bundle.verify import Verification, verify_bundle
from app.bundle.write import PreviewLine, check_target, preview, write_bundle
from app.session.bundle_contents import ExportRequest, gather
from app.session.session import Session

REPORT_HTML, REPORT_MD = "report.html", "report.md"

Tell = Callable[[str], None]
RunScripts = Callable[[BundleContents, Mapping[str, str], Tell, threading.Event], Mapping[str, str]]
"""Runs repro scripts before an export: (contents, scripts by name, tell, stop) -> what each printed, by its name."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A bundle before it is written: its `contents`, the files made from them, and what looks private in it."""

    contents: BundleContents
    extra: Mapping[str, str]
    suspects: tuple[Suspect, ...]

    @property
    def lines(self) -> list[PreviewLine]:
        """Exactly what will leave the machine, file by file."""
        return preview(self.contents, self.extra)

    def write(self, target: FilePath, *, replace: bool = False) -> int:
        """Write it, all or nothing; returns the size in bytes. Raises BundleError."""
        return write_bundle(self.contents, target, self.extra, replace=replace)


def preview_export(session: Session, request: ExportRequest) -> Prepared:
    """What an export would write, without running its scripts. Reads only. Raises StoreError or BundleError."""
    return _prepared(gather(session, request), {})


def export_pairs(
    session: Session,
    request: ExportRequest,
    target: FilePath,
    *,
    replace: bool = False,
    run_scripts: RunScripts | None = None,
    tell: Tell = lambda _: None,
    stop: threading.Event | None = None,
) -> Prepared | None:
    """Write a bundle of these pairs, after running its repro scripts where `run_scripts` is given.

    Reads the session's file only, so a run may go on in it. `tell` is told what happens, a sentence at a time. None
    where `stop` was set before it was written. Raises StoreError or BundleError; nothing is left behind then.
    """
    stop = stop or threading.Event()
    check_target(target, replace=replace)
    made = prepare_export(session, request, run_scripts, tell, stop)
    if made is None:
        return None
    for suspect in made.suspects:
        tell(suspect.sentence)
    size = made.write(target, replace=replace)
    tell(f"{target.name}: {size:,} bytes.")
    return made


def prepare_export(
    session: Session, request: ExportRequest, run_scripts: RunScripts | None, tell: Tell, stop: threading.Event
) -> Prepared | None:
    """Everything of an export but the writing: exactly what `Prepared.write` will write. None where `stop` was set.

    Reads only. Raises StoreError or BundleError.
    """
    tell(f"Gathering {len(request.episodes)} pair{'s' * (len(request.episodes) != 1)}…")
    contents = gather(session, request)
    said: Mapping[str, str] = {}
    if run_scripts is not None and (scripts := repro_files(contents)):
        said = run_scripts(contents, scripts, tell, stop)
    if stop.is_set():
        return None
    tell("Writing the reports…")
    made = _prepared(contents, said)
    return None if stop.is_set() else made


def issue_words(made: Prepared) -> str:
    """What *Copy issue text* copies: the fields of the issue form with facts, the prose fields empty."""
    return issue_text(made.contents)


def verify(path: FilePath) -> Verification:
    """Check a bundle's checksums, its container and its own comparison. Runs nothing of it."""
    return verify_bundle(path)


def export_report(made: Prepared, target: FilePath) -> dict[str, Any]:
    """The object of `forkpoint export --json` (resources/help/json.md)."""
    contents = made.contents
    return {
        "file": str(target),
        "size": target.stat().st_size,
        "pairs": [part.pair.cached.episode_id for part in contents.pairs],
        "redaction": contents.redaction,
        "form": contents.form,
        "parts": [{"name": line.name, "size": line.size, "what": line.what} for line in made.lines],
        "suspects": [asdict(suspect) for suspect in made.suspects],
        "printed": dict(contents.replay_log),
    }


def verification_report(found: Verification, path: FilePath) -> dict[str, Any]:
    """The object of `forkpoint verify --json` (resources/help/json.md)."""
    return {
        "file": str(path),
        "state": found.state,
        "parts": dict(found.findings),
        "comparisons": dict(found.comparisons),
        "redaction": found.contents.redaction if found.contents else None,
    }


def _prepared(contents: BundleContents, said: Mapping[str, str]) -> Prepared:
    """The files made from the contents: scripts, then the reports that may mention them."""
    machine = Machine.here()
    contents = replace(contents, replay_log={name: machine.scrub(text) for name, text in said.items()})
    extra = repro_files(contents)
    extra |= {REPORT_MD: report_md(contents, contents.form)}
    extra |= {REPORT_HTML: report_html(contents)}
    return Prepared(contents, extra, tuple(scan(contents)))
