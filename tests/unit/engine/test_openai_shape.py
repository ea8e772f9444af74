from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.openai.shape import Candidate, Completion, Entry, best, cut, read_completion

REAL_TOKENS = ["", "", "", "\n", "#", "1", "0", ":", " ", "", "", "", "", ""]
REAL_TEXT = "🦊\n#10: 🧐🧐"
"""What llama-cpp-python 0.3.36 answered: a fox of three tokens, and two faces of five."""


def lists(tokens: list[str], **others: object) -> dict[str, object]:
    tops = [{token: -0.5, "other": -1.5} for token in tokens]
    return {"tokens": tokens, "token_logprobs": [-0.5] * len(tokens), "top_logprobs": tops, **others}


def read(text: str, logprobs: object, **others: object) -> Completion:
    raw = {"choices": [{"text": text, "logprobs": logprobs, "finish_reason": "stop"}], **others}
    answer = read_completion(json.loads(json.dumps(raw)))
    assert answer is not None
    return answer


def entries(tokens: list[str]) -> tuple[Entry, ...]:
    found = read("", lists(tokens)).entries
    assert found is not None
    return found


def shown(text: str, tokens: list[str]) -> list[tuple[str, bool]] | None:
    pieces = cut(text, entries(tokens))
    return None if pieces is None else [(piece.decode(), entry is not None) for piece, entry in pieces]


def test_tokens_without_a_text_of_their_own_become_one_piece_without_an_entry() -> None:
    alone = [(letter, True) for letter in "\n#10: "]
    assert shown(REAL_TEXT, REAL_TOKENS) == [("🦊", False), *alone, ("🧐🧐", False)]


def test_a_single_token_without_a_text_keeps_its_entry() -> None:
    assert shown("a🦊b", ["a", "", "b"]) == [("a", True), ("🦊", True), ("b", True)]
    assert shown("ab", ["a", "", "b"]) == [("a", True), ("", True), ("b", True)]  # it was left out of the text
    assert shown("a", ["a", "\ufffd"]) == [("a", True), ("", True)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("hello", [" hello"]),
        ("hello there", ["hello"]),
        ("hello", ["hello", " there"]),
        ("a word b", ["a", "", "b"]),
        ("🦊 and more", ["", ""]),
        ("hello", []),
    ],
)
def test_entries_that_do_not_rebuild_the_text_are_placed_nowhere(text: str, tokens: list[str]) -> None:
    assert cut(text, entries(tokens)) is None


@given(st.text(min_size=1, max_size=30), st.sets(st.integers(1, 60)))
def test_whatever_is_placed_lies_end_to_end_and_keeps_its_own_text(text: str, ends: set[int]) -> None:
    data = text.encode()
    bounds = [0, *sorted(end for end in ends if end < len(data)), len(data)]
    tokens = [data[a:b].decode("utf-8", errors="ignore") for a, b in itertools.pairwise(bounds)]
    pieces = cut(text, entries(tokens))
    if all("\ufffd" not in token and token for token in tokens) and "".join(tokens) == text:
        assert pieces is not None and len(pieces) == len(tokens)
    if pieces is not None:
        assert b"".join(piece for piece, _ in pieces) == data
        for piece, entry in pieces:
            assert entry is None or entry.sampled.piece in (None, piece)


def test_bytes_place_every_entry_even_inside_characters() -> None:
    data = "🦊!".encode()
    parts = [data[:2], data[2:4], data[4:]]
    content = [{"token": "", "bytes": list(part), "logprob": -1, "top_logprobs": []} for part in parts]
    answer = read("🦊!", {"content": content})
    assert answer.tells_bytes and answer.entries is not None
    placed = cut(answer.text, answer.entries)
    assert placed is not None and [piece for piece, _ in placed] == parts
    assert cut("🦊", answer.entries[:2]) is not None
    assert cut("\ufffd", answer.entries[:1]) is not None  # a server that ends inside a character
    assert cut("", answer.entries[:1]) is not None  # and one that leaves the half out
    assert cut("🦊?", answer.entries) is None


def test_an_entry_that_stands_for_several_tokens_has_no_logprob_of_its_own() -> None:
    fox = {"id": 228, "token": "🦊", "bytes": list("🦊".encode()), "logprob": -0.4}
    folded = {
        **fox,
        "top_logprobs": [{"id": 228, "token": "\ufffd", "bytes": [138], "logprob": -0.4}],
    }  # llama-server's
    whole = {**fox, "id": 7, "top_logprobs": [{**fox, "id": 7}]}
    answer = read("🦊🦊", {"content": [folded, whole]})
    assert answer.entries is not None
    placed = cut(answer.text, answer.entries)
    assert placed is not None and [entry is None for _, entry in placed] == [True, False]


def test_ids_are_read_where_entries_have_them() -> None:
    top = [
        {"id": 9, "token": "b", "bytes": [98], "logprob": -2.0},
        {"id": 7, "token": "a", "bytes": [97], "logprob": -0.2},
    ]
    content = [{"id": 7, "token": "a", "bytes": [97], "logprob": -0.2, "top_logprobs": top}]
    answer = read("a", {"content": content})
    assert answer.entries == (
        Entry(Candidate(b"a", 7, -0.2), (Candidate(b"a", 7, -0.2), Candidate(b"b", 9, -2.0))),
    )  # fmt: skip


@pytest.mark.parametrize("value", [None, 0.5, -3.4028234663852886e38, "x", True, float("nan"), float("-inf")])
def test_what_is_no_logprob_is_none(value: object) -> None:
    found = read("a", {"tokens": ["a"], "token_logprobs": [value], "top_logprobs": [{"b": value}]}).entries
    assert found == (Entry(Candidate(b"a", None, None)),)


def test_lists_of_unequal_length_are_no_entries() -> None:
    assert read("ab", lists(["a", "b"], token_logprobs=[-1.0])).entries is None
    found = read("ab", lists(["a", "b"], top_logprobs=[{"a": -0.5}])).entries
    assert found is not None and [entry.rivals for entry in found] == [(), ()]


def test_rivals_that_contradict_the_sampled_token_are_of_another_position() -> None:
    found = read("a", {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"a": -2.5, "b": -0.1}]}).entries
    assert found == (Entry(Candidate(b"a", None, None)),)


def test_rivals_are_given_only_where_none_can_be_missing() -> None:
    sampled = Candidate(b"a", None, -0.5)
    others = tuple(Candidate(piece, None, -1.0 - n) for n, piece in enumerate((b"b", b"c", None)))
    assert best(Entry(sampled, (sampled, *others)), 4) == (sampled, *others)
    assert best(Entry(sampled, (sampled, *others[:2])), 4) == ()  # two had one text, and one of them is lost
    added = Candidate(b"z", None, -9.0)
    assert best(Entry(added, (sampled, *others, added)), 5) == ()  # four and the sampled one: a fifth may be lost
    assert best(Entry(added, (sampled, *others, added)), 4) == (sampled, *others)


@pytest.mark.parametrize("raw", [None, [], {}, {"choices": []}, {"choices": [None]}, {"choices": [{"text": 1}]}, "x"])
def test_an_answer_without_a_text_is_none(raw: object) -> None:
    assert read_completion(raw) is None


def test_halves_of_surrogate_pairs_are_joined_or_replaced() -> None:
    raw = json.loads('{"choices": [{"text": "\\ud83e\\udd8a \\ud83e"}]}')
    answer = read_completion(raw)
    assert answer is not None and answer.text == "🦊 \ufffd"
    lone = json.loads('{"choices": [{"text": "a", "logprobs": {"tokens": ["\\ud83e"], "token_logprobs": [-1]}}]}')
    answer = read_completion(lone)
    assert answer is not None and answer.entries == (Entry(Candidate(None, None, -1.0)),)


def test_counts_that_are_not_told_are_none_and_not_zero() -> None:
    assert read("a", None).cached is None
    assert read("a", None, usage={"prompt_tokens": 7, "prompt_tokens_details": None}).cached is None
    told = read("a", None, usage={"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 0}})
    assert (told.cached, told.prompt_tokens) == (0, 7)
