"""*Shrink*: search for the shortest history and prompt of a pair that still fork at the same token."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path as FilePath

from app.errors import StoreError
from app.experiment.plans import SHRINK
from app.experiment.shrink import Shrinker
from app.experiment.shrink_request import ShrinkRequest
from app.session.runs import RunHandle, opener, planned
from app.session.session import Session
from app.trajectory.events import Event
from app.trajectory.reproducer import reproducer_of
from app.trajectory.trajectory import ExperimentInfo


def shrink(
    session: Session,
    episode_id: str,
    budget_s: float,
    *,
    experiment_id: int | None = None,
    repeat: int = 1,
    out: FilePath | None = None,
) -> RunHandle:
    """Shrink a pair that forked at a token, on the engine it was recorded with, for `budget_s` seconds.

    The result is an experiment of its own in `out`, the session's own file unless told; one that is there already is
    gone on with. `experiment_id` None is the newest that ran this episode; a search stands for what it searches for.
    Tells Shrunk with every try and ends in RunEnded "shrunk" or "stopped". Raises StoreError where the pair is not
    there, did not fork at a token, came in a bundle, or the file takes nothing.
    """
    if session.verification is not None:  # its plan names engine, model and server: nothing of a stranger's is opened
        raise StoreError("A bundle is not shrunk.", "Replay it here, or shrink the pair where it was recorded.")
    info = source_of(session, episode_id, experiment_id)
    pair = session.pair(info.id, episode_id, repeat)
    reproducer = reproducer_of(pair, session.pair_reader(info.id).earlier(pair.cached), info.plan)
    if out is None and session.read_only:
        raise StoreError(f"{session.notice} There is no room for the result.", "Name another file with --out.")
    request = ShrinkRequest(
        reproducer, info, pair.cached.family, repeat, budget_s, out or session.path, session.near_tie
    )
    run, _ = planned(session, info)

    def work(inbox: deque[Event], stop: threading.Event) -> None:
        Shrinker(opener(run, stop), request, inbox.append, stop).run()

    return RunHandle(request.out, work)


def source_of(session: Session, episode_id: str, experiment_id: int | None) -> ExperimentInfo:
    """The experiment that ran the episode; that of a search leads to the one whose pair it shrinks."""
    if experiment_id is not None:
        info = session.experiment(experiment_id)
        source = info.plan.get("source") if info.plan.get("kind") == SHRINK else None
        return session.experiment(source["experiment"]) if source else info
    for info in session.experiments():
        if info.plan.get("kind") != SHRINK and episode_id in info.plan["episode_ids"]:
            return info
    raise StoreError(f"{session.path.name} holds no {episode_id}.", "`forkpoint list FILE` shows what it holds.")
