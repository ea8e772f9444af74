"""The one wire form: the vocabulary as JSON objects and JSON lines, and back.

It serves `--json`, the parts of a bundle and recorded answers; resources/help/wire-format.md is its schema page. What
an object looks like follows from the dataclasses themselves, so a new field needs no second place. Decoding distrusts
what it reads: whatever is wrong with it ends in a StoreError.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import types
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from app.errors import StoreError
from app.trajectory import episode, events, pair, reproducer, step, trajectory
from app.trajectory.step import StepBlock

WIRE_VERSION = 1
"""Goes up when an object of an earlier version can no longer be read by the rules of this one."""

VOCABULARY: Mapping[str, type] = {
    name: item
    for module in (episode, step, trajectory, pair, reproducer, events)
    for name, item in vars(module).items()
    if isinstance(item, type) and dataclasses.is_dataclass(item) and item.__module__ == module.__name__
}
"""Every type that has a wire form, by the name that stands in its "type" tag."""

_INTEGERS = range(-(2**63), 2**63)  # what SQLite and other languages hold

_AS_IT_IS: frozenset[type] = frozenset((int, str, bool, type(None)))  # what stands for itself in JSON

Decoder = Callable[[Any], Any]


def to_json(value: object) -> dict[str, Any]:
    """A vocabulary value as a JSON object with "type" and "version". Raises TypeError for any other value."""
    if type(value).__name__ not in VOCABULARY:
        raise TypeError(f"{type(value).__name__} has no wire form")
    return {"type": type(value).__name__, "version": WIRE_VERSION, **encode(value)}


def from_json(obj: object) -> Any:
    """The vocabulary value that `to_json` made `obj` of. Raises StoreError where it is none."""
    if not isinstance(obj, dict):
        raise _unreadable(f"an object was expected, not {_name(obj)}")
    fields = dict(obj)
    name, version = fields.pop("type", None), fields.pop("version", None)
    if isinstance(version, int) and version > WIRE_VERSION:
        raise StoreError(
            f"These data are in wire form {version}; this Forkpoint reads up to {WIRE_VERSION}.",
            "A newer Forkpoint reads them.",
        )
    if version != WIRE_VERSION or isinstance(version, bool):
        raise _unreadable('"version" is missing or wrong')
    if not isinstance(name, str) or name not in VOCABULARY:
        raise _unreadable(f'"type" names no type of the vocabulary: {name!r:.60}')
    return decode(VOCABULARY[name], fields)


def to_line(value: object) -> str:
    """A vocabulary value as one line of ASCII JSON, newline included."""
    return compact(to_json(value)) + "\n"


def from_line(line: str | bytes) -> Any:
    """The value that `to_line` made `line` of. Raises StoreError where it is none."""
    return from_json(parse(line))


def from_lines(lines: Iterable[str | bytes]) -> Iterator[Any]:
    """The values of JSON lines; empty lines are passed over. A StoreError names the line, counted from 1."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield from_line(line)
            except StoreError as error:
                raise StoreError(f"Line {number}: {error.message}", error.hint) from error


def parse(text: str | bytes) -> Any:
    """Strict JSON as Python values. Raises StoreError, also where it nests too deep or is no UTF-8."""
    try:
        return _STRICT.decode(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _unreadable("no JSON") from error


def compact(wire_form: object) -> str:
    """JSON values as ASCII text without spaces."""
    return _COMPACT.encode(wire_form)


def encode(value: object) -> Any:
    """A value of the vocabulary or a field of one as JSON values, without "type" and "version"."""
    if value is None or isinstance(value, bool | str | int):
        return value.value if isinstance(value, StrEnum) else value
    if isinstance(value, float):
        return _float_out(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray):
        return _array_out(value)
    if isinstance(value, Sequence):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            name: plain(item) if is_free else item if type(item) in _AS_IT_IS else encode(item)
            for name, is_free in _fields(type(value))
            for item in (getattr(value, name),)
        }
    raise TypeError(f"{type(value).__name__} has no wire form")


def decode(hint: Any, obj: object) -> Any:
    """The value of type `hint` that `encode` made `obj` of, e.g. `decode(tuple[Span, ...], [...])`.

    Raises StoreError where `obj` is not the wire form of such a value.
    """
    try:
        return _decoder(hint)(obj)
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise _unreadable(str(error)) from error


def plain(value: object) -> Any:
    """A copy of free-form JSON values (a plan, a call's arguments): NaN and infinities become their names as text."""
    return _LENIENT_IN.decode(_LENIENT_OUT.encode(value))


@cache
def _fields(cls: type) -> tuple[tuple[str, bool], ...]:
    """The fields of a dataclass, and whether they hold JSON values of any kind."""
    return tuple((name, _is_free(hint)) for name, hint in _hints(cls).items())


def _is_free(hint: Any) -> bool:
    """Whether the field is e.g. `dict[str, Any] | None`."""
    return hint is Any or (get_origin(hint) is not np.ndarray and any(map(_is_free, get_args(hint))))


def _mapping(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _float_out(value: float) -> float | str:
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _array_out(array: np.ndarray[Any, Any]) -> Any:
    if array.ndim == 1 and array.dtype.kind == "i":
        return array.tolist()
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {"shape": list(array.shape), "base64": base64.b64encode(little.tobytes()).decode()}


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


@cache
def _decoder(hint: Any) -> Decoder:
    """What checks and rebuilds a value of type `hint`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if origin in (Union, types.UnionType):
        return _optional(arguments)
    if origin is Literal:
        return lambda obj: _one_of(arguments, obj)
    if origin in (tuple, Sequence):
        items = _column(arguments[0])
        return lambda obj: tuple(items(_expect(list, obj)))
    if origin in (dict, Mapping):
        return _mapping_in(*arguments)
    if origin is np.ndarray:
        return lambda obj: _array_in(np.dtype(get_args(arguments[1])[0]), obj)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return lambda obj: hint(_expect(str, obj))
    return _dataclass_in(hint)


def _optional(arguments: tuple[Any, ...]) -> Decoder:
    (inner,) = (_decoder(part) for part in arguments if part is not type(None))
    return lambda obj: None if obj is None else inner(obj)


def _mapping_in(key_hint: type, value_hint: Any) -> Decoder:
    if (key_hint, value_hint) == (str, Any):
        return lambda obj: dict(_expect(dict, obj))  # JSON's keys are text
    column = _column(value_hint)
    return lambda obj: dict(zip(map(key_hint, _expect(dict, obj)), column(list(obj.values())), strict=True))


@cache
def _column(hint: Any) -> Callable[[Sequence[Any]], Iterable[Any]]:
    """What checks and rebuilds many values of type `hint`: those that stand for themselves are looked at together."""
    item, as_it_is = _decoder(hint), _as_it_is(hint)
    if dataclasses.is_dataclass(hint) and hint is not StepBlock:
        return _dataclasses_in(hint, item)

    def rebuild(objs: Sequence[Any]) -> Iterable[Any]:
        kinds = set(map(type, objs))
        if not kinds <= as_it_is or (int in kinds and kinds != {int}):
            return map(item, objs)
        if int in kinds:
            array("q", objs)  # OverflowError where one is out of range
        return objs

    return rebuild


def _dataclasses_in(cls: Any, item: Decoder) -> Callable[[Sequence[Any]], Iterable[Any]]:
    """Objects as the codec writes them are rebuilt field by field, in a third of the time; others one by one."""
    names = tuple(_hints(cls))
    columns = [_column(hint) for hint in _hints(cls).values()]

    def rebuild(objs: Sequence[Any]) -> Iterable[Any]:
        if set(map(type, objs)) != {dict} or set(map(tuple, objs)) != {names}:
            return map(item, objs)
        fields = zip(*map(dict.values, objs), strict=True)
        return map(cls, *(column(values) for column, values in zip(columns, fields, strict=True)))

    return rebuild


def _dataclass_in(cls: Any) -> Decoder:
    plans = {name: (_as_it_is(hint), _decoder(hint)) for name, hint in _hints(cls).items()}
    names, ordered = list(plans), list(plans.values())
    check = _check_block if cls is StepBlock else None

    def rebuild(obj: Any) -> Any:
        fields = _expect(dict, obj)
        as_written = list(fields) == names
        if not as_written and (unknown := fields.keys() - plans.keys()):
            raise ValueError(f"{cls.__name__} has no field {min(unknown)!r:.60}")
        values = [  # inline, because a file of 100,000 steps has ten thousand such objects
            item if (kind := type(item)) in as_it_is and (kind is not int or item in _INTEGERS) else decoder(item)
            for (as_it_is, decoder), item in zip(
                ordered if as_written else map(plans.__getitem__, fields), fields.values(), strict=True
            )
        ]
        # TypeError where a field is missing
        value = cls(*values) if as_written else cls(**dict(zip(fields, values, strict=True)))
        if check is not None:
            check(value)
        return value

    return rebuild


def _as_it_is(hint: Any) -> frozenset[type]:
    """Types of JSON values that stand for themselves in a field of this type."""
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return frozenset(choice for choice in choices if choice in _AS_IT_IS)


def _check_block(block: StepBlock) -> None:
    count, rivals = block.token_ids.shape, block.rival_ids.shape
    ends = [0, *block.piece_ends.ravel().tolist()]
    if (
        len(count) != 1
        or not count == block.logprobs.shape == block.piece_ends.shape == rivals[:1]
        or len(rivals) != 2
        or rivals != block.rival_logprobs.shape
        or ends != sorted(ends)
        or ends[-1] != len(block.piece_bytes)
    ):
        raise ValueError("the arrays of a StepBlock do not fit together")


def _array_in(dtype: np.dtype[Any], obj: Any) -> np.ndarray[Any, Any]:
    if isinstance(obj, list):
        if dtype.kind != "i":
            raise ValueError("a list of integers stands where other numbers belong")
        if not set(map(type, obj)) <= {int}:
            raise ValueError("something that is no integer stands in a list of integers")
        return np.array(obj, dtype)  # OverflowError where one is out of range
    fields = _expect(dict, obj)
    shape = [_SCALARS[int](size) for size in _expect(list, fields["shape"])]
    if any(size < 0 for size in shape):
        raise ValueError("an array has a negative size")
    try:
        data = base64.b64decode(_expect(str, fields["base64"]), validate=True)
    except binascii.Error as error:
        raise ValueError("an array is no base64") from error
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _expect(kind: type, obj: Any) -> Any:
    if type(obj) is not kind:
        raise ValueError(f"{kind.__name__} was expected, not {_name(obj)}")
    return obj


def _int_in(obj: Any) -> int:
    number: int = _expect(int, obj)
    if number not in _INTEGERS:
        raise ValueError("an integer is out of range")
    return number


def _float_in(obj: Any) -> float:
    if type(obj) is int:
        return float(_int_in(obj))
    return float(_one_of(("NaN", "Infinity", "-Infinity"), obj)) if isinstance(obj, str) else float(_expect(float, obj))


def _one_of(choices: tuple[Any, ...], obj: Any) -> Any:
    if not isinstance(obj, str) or obj not in choices:
        raise ValueError(f"one of {', '.join(map(str, choices))} was expected")
    return obj


_SCALARS: Mapping[Any, Decoder] = {
    Any: lambda obj: obj,
    int: _int_in,
    float: _float_in,
    str: lambda obj: _expect(str, obj),
    bool: lambda obj: _expect(bool, obj),
    bytes: lambda obj: bytes.fromhex(_expect(str, obj)),
}


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


# Made once: json.dumps and json.loads make a new one at every call that asks for anything unusual.
_COMPACT = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_STRICT = json.JSONDecoder(parse_constant=_no_constant)
_LENIENT_OUT, _LENIENT_IN = json.JSONEncoder(default=_mapping), json.JSONDecoder(parse_constant=str)


def _name(obj: object) -> str:
    return "null" if obj is None else type(obj).__name__


def _unreadable(why: str) -> StoreError:
    return StoreError(f"These data are not in Forkpoint's wire form ({why}).", "They may be damaged or edited.")
