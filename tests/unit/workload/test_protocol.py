from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.workload import protocol
from app.workload.protocol import MAX_CALLS, MAX_RESULT, read_calls, tool

TOOLS = (
    tool("move", "Move an event.", id="integer: id", hour="number: hour"),
    tool("say", "Say it.", text="string: text"),
    tool("flag", "Flag it.", on="boolean: on"),
    tool("nothing", "Do nothing."),
)


def problem(text: str) -> str:
    (call,) = read_calls(text, TOOLS)
    assert call.arguments is None
    assert call.problem
    result = protocol.error_result(call)
    assert not result.ok
    assert json.loads(result.text) == {"error": call.problem}
    return call.problem


def test_a_call_is_found_in_the_middle_of_an_answer() -> None:
    (call,) = read_calls('Sure! {"tool": "move", "args": {"id": 7, "hour": 14.5}} There.', TOOLS)
    assert (call.name, call.arguments, call.problem) == ("move", {"id": 7, "hour": 14.5}, None)
    assert call.raw == '{"tool": "move", "args": {"id": 7, "hour": 14.5}}'


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "say", "arguments": {"text": "{x}"}}',
        '<tool_call>\n{"name": "say", "parameters": {"text": "{x}"}}\n</tool_call>',
        '[{"tool": "say", "args": {"text": "{x}"}}]',
        '{"calls": [{"tool": "say", "args": {"text": "{x}"}}]}',
        '```json\n{"tool": "say", "args": {"text": "{x}"}}\n```',
        '{not json} {"tool": "say", "args": {"text": "{x}"}}',
    ],
)
def test_other_ways_to_write_a_call_are_read(text: str) -> None:
    (call,) = read_calls(text, TOOLS)
    assert (call.name, call.arguments) == ("say", {"text": "{x}"})


@pytest.mark.parametrize(
    "text", ["", "It is 14.", '{"id": 7}', "{", "{}", '{"name": "Ada", "age": 36}', "[1, 2]", "}{"]
)
def test_an_answer_without_a_call_holds_none(text: str) -> None:
    assert read_calls(text, TOOLS) == ()


def test_a_tool_without_arguments_needs_none() -> None:
    (call,) = read_calls('{"tool": "nothing"}', TOOLS)
    assert call.arguments == {}


def test_several_calls_come_in_order_and_at_most_four() -> None:
    text = " ".join(protocol.call_text("say", {"text": str(n)}) for n in range(6))
    calls = read_calls(text, TOOLS)
    assert [call.arguments for call in calls] == [{"text": str(n)} for n in range(MAX_CALLS)]


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ('{"tool": "fly", "args": {}}', "unknown tool, use one of move, say, flag, nothing"),
        ('{"tool": "move", "args": {"id": 7', "not valid JSON"),
        ('{"tool": "move", "args": {"id": NaN, "hour": 1}}', "not valid JSON"),
        ('{"tool": "move", "args": {"id": 1, "hour": 1e999}}', "not valid JSON"),
        ('{"tool": "move", "args": {"id": 1, "hour": ' + "9" * 5000 + "}}", "not valid JSON"),
        ('{"tool": "move", "args": ' + "[" * 100_000, "not valid JSON"),
        ('{"tool": "move", "args": [7, 14]}', "args must be a JSON object"),
        ('{"tool": "move", "args": "7"}', "args must be a JSON object"),
        ('{"tool": "move", "args": {"id": 7}}', "move needs id, hour"),
        ('{"tool": "move"}', "move needs id, hour"),
        ('{"tool": "move", "args": {"id": 7, "hour": 9, "day": 1}}', "move takes only id, hour"),
        ('{"tool": "move", "args": {"id": "7", "hour": 9}}', "id must be of type integer"),
        ('{"tool": "move", "args": {"id": 7.0, "hour": 9}}', "id must be of type integer"),
        ('{"tool": "move", "args": {"id": true, "hour": 9}}', "id must be of type integer"),
        ('{"tool": "say", "args": {"text": null}}', "text must be of type string"),
        ('{"tool": "flag", "args": {"on": 1}}', "on must be of type boolean"),
    ],
)
def test_a_call_that_cannot_be_used_says_what_is_wrong_with_it(text: str, because: str) -> None:
    assert because in problem(text)


def test_the_name_of_a_broken_call_is_kept() -> None:
    (call,) = read_calls('{"tool": "move", "args": {"id": 7', TOOLS)
    assert call.name == "move"
    assert call.raw == '{"tool": "move", "args": {"id": 7'


def test_a_schema_that_says_more_than_is_checked_lets_its_values_pass() -> None:
    schema = {"name": "x", "parameters": {"properties": {"a": {"anyOf": []}, "b": {"type": ["string", "null"]}}}}
    assert protocol.problem_with({"a": 1, "b": None}, schema) is None
    assert protocol.problem_with({"b": 1}, schema) is not None


def test_a_long_result_is_cut() -> None:
    result = protocol.result("x", ["long"] * 500)
    assert len(result.text) == MAX_RESULT
    assert result.text.endswith("...")


def test_the_instructions_name_every_tool_shortly_or_with_its_whole_schema() -> None:
    short = protocol.instructions("You help.", TOOLS)
    long = protocol.instructions("You help.", TOOLS, verbose=True)
    assert "- move(id, hour): Move an event." in short
    assert json.dumps(TOOLS[0]) in long
    assert len(long) > 2 * len(short)


@given(st.text(alphabet='{}[]":, toolargsnme019\\', max_size=80) | st.text(max_size=40))
def test_any_text_is_read_without_a_failure(text: str) -> None:
    for call in read_calls('{"tool": "move", "args": ' + text, TOOLS):
        assert (call.arguments is None) == (call.problem is not None)
