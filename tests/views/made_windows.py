"""Windows on made-up data, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.trajectory.events import (
    EngineLoading,
    Event,
    PrefillProgress,
    RequestStarted,
    RunStarted,
    TrajectoryStarted,
)
from app.trajectory.pair import Pair
from app.trajectory.trajectory import Path as RunPath
from app.views.pair_view import PairView
from app.views.theme import Theme
from app.views.window import MainWindow
from app.views.workbench import Workbench
from tests.views.fakes import FakeProduct, made_up_pairs

PAIRS = made_up_pairs(7)
FILE = Path("calendar.forkpoint")
Dress = Callable[[Theme, float], None]
MakeWindow = Callable[..., tuple[MainWindow, FakeProduct]]


def bench_of(window: MainWindow) -> Workbench:
    assert window.shown_bench is not None
    return window.shown_bench


def view_of(window: MainWindow) -> PairView:
    return bench_of(window).view


def trigger(window: MainWindow, name: str) -> None:
    action = window.actions_by_name[name]
    assert action.isEnabled(), f"{name} is disabled"
    action.trigger()


def begun(pair: Pair) -> list[Event]:
    """A run up to the first prompt of its first pair."""
    request = pair.cached.requests[0]
    return [
        EngineLoading("Loading the model…"),
        RunStarted(1, "pair · made-up Q4_1 · embedded", len(PAIRS), 1),
        TrajectoryStarted(pair.cached.id, pair.cached.episode_id, "made", RunPath.CACHED, 1),
        RequestStarted(pair.cached.id, 0, request.prompt),
        PrefillProgress(pair.cached.id, 0, 10, 40, 0),
    ]


def first_forked() -> Pair:
    return next(pair for pair in PAIRS.values() if pair.comparison.fork is not None)
