from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from app.errors import AppError, StoreError
from app.trajectory.codec import VOCABULARY, decode, from_json, from_line, from_lines, parse, plain, to_json, to_line
from app.trajectory.episode import ToolCall
from app.trajectory.step import Rival, Step, StepBlock
from app.trajectory.trajectory import Path, Span, Trajectory
from tests.builders import forked_pair_of_trajectories, step

PAGE = FilePath(__file__).parents[3] / "resources" / "help" / "wire-format.md"
FREE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
SCALARS: Mapping[Any, st.SearchStrategy[Any]] = {
    Any: FREE,
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(),
    str: st.text(),
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
}
IDS, LOGPROBS = st.integers(0, 2**31 - 1), st.floats(width=32)
RIVALS = st.lists(st.builds(Rival, IDS, LOGPROBS, SCALARS[bytes]), max_size=3).map(tuple)
STEPS = st.builds(Step, IDS, st.none() | LOGPROBS, SCALARS[bytes], RIVALS)
"""Steps as an engine gives them: ids of 32 bits, logprobs of float32 precision."""


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that a field of this type can hold."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Step:
        return STEPS
    if hint is StepBlock:
        return st.lists(STEPS, max_size=4).map(StepBlock.pack)
    if hint in SCALARS:
        return SCALARS[hint]
    if origin in (Union, types.UnionType):
        return st.one_of(*(st.none() if part is type(None) else values(part) for part in arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (tuple, Sequence):
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin in (dict, Mapping):
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    if origin is np.ndarray:
        return stn.arrays(get_args(arguments[1])[0], st.integers(0, 5))
    if issubclass(hint, StrEnum):
        return st.sampled_from(hint)
    hints = get_type_hints(hint)
    return st.builds(hint, **{field.name: values(hints[field.name]) for field in dataclasses.fields(hint)})


def same(left: object, right: object) -> bool:
    """Equal in type and content, NaN being equal to NaN and arrays bit for bit."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if dataclasses.is_dataclass(left) and not isinstance(left, type):
        return all(same(getattr(left, field.name), getattr(right, field.name)) for field in dataclasses.fields(left))
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right or (left != left and right != right))


@pytest.mark.parametrize("name", sorted(VOCABULARY))
def test_every_value_of_the_vocabulary_comes_back_as_it_was(name: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(values(VOCABULARY[name]))
    def check(value: Any) -> None:
        line = to_line(value)
        assert line.isascii()
        assert line.count("\n") == 1
        again = from_line(line)
        assert same(again, value)
        assert to_line(again) == line

    check()


def fuzz(data: bytes) -> None:
    """The fuzz target: whatever the bytes are, decoding gives a value that can be written again, or an AppError."""
    try:
        value = from_line(data)
    except AppError as error:
        assert error.message
        return
    assert same(from_line(to_line(value)), value)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_sentence(data: bytes) -> None:
    fuzz(data)


LINES = [to_line(forked_pair_of_trajectories(2, 2, 1, 1)[0]).encode(), to_line(step(5)).encode()]


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(LINES), st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=3)), max_size=4))
def test_a_damaged_line_is_a_value_or_a_sentence(line: bytes, damage: list[tuple[int, bytes]]) -> None:
    data = bytearray(line)
    for place, put in damage:
        data[place % len(data) : place % len(data) + len(put)] = put
    fuzz(bytes(data))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(VOCABULARY)), st.data())
def test_any_json_in_the_fields_is_a_value_or_a_sentence(name: str, data: st.DataObject) -> None:
    fields = [field.name for field in dataclasses.fields(VOCABULARY[name])]
    obj = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(fields, FREE)))
    fuzz(json.dumps({"type": name, "version": 1, **obj}).encode())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"", "no JSON"),
        (b"[" * 200_000, "no JSON"),
        (b"\xff", "no JSON"),
        (b"NaN", "no JSON"),
        (b'{"type": "Span"}', '"version" is missing'),
        (b'{"type": "Span", "version": true}', '"version" is missing'),
        (b'{"type": "Span", "version": 2}', "wire form 2; this Forkpoint reads up to 1"),
        (b'{"type": "object", "version": 1}', "names no type"),
        (b'{"type": ["Span"], "version": 1}', "names no type"),
        (b'{"type": "Span", "version": 1, "start": 0}', "missing"),
        (b'{"type": "Span", "version": 1, "start": 0, "end": 4}', "no field 'end'"),
        (b'{"type": "Outcome", "version": 1, "kind": "won"}', "one of reached"),
        (b'{"type": "NoiseFloor", "version": 1, "nats": "nan", "steps": 1}', "one of NaN"),
        (b'{"type": "NoiseFloor", "version": 1, "nats": 1, "steps": 1.0}', "int was expected"),
        (b'{"type": "NoiseFloor", "version": 1, "nats": 1, "steps": true}', "int was expected"),
        (b'{"type": "NoiseFloor", "version": 1, "nats": 1, "steps": 1' + b"0" * 30 + b"}", "out of range"),
        (b'{"type": "NoiseFloor", "version": 1, "nats": 1, "steps": 1' + b"0" * 5000 + b"}", "no JSON"),
        (b'{"type": "Prompt", "version": 1, "ids": [2147483648], "turn": 0, "added": []}', "out of bounds|too large"),
        (b"null", "an object was expected, not null"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: bytes, sentence: str) -> None:
    with pytest.raises(StoreError, match=sentence):
        from_line(line)


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    obj = to_json(StepBlock.pack([step(5), step(6)]))
    assert len(from_json(obj)) == 2
    for name, value in {"token_ids": [1], "piece_bytes": "00", "piece_ends": [4, 3], "rival_ids": [1, 2]}.items():
        with pytest.raises(StoreError, match="do not fit"):
            from_json(obj | {name: value})


def test_absent_and_not_a_number_are_kept_apart() -> None:
    line = to_line(Step(1, None, b""))
    assert json.loads(line)["logprob"] is None
    assert from_line(line).logprob is None
    line = to_line(Step(1, float("nan"), b""))
    assert json.loads(line)["logprob"] == "NaN"
    assert np.isnan(from_line(line).logprob)


def test_logprobs_keep_every_bit() -> None:
    block = StepBlock.pack([step(5, logprob=float(np.nextafter(np.float32(-0.1), np.float32(0))))])
    again = from_line(to_line(block))
    assert again.logprobs.tobytes() == block.logprobs.tobytes()
    assert again.rival_logprobs.tobytes() == block.rival_logprobs.tobytes()


def test_a_field_with_a_default_may_be_left_out_and_the_order_is_free() -> None:
    assert decode(Span, {"length": 2, "start": 1, "writer": "x", "kind": "decode"}) == Span(1, 2, "decode", "x", 0)


def test_arguments_with_numbers_that_json_lacks_become_text() -> None:
    call = ToolCall("f", {"x": float("nan"), "y": [float("-inf")]}, "f(nan)")
    assert from_line(to_line(call)).arguments == {"x": "NaN", "y": ["-Infinity"]}
    assert plain({"a": (1, 2), "b": types.MappingProxyType({"c": None})}) == {"a": [1, 2], "b": {"c": None}}


def test_a_value_outside_the_vocabulary_is_a_bug() -> None:
    with pytest.raises(TypeError, match="no wire form"):
        to_json(5)
    with pytest.raises(TypeError, match="no wire form"):
        to_json(ToolCall("f", {}, "x", problem=object()))  # type: ignore[arg-type]


def test_lines_are_read_one_by_one_and_an_error_names_its_line() -> None:
    made = list(forked_pair_of_trajectories())
    lines = [to_line(made[0]), "\n", to_line(made[1])]
    assert [value.path for value in from_lines(lines)] == [Path.CACHED, Path.RECOMPUTE]
    with pytest.raises(StoreError, match="Line 3: "):
        list(from_lines([*lines[:2], "{"]))
    assert all(isinstance(value, Trajectory) for value in from_lines(lines))


def test_a_byte_order_mark_is_no_obstacle() -> None:
    assert parse(b"\xef\xbb\xbf[1]") == [1]


def test_the_help_page_names_every_type_and_field() -> None:
    page = PAGE.read_text(encoding="utf-8")
    sections = {section.split("\n")[0].strip("` "): section for section in page.split("\n### ")[1:]}
    assert sections.keys() == VOCABULARY.keys()
    for name, cls in VOCABULARY.items():
        for field in dataclasses.fields(cls):
            assert f"`{field.name}`" in sections[name], f"{name}.{field.name} is not on the page"
            assert field.name not in ("type", "version")
