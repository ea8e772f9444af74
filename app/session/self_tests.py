"""What `forkpoint self-test` looks at without a window."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath

from app.engine.default_model import default_model
from app.errors import AppError
from app.experiment.plans import RunRequest
from app.session.runs import start_run
from app.session.session import Session
from app.trajectory.events import RunFailed


def _check_model() -> str:
    return f"{default_model().name}, SHA-256 as expected"


def _check_paths() -> str:
    """Run a real pair into a throw-away file; both paths must prove what they did with the cache."""
    with tempfile.TemporaryDirectory() as folder:
        handle = start_run(RunRequest(episodes="0", repeat=1, out=FilePath(folder) / "self-test.forkpoint"))
        handle.join()
        ended = handle.inbox[-1]
        if isinstance(ended, RunFailed):
            raise AppError(ended.message, ended.hint)
        session = Session.open(handle.path)
        try:
            row = session.rows(session.experiment().id)[0]
        finally:
            session.close()
    if not row.valid:
        raise AppError(f"The pair is not valid: {'; '.join(row.problems)}.")
    return row.headline


SELF_TESTS: Mapping[str, Callable[[], str]] = {
    "the default model is here": _check_model,
    "both paths of an episode run and are proved": _check_paths,
}
"""What `forkpoint self-test` runs without a window; each returns a finding or raises AppError."""
