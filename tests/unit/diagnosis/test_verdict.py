"""The verdict names a cause class only where its rule holds, and says it in words that cannot act."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from app.diagnosis.verdict import judge
from app.diagnosis.wording import nats
from app.trajectory.compare import compare
from app.trajectory.episode import Outcome, ToolCall
from app.trajectory.pair import NoiseFloor, Repeats, Verdict
from app.trajectory.step import Rival, Step
from app.trajectory.trajectory import Path, Status, Trajectory
from tests.builders import request, step, trajectory

EXACT = {"cached": Repeats(2, True), "recompute": Repeats(2, True)}
FLOOR = NoiseFloor(0.10, 4_000)


def side(
    path: Path,
    token: int = 7,
    *,
    margin: float = 0.04,
    logprob: float = -0.1,
    piece: bytes = b" 14",
    hour: int = 14,
    cached: int | None = None,
) -> Trajectory:
    """Two requests; the second answers 3, 5, `token`, and holds 4 prompt tokens that its state can share."""
    hit = cached if cached is not None else 4 if path is Path.CACHED else 0
    steps = [step(3, logprob=logprob), step(5, logprob=logprob), step(token, margin, piece=piece)]
    calls = (ToolCall("move", {"hour": hour}, ""),)
    return trajectory(
        [
            request(0, [1, 2, 3], [step(8), step(9)], cached=0),
            request(1, [1, 2, 3, 8, 9, 4], steps, cached=hit, calls=calls),
        ],
        path=path,
    )


def verdict(
    cached: Trajectory,
    recompute: Trajectory,
    *,
    repeats: Mapping[str, Repeats] | None = EXACT,
    noise: NoiseFloor = FLOOR,
    problems: tuple[str, ...] = (),
    unproven: tuple[str, ...] = (),
) -> Verdict:
    comparison = compare(cached, recompute, repeats=repeats, problems=problems, unproven=unproven)
    return judge(comparison, cached, recompute, noise, near_tie=0.1)


def forked(margin: float = 0.04, cached_margin: float = 0.05, drift: float = 0.11) -> tuple[Trajectory, Trajectory]:
    return (
        side(Path.CACHED, margin=cached_margin, logprob=-0.1 - drift, hour=14),
        side(Path.RECOMPUTE, 8, margin=margin, piece=b" 15", hour=15),
    )


def test_a_near_tie_on_paths_that_repeat_is_numeric_and_said_in_the_windows_words() -> None:
    found = verdict(*forked())
    assert found.code == "N"
    assert found.headline == "Forked at request 2, token 3: a near tie (0.04 nats), ‘ 14’ against ‘ 15’."
    assert found.detail == (
        "The tool call changed, the outcome did not. Both paths repeat exactly (2 of 2). "
        "Drift before the fork 0.11 nats, floor 0.10."
    )
    assert "0.04 nats against 0.22 (2 x larger of noise floor 0.10 and drift 0.11)" in found.rule


@pytest.mark.parametrize(
    ("margin", "cached_margin", "code"),
    [(0.21, 0.05, "N"), (0.23, 0.05, "fork"), (1.0, 0.05, "fork"), (1.2, 0.05, "S"), (0.04, 1.2, "S")],
)
def test_margins_are_measured_against_what_drift_can_turn(margin: float, cached_margin: float, code: str) -> None:
    assert verdict(*forked(margin, cached_margin)).code == code


def test_a_clear_choice_is_not_called_a_near_tie() -> None:
    assert verdict(*forked(0.62)).headline.startswith("Forked at request 2, token 3: no near tie (0.62 nats)")


def test_an_exact_tie_is_numeric_even_where_nothing_drifts() -> None:
    found = verdict(*forked(0.0, 0.0, 0.0), noise=NoiseFloor(0.0, 500))
    assert found.code == "N" and "an exact tie (0.00 nats)" in found.headline


def test_a_fork_where_nothing_else_drifts_is_no_noise() -> None:
    assert verdict(*forked(0.09, 0.05, 0.0), noise=NoiseFloor(0.0, 500)).code == "fork"
    assert verdict(*forked(0.11, 0.05, 0.0), noise=NoiseFloor(0.0, 500)).code == "S"


def test_while_the_floor_is_unknown_a_near_tie_still_counts_as_one() -> None:
    found = verdict(*forked(0.09, 0.05, 0.0), noise=NoiseFloor(None, 84))
    assert found.code == "N"
    assert found.detail.endswith("floor unknown below 100 steps (84 so far).")


def test_without_repeats_no_class_is_named_and_the_sentence_says_so() -> None:
    for repeats in (None, {"cached": Repeats(1, None), "recompute": Repeats(1, None)}):
        found = verdict(*forked(), repeats=repeats)
        assert found.code == "fork" and "not repeated yet" in found.rule
        assert "Not repeated yet." in found.detail


def test_one_path_that_does_not_repeat_is_named_with_its_first_difference() -> None:
    broken = Repeats(2, False, "request 1, token 4: another logprob")
    found = verdict(*forked(), repeats={"cached": broken, "recompute": Repeats(3, True)})
    assert found.code == "fork"
    assert (
        "Cached does not repeat itself (request 1, token 4: another logprob); recompute repeats exactly (3 of 3)."
        in found.detail
    )


def test_where_recompute_does_not_repeat_nothing_is_proven_not_even_state() -> None:
    found = verdict(*forked(5.0), repeats={**EXACT, "recompute": Repeats(2, False)})
    assert found.code == "fork" and "does not repeat itself" in found.rule


def test_a_count_that_contradicts_the_expected_prefix_is_accounting() -> None:
    for count in (0, 5):
        cached, recompute = side(Path.CACHED, cached=count), forked()[1]
        found = verdict(cached, recompute)
        assert found.code == "A"
        assert f"request 2 reports {count} cached tokens, its state can share 4" in found.rule
    assert verdict(side(Path.CACHED, cached=3), forked()[1]).code == "N"


def test_a_missing_margin_is_a_matter_of_observation() -> None:
    recompute = side(Path.RECOMPUTE)
    bare = replace(recompute.requests[1], steps=request(1, [1], [step(3), step(5), Step(8, None, b" 15")]).steps)
    found = verdict(side(Path.CACHED), replace(recompute, requests=(recompute.requests[0], bare)))
    assert found.code == "O" and "margin not reported, ‘ 14’ against ‘ 15’" in found.headline


def test_a_drawn_token_is_not_judged_by_its_margin() -> None:
    drawn = Step(8, -1.5, b" 15", (Rival(7, -0.5, b" 14"), Rival(8, -1.5, b" 15")))
    cached, recompute = forked()
    steps = request(1, [1], [step(3), step(5), drawn]).steps
    recompute = replace(recompute, requests=(recompute.requests[0], replace(recompute.requests[1], steps=steps)))
    found = verdict(cached, recompute)
    assert found.code == "fork" and "drawn" in found.rule


def test_different_prompts_are_class_p_and_name_the_ids_and_the_rewritten_history() -> None:
    cached, recompute = side(Path.CACHED), side(Path.RECOMPUTE)
    prompt = replace(recompute.requests[1].prompt, ids=np.array([1, 2, 9], np.int32), mismatch=2)
    recompute = replace(recompute, requests=(recompute.requests[0], replace(recompute.requests[1], prompt=prompt)))
    found = verdict(cached, recompute)
    assert found.code == "P"
    assert found.headline == "Forked at request 2, prompt token 3: the prompts differ, id 3 against id 9."
    assert "the recompute path's prompt leaves its own history at token 3" in found.rule


def test_an_answer_that_ends_earlier_is_said_in_a_sentence() -> None:
    cached, recompute = side(Path.CACHED), side(Path.RECOMPUTE)
    steps = request(1, [1], [step(3), step(5)]).steps
    shorter = replace(cached, requests=(cached.requests[0], replace(cached.requests[1], steps=steps)))
    found = verdict(shorter, recompute)
    assert found.code == "O"
    assert found.headline == (
        "Forked at request 2, token 3: the cached path ends there, the recompute path goes on with ‘ 14’."
    )


def test_an_error_or_a_further_request_on_one_side_is_said_in_a_sentence() -> None:
    cached, recompute = side(Path.CACHED), side(Path.RECOMPUTE)
    overflow = verdict(replace(cached, outcome=Outcome("overflow")), recompute)
    assert overflow.headline == "Forked at request 3: the cached path ran out of context."
    assert overflow.detail.startswith("The outcome changed, the tool calls did not.")
    fewer = verdict(replace(cached, requests=cached.requests[:1]), recompute)
    assert fewer.headline == "Forked at request 2: only the recompute path has it."


def test_equal_numbers_and_drifting_numbers_are_two_verdicts() -> None:
    equal = verdict(side(Path.CACHED), side(Path.RECOMPUTE))
    assert (equal.code, equal.headline) == ("equal", "No fork: 5 tokens and their logprobs are bit-identical.")
    assert equal.detail == "Both paths repeat exactly (2 of 2)."
    drifting = verdict(side(Path.CACHED, logprob=-0.21), side(Path.RECOMPUTE))
    assert drifting.code == "drift"
    assert drifting.headline == "No fork, but other numbers: 5 tokens agree, their logprobs drift by up to 0.11 nats."
    assert drifting.detail.endswith("Largest drift 0.11 nats, floor 0.10.")


def test_equal_tokens_without_logprobs_are_not_called_equal() -> None:
    bare = trajectory([request(0, [1], [Step(5, None, b"x")])])
    found = verdict(bare, replace(bare, path=Path.RECOMPUTE))
    assert found.code == "unproven" and "cannot be compared" in found.headline
    empty = trajectory([])
    assert verdict(empty, empty).code == "unproven"


def test_an_invalid_pair_says_why_first_and_still_where_it_forked() -> None:
    found = verdict(*forked(), problems=("the cached path hit nothing in made-00", "another reason."))
    assert found.code == "invalid"
    assert found.headline == "Invalid, not counted: the cached path hit nothing in made-00."
    assert found.detail.startswith("Another reason. Forked at request 2, token 3. The tool call changed")


def test_a_pair_without_counts_is_unproven() -> None:
    found = verdict(*forked(), unproven=("the cached path did not report its counts",))
    assert found.code == "unproven" and found.headline.startswith("Unproven, not counted: the cached path")


def test_an_unfinished_pair_is_open_and_tells_a_fork_that_is_certain_already() -> None:
    cached, recompute = forked()
    found = verdict(replace(cached, status=Status.RUNNING), recompute)
    assert found.code == "open"
    assert found.headline.startswith("Forked at request 2, token 3:") and found.headline.endswith("Not finished yet.")
    assert verdict(cached, replace(side(Path.RECOMPUTE), status=Status.STOPPED, requests=())).headline == (
        "Not finished yet."
    )


def test_what_changed_is_said_for_every_combination() -> None:
    said = set()
    for hour in (14, 15):
        for outcome in (Outcome("reached"), Outcome("missed")):
            cached, recompute = forked()
            cached = replace(cached, outcome=outcome)
            recompute = replace(side(Path.RECOMPUTE, 8, piece=b" 15", hour=hour))
            said.add(verdict(cached, recompute).detail.split(". ")[0])
    assert said == {
        "Neither tool calls nor outcome changed",
        "The outcome changed, the tool calls did not",
        "The tool call and the outcome changed",
        "The tool call changed, the outcome did not",
    }
    unchecked = [replace(each, outcome=Outcome("none")) for each in forked()]
    assert verdict(unchecked[0], unchecked[1]).detail.startswith("The tool call changed; the outcome is not checked.")


def test_two_tokens_of_the_same_bytes_are_told_apart_by_their_ids() -> None:
    cached, recompute = side(Path.CACHED), side(Path.RECOMPUTE, 8)
    assert "‘ 14’ (id 7) against ‘ 14’ (id 8)." in verdict(cached, recompute).headline
    control = side(Path.RECOMPUTE, 8, piece=b"")
    assert "‘ 14’ against token id 8." in verdict(cached, control).headline


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0.00"), (0.044, "0.04"), (0.0042, "0.004"), (1e-6, "1e-06"), (3e38, "over 1000")]
)
def test_small_numbers_do_not_round_to_nothing(value: float, shown: str) -> None:
    assert nats(value) == shown
