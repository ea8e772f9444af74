"""What goes into a bundle: chosen pairs with all that belongs to them, scrubbed and redacted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from os import SEEK_END
from pathlib import Path as FilePath

import numpy as np

from app import __version__
from app.bundle.format import QUESTIONS, REDACTIONS, BundleContents, Form, PairPart, Redaction
from app.bundle.redact import redacted
from app.bundle.scrub import Machine, scrubbed
from app.errors import BundleError
from app.experiment.pairs import PairReader
from app.session.session import Session
from app.trajectory.pair import Pair
from app.trajectory.reproducer import WarmUp, needed, warm_up_of
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Status

LONGEST_LOG_BYTES = 64 * 2**10
"""So much of a log file's end goes into a bundle."""


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


def gather(session: Session, request: ExportRequest) -> BundleContents:
    """The pairs with all that belongs to them, scrubbed and redacted. Reads only. Raises StoreError or BundleError.

    Of a session that is a bundle's: notes, logs and answers are kept, and so is what was taken out of it already.
    """
    if not request.episodes:
        raise BundleError("No pair is chosen.", "Name one, e.g. --pair calendar-02.")
    if (source := _source(session)) is not None:
        request = _kept(request, source)
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


def _source(session: Session) -> BundleContents | None:
    """What the bundle that the session shows holds, None where it shows a file of data. Raises BundleError."""
    found = session.verification
    if found is not None and found.state != "whole":
        raise BundleError(f"This bundle is not as it was written. {found.sentence}", "Ask for it again.")
    return found.contents if found is not None else None


def _kept(request: ExportRequest, source: BundleContents) -> ExportRequest:
    """The request with what the bundle says already, where the person says nothing else."""
    parts = {part.pair.cached.episode_id: part for part in source.pairs}
    return replace(
        request,
        redaction=max(request.redaction, source.redaction, key=REDACTIONS.index),
        answers={**source.answers, **{key: text for key, text in request.answers.items() if text}},
        notes={name: request.notes.get(name) or part.note for name, part in parts.items()},
        logs={name: request.logs.get(name) or part.log_excerpt for name, part in parts.items()},
    )


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


def known_answers(info: ExperimentInfo) -> dict[str, str]:
    """Answers that the record gives already, to be shown before a person is asked."""
    settings = info.environment.get("settings", {})
    build = info.environment.get("build", {})
    answers = {"launch": str(settings.get("command") or "")}
    if info.environment.get("engine") == "embedded" and not build.get("gpu_offload"):
        answers["gpu"] = "none, this build computes on the CPU"
    return {key: answer for key, answer in answers.items() if answer}


def open_questions(contents: BundleContents) -> list[str]:
    """The keys of the questions that nobody answered; the embedded engine has no server to be asked about."""
    embedded = contents.environment.get("engine") == "embedded"
    return [key for key in QUESTIONS if key not in contents.answers and not (embedded and key == "launch")]


def form_of(info: ExperimentInfo) -> Form:
    """The issue form of the engine that an experiment ran on."""
    engine = str(info.environment.get("engine", "")).lower()
    if engine.startswith(("embedded", "llama", "managed")):
        return "llama.cpp"
    return "vllm" if "vllm" in engine else "sglang" if "sglang" in engine else "generic"


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
