from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.workload import builtin, protocol
from app.workload.families import FAMILIES
from app.workload.families.calendar import Calendar
from app.workload.families.files import Files
from app.workload.families.messages import Messages
from app.workload.families.notes import Notes
from app.workload.families.stock import Stock
from app.workload.families.tickets import Tickets
from app.workload.families.travel import Travel
from app.workload.families.units import Units
from app.workload.world import Family, World

WORLDS = {family.name: next(e.world for e in builtin.episodes() if e.family == family.name) for family in FAMILIES}


def make(kind: type[World]) -> World:
    family = next(family for family in FAMILIES if family.world is kind)
    return kind(WORLDS[family.name])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_tool_has_a_method_and_every_example_fits_its_schema(family: Family) -> None:
    schemas = {each["name"]: each for each in family.world.tools}
    assert all(callable(getattr(family.world, name)) for name in schemas)
    for _, (name, arguments), _, _ in family.examples:
        assert protocol.problem_with(arguments, schemas[name]) is None


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_examples_show_calls_and_results_as_the_episode_will(family: Family) -> None:
    opening = family.opening()
    assert [message.role for message in opening] == ["system"] + ["user", "assistant", "tool", "assistant"] * len(
        family.examples
    )
    for message in opening[2::4]:
        (call,) = protocol.read_calls(message.content, family.world.tools)
        assert call.problem is None


@pytest.mark.parametrize(
    ("kind", "name", "arguments", "because"),
    [
        (Files, "read_file", {"path": "no/such.txt"}, "no file"),
        (Files, "list_files", {"folder": "nowhere"}, "no folder"),
        (Files, "write_file", {"path": "noslash", "text": "x"}, "no folder"),
        (Files, "make_folder", {"folder": "a/b"}, "cannot make"),
        (Files, "move_file", {"path": "../../etc/passwd", "folder": "x"}, "no file"),
        (Units, "divide", {"a": 1, "b": 0}, "division by zero"),
        (Units, "multiply", {"a": 10**400, "b": 2}, "too large"),
        (Units, "multiply", {"a": 1e308, "b": 1e308}, "too large"),
        (Units, "store", {"name": "x", "value": 10**30}, "too large"),
        (Units, "convert", {"value": 1, "source": "miles", "target": "grams"}, "cannot convert"),
        (Units, "convert", {"value": 1, "source": "parsecs", "target": "miles"}, "unknown unit"),
        (Units, "recall", {"name": "nothing"}, "nothing is kept"),
        (Calendar, "add_event", {"title": "x", "day": "Monday", "hour": 25}, "from 8 to 18"),
        (Calendar, "add_event", {"title": "x", "day": "Doomsday", "hour": 9}, "no weekday"),
        (Calendar, "cancel_event", {"title": "nothing"}, "no event"),
        (Messages, "send_message", {"to": "Nobody", "text": "x"}, "no contact"),
        (Messages, "read_message", {"id": 99}, "no message"),
        (Messages, "add_contact", {"name": ""}, "cannot add"),
        (Tickets, "close_ticket", {"id": -1}, "no ticket"),
        (Tickets, "create_ticket", {"title": "x", "priority": "dire"}, "must be one of"),
        (Stock, "add_stock", {"item": "unicorns", "amount": 1}, "no item"),
        (Stock, "low_stock_", {}, None),
        (Travel, "book_train", {"train": "T0", "seats": 1}, "no train"),
        (Travel, "cancel_booking", {"booking": 51}, "no booking"),
        (Notes, "read_note", {"title": "Nothing"}, "no note"),
        (Notes, "find_notes", {"word": ""}, "word is empty"),
    ],
)
def test_a_tool_that_cannot_do_it_answers_with_an_error(
    kind: type[World], name: str, arguments: dict[str, Any], because: str | None
) -> None:
    world = make(kind)
    if because is None:
        with pytest.raises(KeyError):
            world.call(name, arguments)
        return
    before = json.dumps(world.state)
    answer = world.call(name, arguments)
    assert not answer.ok
    assert because in json.loads(answer.text)["error"]
    assert json.dumps(world.state) == before
    assert not world.log


def test_tickets_that_are_closed_stay_as_they_are() -> None:
    world = make(Tickets)
    id = int(next(iter(world.state["tickets"])))
    assert world.call("close_ticket", {"id": id}).ok
    for name, more in (
        ("close_ticket", {}),
        ("assign_ticket", {"person": "Noor"}),
        ("set_priority", {"priority": "low"}),
    ):
        assert "is closed" in world.call(name, {"id": id, **more}).text


def test_stock_cannot_fall_below_nothing() -> None:
    world = make(Stock)
    item, row = next(iter(world.state["items"].items()))
    assert f"only {row['count']}" in world.call("remove_stock", {"item": item, "amount": row["count"] + 1}).text
    assert world.call("remove_stock", {"item": item, "amount": row["count"]}).text == f'{{"result": "{item}: 0"}}'


def test_two_events_do_not_share_an_hour() -> None:
    world = make(Calendar)
    title, event = next(iter(world.state["events"].items()))
    refused = world.call("add_event", {"title": "choir", **event})
    assert f"is taken by {title}" in refused.text


def test_a_full_day_has_no_free_hour() -> None:
    world = Calendar({"events": {}})
    for hour in range(8, 19):
        assert world.call("add_event", {"title": f"event {hour}", "day": "Monday", "hour": hour}).ok
    assert "full" in world.call("next_free_hour", {"day": "Monday"}).text


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (1, "miles", "kilometers", 1.60934),
        (10, "pounds", "kilograms", 4.53592),
        (2, "days", "hours", 48),
        (1, "feet", "meters", 0.3048),
    ],
)
def test_conversions_are_those_of_the_definitions(value: int, source: str, target: str, result: float) -> None:
    answer = make(Units).call("convert", {"value": value, "source": source, "target": target})
    assert json.loads(answer.text) == {"result": result, "unit": target}


def arguments_for(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(max_size=400) | st.sampled_from(["Monday", "bolts", "T1", "miles", "Ana", "high", "reports"]),
        "integer": st.integers() | st.integers(0, 60),
        "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    }
    properties = schema["parameters"]["properties"]
    return st.fixed_dictionaries({key: kinds[each["type"]] for key, each in properties.items()})


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_whatever_fits_the_schema_gets_a_short_answer(family: Family, data: st.DataObject) -> None:
    world = family.world(WORLDS[family.name])
    for _ in range(4):
        schema = data.draw(st.sampled_from(family.world.tools))
        arguments = data.draw(arguments_for(schema))
        assert protocol.problem_with(arguments, schema) is None
        assert len(world.call(schema["name"], arguments).text) <= protocol.MAX_RESULT
