from __future__ import annotations

from dataclasses import replace

from app.trajectory.telemetry import ROWS, chunks, continuity, remarks, telemetry
from tests.builders import request, step


def shown(made: object) -> dict[str, str]:
    return dict(zip(ROWS, telemetry(made), strict=True))  # type: ignore[arg-type]


def test_what_was_not_reported_is_never_zero() -> None:
    made = request(1, range(450), [step(1)] * 3, cached=None)
    assert made.report is not None
    made = replace(made, report=replace(made.report, first_token_ms=None, prefill_ms=None, decode_ms=None))
    values = shown(made)
    for name in ("from cache", "evaluated", "prefill chunks", "held before", "time to first, ms", "per step, ms"):
        assert values[name] == "not reported"
    assert values["prompt tokens"] == "450"


def test_zero_cached_is_zero_and_an_empty_state_is_called_empty() -> None:
    values = shown(request(0, range(450), [step(1)] * 3, cached=0))
    assert values["from cache"] == "0"
    assert values["held before"] == "empty"
    assert values["evaluated"] == "450"


def test_a_step_takes_the_decode_time_over_the_tokens_after_the_first() -> None:
    made = request(0, range(9), [step(1)] * 3)
    assert shown(made)["per step, ms"] == "25.5"  # 3 x 17 ms over two decoded tokens
    assert shown(replace(made, steps=request(0, [1], [step(1)]).steps))["per step, ms"] == "not reported"


def test_chunks_are_listed_in_order_and_runs_are_counted() -> None:
    assert chunks((512, 38)) == "512 + 38"
    assert chunks((512,) * 13 + (344,)) == "13 × 512 + 344"
    assert chunks((1, 512, 1)) == "1 + 512 + 1"
    assert chunks(()) == "none"


def test_a_rewritten_prompt_says_where_counted_from_one() -> None:
    made = request(1, range(9), [step(1)])
    assert continuity(made) == "yes"
    assert continuity(replace(made, prompt=replace(made.prompt, mismatch=311))) == "rewritten at 312"
    assert continuity(request(0, range(9), [step(1)])) == "first request"


def test_an_open_request_has_no_numbers_yet_and_a_missing_one_a_dash() -> None:
    made = replace(request(1, range(9), [step(1)]), report=None)
    assert shown(made)["evaluated"] == "open"
    assert shown(made)["prompt tokens"] == "9"
    assert set(telemetry(None)) == {"—"}


def test_problem_and_note_are_both_said() -> None:
    made = request(1, range(9), [step(1)])
    assert made.report is not None
    assert remarks(made) == []
    assert remarks(replace(made, report=replace(made.report, problem="P.", note="N."))) == ["P.", "N."]
