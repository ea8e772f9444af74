"""What the window can ask of the product: the verbs of the session, handed in so that a test can give others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app import session
from app.session import RunHandle, RunRequest, Session
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
