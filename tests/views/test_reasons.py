from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from app.session import Capabilities
from app.trajectory.events import RunStarted, TrajectoryStarted
from app.trajectory.pair import run_names
from app.trajectory.trajectory import Path as RunPath
from app.views.reasons import why_no_ids, why_no_run_again
from app.views.workbench import live_words
from tests.views import fakes
from tests.views.made_windows import FILE, MakeWindow, first_forked, trigger, view_of

SERVER: dict[str, Any] = {"engine": "llama-server", "capabilities": asdict(Capabilities(rebuild=False)), "level": "ids"}


@pytest.mark.parametrize("level", ["bytes", "text"])
def test_ids_are_not_copied_where_the_engine_made_them_up(level: str) -> None:
    assert "gave no token ids" in why_no_ids({"level": level})
    assert why_no_ids({"level": "ids"}) == why_no_ids({}) == ""


def test_only_an_engine_whose_cache_can_be_filled_runs_again() -> None:
    assert "llama-server" in why_no_run_again(SERVER)
    assert why_no_run_again(SERVER | {"capabilities": {"rebuild": True}}) == ""


def test_files_of_before_the_record_told_abilities_run_again_where_they_did() -> None:
    assert why_no_run_again({"engine": "embedded"}) == why_no_run_again({}) == ""


def test_the_window_greys_what_the_recorded_engine_cannot_do(
    make_window: MakeWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = replace(fakes.EXPERIMENT, environment={**fakes.ENVIRONMENT, **SERVER, "level": "text"})
    monkeypatch.setattr(fakes, "EXPERIMENT", recorded)
    window, _ = make_window()
    window.open_file(FILE)
    for name, reason in (
        ("run_again", "cannot be filled"),
        ("copy_ids", "no token ids"),
        ("copy_rows", "no token ids"),
    ):
        action = window.actions_by_name[name]
        assert not action.isEnabled(), name
        assert reason in action.toolTip(), name
    assert window.actions_by_name["copy_tokens"].isEnabled()
    assert "no token ids" in view_of(window).panes.why_no_ids


def test_both_sides_of_a_run_to_run_pair_bear_its_names(make_window: MakeWindow) -> None:
    pair = first_forked()
    names = run_names(2)
    again = replace(
        pair,
        recompute=replace(pair.recompute, path=RunPath.CACHED),
        comparison=replace(pair.comparison, names=names),
    )
    window, _ = make_window()
    window.open_file(FILE)
    view = view_of(window)
    view.show_pair(again, True, "")
    headers = [header.title.text() for header in view.panes.headers.values()]
    assert headers == ["◆  Second run", "●  First run"]
    assert [view.find_bar.side.itemText(place) for place in (1, 2)] == ["in Second run", "in First run"]
    view.show_pair(pair, True, "")
    assert [header.title.text() for header in view.panes.headers.values()] == ["◆  Cached", "●  Recompute"]


def test_a_run_to_run_experiment_grows_beside_its_first_run(make_window: MakeWindow) -> None:
    side = first_forked().cached
    window, _ = make_window()
    trigger(window, "demo")
    control = window.control
    control.live.take(RunStarted(1, "repeat · made-up", 7, 2, "repeat"))
    first, second = (TrajectoryStarted(run, side.episode_id, "made", RunPath.CACHED, run) for run in (1, 2))
    key = control.live.take(first)
    assert key == (side.episode_id, 1)
    grown = control.live.pair(key)
    assert grown is not None
    assert "on the first run" in live_words(grown, key, control.kind, control.live.names(key))[0]
    assert control.live.take(second) == key
    assert set(grown.sides) == set(RunPath)
    assert "on the second run" in live_words(grown, key, control.kind, control.live.names(key))[0]
