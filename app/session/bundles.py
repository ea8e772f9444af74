"""Bundles: chosen pairs gathered, shown beforehand, written; and a bundle checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from os import SEEK_END
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from app import __version__
from app.bundle.format import BundleContents, Form, PairPart, Redaction
from app.bundle.redact import redacted
from app.bundle.report_html import report_html
from app.bundle.report_md import report_md
from app.bundle.repro import repro_files
from app.bundle.scan import Suspect, scan
from app.bundle.scrub import Machine, scrubbed
from app.bundle.verify import Verification, verify_bundle
from app.bundle.write import PreviewLine, preview, write_bundle
from app.errors import BundleError
from app.experiment.pairs import PairReader
from app.session.session import Session
from app.trajectory.pair import Pair
from app.trajectory.reproducer import WarmUp, needed, warm_up_of
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Status

REPORT_HTML, REPORT_MD = "report.html", "report.md"

LONGEST_LOG_BYTES = 64 * 2**10
"""So much of a log file's end goes into a bundle."""

RunScripts = Callable[[BundleContents, Mapping[str, str], Callable[[str], None], threading.Event], Mapping[str, str]]
"""Runs repro scripts before an export: (contents, scripts by name, tell, stop) -> what each printed, by its name."""


@dataclass(frozen=True)
class ExportRequest:
    """Which pairs shall leave the machine, and how.

    `episodes` name them, in the order they shall stand in; `experiment` None is the newest. `form` None follows the
    engine. `answers` are the person's, by the keys of bundle.format.QUESTIONS; `notes` and `logs` (what the engine's
    log says around the request) by episode.
    """

    episodes: tuple[str, ...]
    experiment: int | None = None
    redaction: Redaction = "none"
    form: Form | None = None
    answers: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)


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
    return _prepared(_gather(session, request), {})


def export_pairs(
    session: Session,
    request: ExportRequest,
    target: FilePath,
    *,
    replace: bool = False,
    run_scripts: RunScripts | None = None,
    tell: Callable[[str], None] = lambda _: None,
    stop: threading.Event | None = None,
) -> Prepared | None:
    """Write a bundle of these pairs, after running its repro scripts where `run_scripts` is given.

    Reads the session's file only, so a run may go on in it. `tell` is told what happens, a sentence at a time. None
    where `stop` was set before it was written. Raises StoreError or BundleError; nothing is left behind then.
    """
    stop = stop or threading.Event()
    if target.exists() and not replace:
        raise BundleError(f"{target.name} exists already.", "Choose another name, or say that it shall be replaced.")
    tell(f"Gathering {len(request.episodes)} pair{'s' * (len(request.episodes) != 1)}…")
    contents = _gather(session, request)
    said: Mapping[str, str] = {}
    if run_scripts is not None and request.redaction == "none" and (scripts := repro_files(contents)):
        said = run_scripts(contents, scripts, tell, stop)
    if stop.is_set():
        return None
    tell("Writing the reports…")
    made = _prepared(contents, said)
    for suspect in made.suspects:
        tell(suspect.sentence)
    if stop.is_set():
        return None
    size = made.write(target, replace=replace)
    tell(f"{target.name}: {size:,} bytes.")
    return made


def verify(path: FilePath) -> Verification:
    """Check a bundle's checksums, its container and its own comparison. Runs nothing of it."""
    return verify_bundle(path)


def log_excerpt(file: FilePath) -> str:
    """The end of a log file, LONGEST_LOG_BYTES at most, from the beginning of a line. Raises BundleError."""
    try:
        with file.open("rb") as log:
            size = log.seek(0, SEEK_END)
            log.seek(max(0, size - LONGEST_LOG_BYTES))
            text = log.read().decode("utf-8", errors="replace")
    except OSError as error:
        raise BundleError(f"{file.name} cannot be read: {error.strerror}.", "Check the name.") from error
    return text if size <= LONGEST_LOG_BYTES else text.partition("\n")[2]


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


def known_answers(info: ExperimentInfo) -> dict[str, str]:
    """Answers that the record gives already, to be shown before a person is asked."""
    settings = info.environment.get("settings", {})
    build = info.environment.get("build", {})
    answers = {"launch": str(settings.get("command") or "")}
    if info.environment.get("engine") == "embedded" and not build.get("gpu_offload"):
        answers["gpu"] = "none, this build computes on the CPU"
    return {key: answer for key, answer in answers.items() if answer}


def form_of(info: ExperimentInfo) -> Form:
    """The issue form of the engine that an experiment ran on."""
    engine = str(info.environment.get("engine", "")).lower()
    if engine.startswith(("embedded", "llama", "managed")):
        return "llama.cpp"
    return "vllm" if "vllm" in engine else "sglang" if "sglang" in engine else "generic"


def _prepared(contents: BundleContents, said: Mapping[str, str]) -> Prepared:
    """The files made from the contents: scripts, then the reports that may mention them."""
    machine = Machine.here()
    contents = replace(contents, replay_log={name: machine.scrub(text) for name, text in said.items()})
    extra = repro_files(contents)
    extra |= {REPORT_MD: report_md(contents, contents.form)}
    extra |= {REPORT_HTML: report_html(contents)}
    return Prepared(contents, extra, tuple(scan(contents)))


def _gather(session: Session, request: ExportRequest) -> BundleContents:
    """The pairs with all that belongs to them, scrubbed and redacted."""
    if not request.episodes:
        raise BundleError("No pair is chosen.", "Name one, e.g. --pair calendar-02.")
    info = session.experiment(request.experiment)
    reader = session.pair_reader(info.id)
    passes = {each.id: each for each in session.passes(info.id)}
    names = tuple(dict.fromkeys(request.episodes))
    contents = BundleContents(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        app_version=__version__,
        experiment=_only(info, names),
        pairs=tuple(_part(reader, passes, name, request) for name in names),
        near_tie=session.near_tie,
        answers=known_answers(info) | {key: text for key, text in request.answers.items() if text},
        form=request.form or form_of(info),
    )
    return redacted(scrubbed(contents, Machine.here()), request.redaction)


def _only(info: ExperimentInfo, names: tuple[str, ...]) -> ExperimentInfo:
    """The experiment, planned with these episodes: what else was asked stays here."""
    plan = dict(info.plan) | {"episode_ids": list(names)}
    if plan.get("imported_episodes"):
        plan["imported_episodes"] = [each for each in plan["imported_episodes"] if each.get("id") in names]
    return replace(info, plan=plan)


def _part(reader: PairReader, passes: Mapping[int, PassInfo], name: str, request: ExportRequest) -> PairPart:
    pair = reader.pair(name)
    if pair is None:
        raise BundleError(f"{name} is not there on both paths.", "`forkpoint list FILE` shows what there is.")
    if Status.RUNNING in (pair.cached.status, pair.recompute.status):
        raise BundleError(f"{name} is still being run.", "Export it when both paths are finished.")
    history = _history(reader, pair)
    return PairPart(
        pair=replace(pair, pieces=_mentioned(pair)),
        cached_pass=passes[pair.cached.pass_id],
        recompute_pass=passes[pair.recompute.pass_id],
        history=history,
        note=request.notes.get(name, ""),
        log_excerpt=request.logs.get(name, ""),
    )


def _history(reader: PairReader, pair: Pair) -> tuple[WarmUp, ...]:
    """What of the earlier episodes must be served, so that the forked request (or the last) meets the same cache."""
    fork, cached = pair.comparison.fork, pair.cached
    if not cached.requests:
        return ()
    request = cached.requests[min(fork.request if fork else len(cached.requests), len(cached.requests) - 1)]
    own = [warm_up_of(f"{cached.episode_id} r{r.index + 1}", r) for r in cached.requests[: request.index]]
    names = {warm_up.writer for warm_up in own}
    return tuple(each for each in needed([*reader.earlier(cached), *own], request) if each.writer not in names)


def _mentioned(pair: Pair) -> dict[int, bytes]:
    """The pieces of the ids that stand in this pair: the experiment's others tell of other pairs."""
    arrays = [np.empty(0, np.int32)]
    for run in (pair.cached, pair.recompute):
        for request in run.requests:
            arrays += [request.steps.token_ids, request.steps.rival_ids.ravel()]
        arrays += [run.requests[-1].prompt.ids] if run.requests else []
    return {
        token_id: pair.pieces[token_id]
        for token_id in np.unique(np.concatenate(arrays)).tolist()
        if token_id in pair.pieces
    }
