from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import WorkloadError
from app.trajectory.episode import Episode, Message
from app.workload.imports import MAX_BYTES, load_episodes, read_text

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "How is "}, {"type": "text", "text": "Oslo?"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "assistant", "content": "It rains."},
    {"role": "user", "content": "Thanks."},
    {"role": "assistant", "content": "You are welcome."},
]


def one(value: Any) -> Episode:
    (episode,) = read_text(value if isinstance(value, str) else json.dumps(value))
    return episode


@pytest.mark.parametrize(
    "text",
    [json.dumps(TALK), json.dumps({"model": "m", "messages": TALK}), "\n".join(map(json.dumps, TALK)) + "\n\n"],
    ids=["list", "request body", "JSONL"],
)
def test_a_conversation_becomes_turns_with_their_recorded_results(text: str) -> None:
    episode = one(text)
    assert episode.id == "imported-pasted"
    assert episode.family == "imported"
    assert episode.opening == (Message("system", "Be brief."),)
    assert episode.turns == ("How is Oslo?", "Thanks.")
    assert episode.recorded == ((Message("tool", "rain", "weather"),), ())


def test_a_request_body_brings_its_tools() -> None:
    assert one({"messages": TALK, "tools": [TOOL]}).tools == (TOOL["function"],)
    assert one({"messages": TALK, "functions": [TOOL["function"]]}).tools == (TOOL["function"],)


def test_old_function_calls_are_taken() -> None:
    episode = one(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "Oslo?"},
            {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}},
            {"role": "function", "name": "weather", "content": "rain"},
        ]
    )
    assert episode.opening == (Message("system", "Be brief."),)
    assert episode.recorded == ((Message("tool", "rain", "weather"),),)


def test_lines_of_request_bodies_are_an_episode_each() -> None:
    body = json.dumps({"messages": TALK})
    assert [episode.id for episode in read_text(f"{body}\n{body}", name="x")] == ["imported-x-1", "imported-x-2"]
    assert [episode.id for episode in read_text(f"[{body}]", name="x")] == ["imported-x"]


@pytest.mark.parametrize("value", [[5, 6, 7], {"prompt": [5, 6, 7], "n_predict": 64}])
def test_token_ids_are_one_request(value: Any) -> None:
    assert one(value).raw_ids == (5, 6, 7)


def test_a_file_names_its_episode(tmp_path: Path) -> None:
    file = tmp_path / "support call.json"
    file.write_text(json.dumps(TALK), encoding="utf-8-sig")
    assert [episode.id for episode in load_episodes(file)] == ["imported-support call"]


def without(position: int, **changes: Any) -> list[dict[str, Any]]:
    return [{**message, **changes} if n == position else message for n, message in enumerate(TALK)]


@pytest.mark.parametrize(
    ("value", "because"),
    [
        ("", "not JSON"),
        ("hello", "not JSON"),
        ("\x00\x01", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"role": "user", "content": "x"}\n{"role"', "Line 2 is not JSON"),
        ({}, "neither messages nor token ids"),
        ([], "neither messages nor token ids"),
        ("7", "neither messages nor token ids"),
        ({"prompt": "text"}, "neither messages nor token ids"),
        ({"messages": {}}, "not a list"),
        ([1, 2, -3], "Token id 3"),
        ([1, True], "Token id 2"),
        ([1, 2.5], "Token id 2"),
        ([2**31], "Token id 1"),
        ([*TALK, "x"], "Message 8 is not a JSON object"),
        (without(0, role="narrator"), "Message 1 has the unknown role “narrator”"),
        (without(0, role=None), "Message 1 has the unknown role"),
        (without(1, content=None), "Message 2 has no content"),
        (without(1, content=[]), "Message 2 has no content"),
        (without(1, content=[{"type": "image_url", "image_url": {}}]), "Message 2 has a part of the kind “image_url”"),
        (without(2, tool_calls=[{"id": "c1"}]), "Message 3 has a tool call without"),
        (without(2, tool_calls="x"), "Message 3 has a tool call without"),
        (without(3, tool_call_id="c9"), "Message 4 is a tool result, but no tool call"),
        (without(5, role="system"), "Message 6 is a system message in the middle"),
        (TALK[:1], "no user message"),
        ({"messages": TALK, "tools": "x"}, "“tools” is not a list"),
        ({"messages": TALK, "tools": [{}]}, "Tool 1 has no function name"),
        ({"messages": TALK, "tools": [{"name": "x", "parameters": []}]}, None),
        ({"messages": TALK, "tools": [{"name": "x", "parameters": {"properties": [1]}}]}, "no JSON schema"),
        ({"messages": TALK, "tools": [{"name": "x", "parameters": {"required": 3}}]}, "no JSON schema"),
        ([{"role": "user", "content": "x"}] * 2001, "more than 2,000 messages"),
        ("[" + "1," * 1_000_000 + "1]", "more than 1,000,000 token ids"),
        ("x" * (MAX_BYTES + 1), "longer than 10 million"),
    ],
)
def test_what_is_no_conversation_gets_a_sentence_that_names_the_place(value: Any, because: str | None) -> None:
    if because is None:
        assert one(value).tools
        return
    with pytest.raises(WorkloadError, match=because) as caught:
        one(value)
    assert caught.value.hint


def test_a_file_that_is_no_text_too_large_or_not_there_gets_a_sentence(tmp_path: Path) -> None:
    binary, large = tmp_path / "a.gguf", tmp_path / "large.json"
    binary.write_bytes(b"GGUF\xff\xfe\x00")
    large.write_bytes(b" " * (MAX_BYTES + 1))
    for file, because in ((binary, "not a text file"), (large, "larger than"), (tmp_path / "no", "cannot be read")):
        with pytest.raises(WorkloadError, match=because):
            load_episodes(file)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["user", "tool", "assistant", "c1"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "messages", "tools", "tool_calls", "id", "function", "name"]), inner
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_an_episode_or_a_known_error(value: Any) -> None:
    try:
        read_text(json.dumps(value))
    except WorkloadError as error:
        assert error.message.endswith(".")
