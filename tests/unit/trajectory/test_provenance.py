"""The ledger of a State's positions: who wrote them, and how."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.trajectory.provenance import KvLedger, expected_cached
from app.trajectory.step import as_ids, shared_length
from app.trajectory.trajectory import Span
from tests.builders import request, step


def test_a_first_prompt_is_prefilled_chunk_by_chunk_and_equal_chunks_stay_apart() -> None:
    spans = KvLedger().take("a r1", range(10), 0, (4, 4, 1, 1), [50])
    assert spans == (
        Span(0, 4, "prefill", "a r1", 4),
        Span(4, 4, "prefill", "a r1", 4),
        Span(8, 1, "prefill", "a r1", 1),
        Span(9, 1, "prefill", "a r1", 1),
    )


def test_the_answer_is_decoded_except_for_its_last_token_and_the_next_prompt_says_so() -> None:
    ledger = KvLedger()
    ledger.take("a r1", [1, 2, 3], 0, (3,), [7, 8, 9])
    assert ledger.spans == (Span(0, 3, "prefill", "a r1", 3), Span(3, 2, "decode", "a r1"))
    assert ledger.take("a r2", [1, 2, 3, 7, 8, 9, 4], 5, (2,), [5]) == (
        Span(0, 3, "prefill", "a r1", 3),
        Span(3, 2, "decode", "a r1"),
        Span(5, 2, "prefill", "a r2", 2),
    )


def test_a_chunk_that_a_later_prompt_cuts_keeps_its_size_and_gets_shorter() -> None:
    ledger = KvLedger()
    ledger.take("a r1", range(8), 0, (8,), [])
    assert ledger.take("b r1", [0, 1, 2, 99], 3, (1,), []) == (
        Span(0, 3, "prefill", "a r1", 8),
        Span(3, 1, "prefill", "b r1", 1),
    )
    assert ledger.take("b r2", [0, 1, 98], 2, (1,), [])[0] == Span(0, 2, "prefill", "a r1", 8)


def test_a_repeated_prompt_evaluates_its_last_token_alone() -> None:
    ledger = KvLedger()
    ledger.take("a r1", range(8), 0, (8,), [9, 9])
    assert ledger.take("a r2", range(8), 7, (1,), []) == (
        Span(0, 7, "prefill", "a r1", 8),
        Span(7, 1, "prefill", "a r2", 1),
    )


def test_counts_that_were_not_reported_leave_the_whole_prompt_unknown() -> None:
    ledger = KvLedger()
    ledger.take("a r1", range(4), 0, (4,), [9, 9])
    assert ledger.take("a r2", range(6), None, (), [7, 7]) == (Span(0, 6, "unknown", "a r2"),)
    assert ledger.spans[-1] == Span(6, 1, "decode", "a r2")


def test_chunks_that_do_not_add_up_leave_the_evaluated_part_unknown() -> None:
    ledger = KvLedger()
    ledger.take("a r1", range(4), 0, (4,), [])
    for chunks in ((1,), (9,)):
        assert ledger.take("a r2", range(6), 4, chunks, [])[1:] == (Span(4, 2, "unknown", "a r2"),)


def test_where_no_chunk_sizes_are_reported_the_evaluated_part_is_a_prefill_of_unknown_chunks() -> None:
    ledger = KvLedger()
    assert ledger.take("a r1", range(4), 0, (), [9, 9]) == (Span(0, 4, "prefill", "a r1", 0),)
    assert ledger.take("a r2", [0, 1, 2, 3, 9, 5], 5, (), []) == (
        Span(0, 4, "prefill", "a r1", 0),
        Span(4, 1, "decode", "a r1"),
        Span(5, 1, "prefill", "a r2", 0),
    )


def test_reused_positions_that_the_state_never_held_are_unknown() -> None:
    ledger = KvLedger()
    ledger.take("a r1", [1, 2, 3], 0, (3,), [])
    assert ledger.take("b r1", [1, 9, 9, 9], 3, (1,), []) == (
        Span(0, 1, "prefill", "a r1", 3),
        Span(1, 2, "unknown", "b r1"),
        Span(3, 1, "prefill", "b r1", 1),
    )


def test_a_ledger_goes_on_from_what_was_kept_with_a_snapshot() -> None:
    ledger = KvLedger()
    ledger.take("a r1", [1, 2, 3], 0, (3,), [7, 8])
    restored = KvLedger([1, 2, 3, 7], ledger.spans)
    asked = ("a r2", [1, 2, 3, 7, 8, 4], 4, (2,), [5])
    assert restored.take(*asked) == ledger.take(*asked)


IDS = st.lists(st.integers(0, 2), max_size=12)


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[int], int | None, tuple[int, ...], list[int]]:
    prompt, answer = draw(IDS), draw(IDS)
    cached = draw(st.none() | st.integers(0, len(prompt)))
    left, chunks = len(prompt) - (cached or 0), []
    while left:
        chunks.append(draw(st.integers(1, left)))
        left -= chunks[-1]
    return prompt, cached, tuple(chunks), answer


@given(st.lists(requests(), max_size=6))
def test_spans_cover_the_prompt_exactly_once_in_order_and_agree_with_a_ledger_per_position(
    asked: list[tuple[list[int], int | None, tuple[int, ...], list[int]]],
) -> None:
    ledger = KvLedger()
    held: list[tuple[int, str, str, int]] = []  # id, kind, writer, chunk of every position
    for number, (prompt, cached, chunks, answer) in enumerate(asked, start=1):
        writer = f"r{number}"
        spans = ledger.take(writer, prompt, cached, chunks, answer)
        same = shared_length(as_ids([entry[0] for entry in held]), as_ids(prompt))
        kept = held[: min(same, cached or 0)]
        kept += [(token, "unknown", writer, 0) for token in prompt[len(kept) : cached]]
        sizes = [size for size in chunks for _ in range(size)]
        kept += [(token, "prefill", writer, size) for token, size in zip(prompt[len(kept) :], sizes, strict=False)]
        expected = [entry[1:] for entry in kept]
        assert [(s.kind, s.writer, s.chunk) for s in spans for _ in range(s.length)] == expected
        assert [s.start for s in spans] == [sum(s.length for s in spans[:i]) for i in range(len(spans))]
        assert all(s.length > 0 for s in spans)
        assert all(s.length <= s.chunk for s in spans if s.kind == "prefill")
        held = kept + [(token, "decode", writer, 0) for token in answer[:-1]]


def test_the_expected_hit_is_prompt_and_evaluated_answer_less_the_last_prompt_token() -> None:
    first = request(0, [1, 2, 3], [step(7), step(8)])
    assert expected_cached(first, request(1, [1, 2, 3, 7, 8, 4], [])) == 4
    assert expected_cached(first, request(1, [1, 2, 3], [])) == 2
    assert expected_cached(first, request(1, [1, 9], [])) == 1
    assert expected_cached(first, request(1, [], [])) == 0
