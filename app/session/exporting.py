"""An export as a window has it: prepared and written in a thread of its own, told as events, stopped at any time."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path as FilePath

from app.bundle.format import PairPart, folder_of
from app.errors import AppError
from app.session.bundle_contents import ExportRequest
from app.session.bundles import Prepared, prepare_export
from app.session.replay import model_of
from app.session.repro_check import ScriptRunner
from app.session.runs import RunHandle
from app.session.session import Session
from app.trajectory.events import Event, Notice, RunEnded, RunFailed
from app.trajectory.trajectory import Request

Work = Callable[[deque[Event], threading.Event], Prepared | None]
"""What a job does: (inbox, stop) -> what was made, None where it was stopped."""

_LOAD_S = 1.5
"""Starting Python or a server, and loading a small model."""

log = logging.getLogger(__name__)


class ExportJob(RunHandle):
    """Prepares an export, or writes one that was prepared. `made` is there with RunEnded "prepared" and "written".

    A run may go on in the file meanwhile: it is opened once more for this, and only read.
    """

    def __init__(self, path: FilePath, work: Work, end: str) -> None:
        self.made: Prepared | None = None

        def run(inbox: deque[Event], stop: threading.Event) -> None:
            try:
                self.made = work(inbox, stop)
            except AppError as error:
                inbox.append(RunFailed(None, error.message, error.hint))
            except Exception as error:
                log.exception("a bug ended the export")
                inbox.append(RunFailed(None, f"That ended unexpectedly: {error!r}.", "This is a bug; see the log."))
            else:
                inbox.append(RunEnded(0, "stopped" if self.made is None else end))

        super().__init__(path, run)


def prepare(session: Session, request: ExportRequest, check: bool = False) -> ExportJob:
    """Make what would be written, to be looked at first; with `check` after running its repro scripts here."""
    path, near_tie = session.path, session.near_tie

    def work(inbox: deque[Event], stop: threading.Event) -> Prepared | None:
        with closing(Session.open(path, near_tie)) as own:
            run_scripts = ScriptRunner(model_of(own, request.experiment)) if check else None
            return prepare_export(own, request, run_scripts, lambda said: inbox.append(Notice(said)), stop)

    return ExportJob(path, work, "prepared")


def write(made: Prepared, target: FilePath) -> ExportJob:
    """Write exactly what was prepared in place of `target`, all or nothing."""

    def work(_inbox: deque[Event], stop: threading.Event) -> Prepared | None:
        if stop.is_set():
            return None
        made.write(target, replace=True)
        return made

    return ExportJob(target, work, "written")


def script_seconds(made: Prepared) -> float:
    """A guess how long running the bundle's scripts takes: each starts, loads the model, and serves its pair's history
    and request anew, about as fast as they were recorded. 0 where there are none."""
    seconds = 0.0
    for number, part in enumerate(made.contents.pairs, 1):
        folder = folder_of(number, part.pair.cached.episode_id)
        scripts = sum(name.startswith(f"{folder}/repro") for name in made.extra)
        seconds += scripts * (_LOAD_S + _serving_seconds(part))
    return seconds


def _serving_seconds(part: PairPart) -> float:
    pair, fork = part.pair, part.pair.comparison.fork
    until = fork.request if fork is not None else len(pair.cached.requests)
    tokens = sum(len(request.prompt.ids) + len(request.steps) for request in pair.recompute.requests)
    per_token = _seconds(pair.recompute.requests) / max(1, tokens)
    history = sum(len(each.prompt_ids) - (each.cached_tokens or 0) + each.max_tokens for each in part.history)
    forked = _seconds(pair.recompute.requests[until : until + 1])
    return history * per_token + _seconds(pair.cached.requests[: until + 1]) + forked


def _seconds(requests: Sequence[Request]) -> float:
    reports = [request.report for request in requests if request.report is not None]
    return sum((report.prefill_ms or 0) + (report.decode_ms or 0) for report in reports) / 1000
