"""What the window can ask of the product: the verbs of the session, handed in so that a test can give others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app import session
from app.session import (
    ConnectionTest,
    Examination,
    ExportJob,
    ExportRequest,
    ManagedSettings,
    Prepared,
    Pulse,
    ReplayOn,
    RunHandle,
    RunRequest,
    ServerSettings,
    Session,
)
from app.trajectory.episode import Episode
from app.trajectory.pair import Pair


@dataclass(frozen=True)
class Verbs:
    """The session's functions under the session's names; each raises what it raises there."""

    open_session: Callable[[Path, float], Session] = Session.open
    start_run: Callable[[RunRequest, float], RunHandle] = field(default=session.start_run)
    resume_run: Callable[[Path, int, float], RunHandle] = field(default=session.resume_run)
    run_again: Callable[[Session, Pair, int], RunHandle] = field(default=session.run_again)
    choose: Callable[[RunRequest], Sequence[Episode]] = field(default=session.choose)
    check_model: Callable[[Path], Mapping[str, Any]] = field(default=session.check_model)
    default_model: Callable[[], Path] = field(default=session.default_model)
    default_model_licence: Callable[[], str] = field(default=session.default_model_licence)
    test_connection: Callable[[str, ServerSettings], ConnectionTest] = field(default=ConnectionTest)
    watch_server: Callable[[str, ServerSettings], Pulse] = field(default=Pulse)
    find_server: Callable[[Path | None], Path] = field(default=session.find_server)
    server_command: Callable[[Path, ManagedSettings], str] = field(default=session.server_command)
    examine: Callable[..., Examination] = field(default=Examination)
    replay_pairs: Callable[[Session, int, Sequence[str], ReplayOn], RunHandle] = field(default=session.replay_pairs)
    shrink: Callable[[Session, str, float, int], RunHandle] = field(
        default=lambda opened, episode, budget_s, experiment: session.shrink(
            opened, episode, budget_s, experiment_id=experiment
        )
    )
    marks_of: Callable[[Session, int], Mapping[str, str]] = field(default=session.marks_of)
    mark: Callable[[Session, int, str, str | None], None] = field(default=session.mark)
    why_no_marks: Callable[[Session], str] = field(default=session.why_no_marks)
    prepare_export: Callable[[Session, ExportRequest, bool], ExportJob] = field(default=session.prepare_export)
    write_export: Callable[[Prepared, Path], ExportJob] = field(default=session.write_export)
