from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.trajectory.events import PrefillProgress, RequestFinished, RequestStarted, StepsTaken, TrajectoryStarted
from app.trajectory.pair import ForkKind
from app.trajectory.trajectory import Path, Status, Trajectory
from app.views.live import GrowingSteps, LiveRun
from app.views.replay import replay_events
from tests.builders import forked_pair_of_trajectories, request, step
from tests.views.fakes import pair_of


def test_growing_steps_show_what_was_added_and_never_change_what_was_shown() -> None:
    steps = [step(number, margin=0.1 * number) for number in range(200)]
    growing, shown = GrowingSteps(), []
    for start in range(0, 200, 7):
        growing.extend(steps[start : start + 7])
        shown.append(growing.block())
    assert [len(block) for block in shown] == [min(200, start + 7) for start in range(0, 200, 7)]
    last = shown[-1]
    assert last.token_ids.tolist() == list(range(200))
    assert last.piece(150) == steps[150].piece
    for block in shown:
        size = len(block)
        assert np.array_equal(block.rival_logprobs, last.rival_logprobs[:size])
        assert block.text == b"".join(each.piece for each in steps[:size]).decode()


def test_a_run_replayed_through_events_gives_the_recorded_trajectories() -> None:
    pair = pair_of(*forked_pair_of_trajectories())
    live = LiveRun()
    for _, event in replay_events(pair):
        live.take(event)
    shown = live.pair((pair.cached.episode_id, 1))
    assert shown is not None
    for path, recorded in ((Path.CACHED, pair.cached), (Path.RECOMPUTE, pair.recompute)):
        side = shown.side(path)
        assert side is not None
        assert (side.status, side.outcome, len(side.requests)) == (
            Status.DONE,
            recorded.outcome,
            len(recorded.requests),
        )
        for got, wanted in zip(side.requests, recorded.requests, strict=True):
            assert got.report is wanted.report
            assert (got.calls, got.results, got.spans) == (wanted.calls, wanted.results, wanted.spans)
            assert np.array_equal(got.steps.token_ids, wanted.steps.token_ids)
            assert np.array_equal(got.steps.rival_logprobs, wanted.steps.rival_logprobs)


def test_a_finished_request_stays_the_same_object_while_the_next_one_grows() -> None:
    cached, _ = forked_pair_of_trajectories()
    live, shown = LiveRun(), []
    live.take(TrajectoryStarted(1, "made-00", "made", Path.CACHED, 1))
    for own in cached.requests[:2]:
        live.take(RequestStarted(1, own.index, own.prompt))
        for number in range(len(own.steps)):
            live.take(StepsTaken(1, own.index, (own.steps.step(number, {}),)))
            shown.append(side_of(live))
        assert own.report is not None
        live.take(RequestFinished(1, own.index, own.report, (), (), ()))
    first = {id(side.requests[0]) for side in shown if len(side.requests) == 2}
    assert len(first) == 1


def test_prefill_progress_is_there_until_the_first_token() -> None:
    live = LiveRun()
    cached, _ = forked_pair_of_trajectories()
    live.take(TrajectoryStarted(1, "made-00", "made", Path.CACHED, 1))
    live.take(RequestStarted(1, 0, cached.requests[0].prompt))
    live.take(PrefillProgress(1, 0, 310, 450, 0))
    growing = live.growing(1)
    assert growing is not None
    assert growing.prefill is not None
    assert (growing.prefill.done, growing.prefill.total) == (310, 450)
    live.take(StepsTaken(1, 0, (step(5),)))
    assert growing.prefill is None


def test_the_fork_is_seen_as_soon_as_both_sides_hold_it() -> None:
    pair = pair_of(*forked_pair_of_trajectories(fork_request=2, fork_step=16))
    live = LiveRun()
    seen_at = None
    for number, (_, event) in enumerate(replay_events(pair)):
        live.take(event)
        shown = live.pair((pair.cached.episode_id, 1))
        assert shown is not None
        shown.look_for_fork()
        if shown.fork is not None and seen_at is None:
            seen_at = number
            assert isinstance(event, StepsTaken)
            assert (shown.fork.kind, shown.fork.request, shown.fork.step) == (ForkKind.TOKEN, 2, 16)
    assert seen_at is not None


def test_an_answer_that_ends_earlier_is_a_fork_while_the_run_goes_on() -> None:
    cached, recompute = forked_pair_of_trajectories()
    whole = recompute.requests[1]
    short = request(1, whole.prompt.ids.tolist(), [whole.steps.step(number, {}) for number in range(12)])
    same = replace(recompute, id=cached.id, path=Path.CACHED, requests=(recompute.requests[0], short))
    live = LiveRun()
    for _, event in replay_events(pair_of(same, recompute), side_by_side=False):
        live.take(event)
        if isinstance(event, RequestFinished) and (event.trajectory_id, event.index) == (recompute.id, 1):
            break
    shown = live.pair((cached.episode_id, 1))
    assert shown is not None
    shown.look_for_fork()
    assert shown.fork is not None
    assert (shown.fork.kind, shown.fork.place) == (ForkKind.LENGTH, "request 2, token 13")


def test_a_request_that_only_one_path_makes_is_a_fork_once_both_have_ended() -> None:
    cached, recompute = forked_pair_of_trajectories()
    same = replace(recompute, id=cached.id, path=Path.CACHED, requests=recompute.requests[:2])
    live = LiveRun()
    for _, event in replay_events(pair_of(same, recompute), side_by_side=False):
        live.take(event)
    shown = live.pair((cached.episode_id, 1))
    assert shown is not None
    shown.look_for_fork()
    assert shown.fork is not None
    assert (shown.fork.kind, shown.fork.place) == (ForkKind.REQUESTS, "request 3")


def test_a_side_that_is_only_shorter_so_far_has_not_forked() -> None:
    cached, recompute = forked_pair_of_trajectories()
    same = replace(recompute, id=cached.id, path=Path.CACHED)
    live = LiveRun()
    events = list(replay_events(pair_of(same, recompute), side_by_side=False))
    for _, event in events[: int(0.7 * len(events))]:
        live.take(event)
    shown = live.pair((cached.episode_id, 1))
    assert shown is not None
    shown.look_for_fork()
    assert shown.side(Path.RECOMPUTE) is not None
    assert shown.fork is None


def test_a_pass_that_starts_over_replaces_what_it_had() -> None:
    live = LiveRun()
    live.take(TrajectoryStarted(1, "made-00", "made", Path.CACHED, 1))
    live.take(TrajectoryStarted(9, "made-00", "made", Path.CACHED, 1))
    assert side_of(live).id == 9


def test_a_pair_that_was_let_go_is_gone_and_its_late_events_harm_nobody() -> None:
    live = LiveRun()
    live.take(TrajectoryStarted(1, "made-00", "made", Path.CACHED, 1))
    live.forget(("made-00", 1))
    assert live.take(StepsTaken(1, 0, (step(1),))) is None
    assert live.pair(("made-00", 1)) is None


def side_of(live: LiveRun) -> Trajectory:
    pair = live.pair(("made-00", 1))
    assert pair is not None
    side = pair.side(Path.CACHED)
    assert side is not None
    return side
