"""The tool protocol: how tools are described to a model without templates for them, and how its calls are read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from app.trajectory.episode import ToolCall, ToolResult

MAX_CALLS: Final = 4
"""At most so many calls of one answer are executed; the rest is ignored."""

MAX_RESULT: Final = 300
"""Longest tool result in characters; a longer one is cut and ends in "..."."""

_LOOKS_LIKE_CALL: Final = re.compile(r'\{\s*"(?:tool|name|function)"')
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def tool(name: str, description: str, /, **parameters: str) -> dict[str, Any]:
    """A tool as a JSON-schema function description; a parameter is written "type: what it means"; all are required."""
    split = {key: text.split(": ", 1) for key, text in parameters.items()}
    return {
        "name": name,
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {key: {"type": kind, "description": text} for key, (kind, text) in split.items()},
            "required": list(parameters),
        },
    }


def instructions(role: str, tools: Sequence[dict[str, Any]], *, verbose: bool = False) -> str:
    """The system message: who the model is, its tools, and how to call them.

    Tools are one line each, or their whole JSON schema where `verbose`: documentation that is long against the answers.
    """
    lines = [json.dumps(each) if verbose else _signature(each) for each in tools]
    return (
        f"{role} Use the tools. To call a tool, answer only with JSON: "
        '{"tool": NAME, "args": {...}}. When the result is there, say it in one short sentence.\nTools:\n'
        + "\n".join(lines)
    )


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """A call as the few-shot examples write it."""
    return json.dumps({"tool": name, "args": arguments}, ensure_ascii=False)


def read_calls(text: str, tools: Sequence[dict[str, Any]], *, cut: bool = False) -> tuple[ToolCall, ...]:
    """The calls in an answer, in order, at most MAX_CALLS; an unusable one has `arguments` None and a `problem`.

    A call is a JSON object with "tool" and "args" anywhere in the text; "name" with "arguments" or "parameters" is
    taken too, which models trained on tools write. Text without such an object holds no call. `cut` says that the
    answer ended at its token limit.
    """
    schemas = {str(each.get("name")): each for each in tools}
    calls: list[ToolCall] = []
    position = text.find("{")
    while position >= 0 and len(calls) < MAX_CALLS:
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            end = position + 1
            if _LOOKS_LIKE_CALL.match(text, position):
                raw = text[position:]
                why = "the answer was cut off at its token limit" if cut else _short(error)
                calls.append(ToolCall(_name_in(raw), None, raw, f"not valid JSON: {why}"))
        else:
            read = _as_call(value, text[position:end], schemas)
            end = end if read else position + 1  # a call may be inside another object
            calls += [read] if read else []
        position = text.find("{", end)
    return tuple(calls)


def error_result(call: ToolCall) -> ToolResult:
    """What the tools answer to a call that cannot be used."""
    return result(call.name, {"error": call.problem or "The tool call cannot be used."}, ok=False)


def result(name: str, value: object, *, ok: bool = True) -> ToolResult:
    """A tool result: `value` as JSON, cut at MAX_RESULT characters."""
    text = json.dumps({"result": value} if isinstance(value, str) else value, ensure_ascii=False)
    return ToolResult(name, text if len(text) <= MAX_RESULT else text[: MAX_RESULT - 3] + "...", ok)


def problem_with(arguments: object, schema: dict[str, Any]) -> str | None:
    """Why `arguments` do not fit a function's JSON schema (types, missing, unknown); None where they fit."""
    name = schema.get("name")
    if not isinstance(arguments, dict):
        return f"{name}: args must be a JSON object"
    parameters = schema.get("parameters") or {}
    properties: dict[str, Any] = parameters.get("properties") or {}
    for key in parameters.get("required") or ():
        if key not in arguments:
            return f"{name} needs {', '.join(properties)}"
    for key, value in arguments.items():
        if key not in properties:
            return f"{name} takes only {', '.join(properties) or 'nothing'}"
        kind = properties[key].get("type") if isinstance(properties[key], dict) else None
        if not _fits(value, kind):
            return f"{name}: {key} must be of type {kind}"
    return None


def _fits(value: object, kind: object) -> bool:
    kinds = [str(each) for each in (kind if isinstance(kind, list) else [kind])]
    if not all(each in _TYPES for each in kinds):
        return True  # an imported schema may say more than is checked here
    if isinstance(value, bool):
        return "boolean" in kinds
    return isinstance(value, tuple(kind for each in kinds for kind in _TYPES[each]))


def _as_call(value: object, raw: str, schemas: dict[str, dict[str, Any]]) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    name = next((value[key] for key in ("tool", "name", "function") if isinstance(value.get(key), str)), None)
    if name is None or ("tool" not in value and not {"args", "arguments", "parameters"} & value.keys()):
        return None
    if name not in schemas:
        return ToolCall(name, None, raw, f"unknown tool, use one of {', '.join(schemas)}")
    arguments: Any = next((value[key] for key in ("args", "arguments", "parameters") if key in value), {})
    problem = problem_with(arguments, schemas[name])
    return ToolCall(name, None if problem else arguments, raw, problem)


def _signature(schema: dict[str, Any]) -> str:
    properties = schema.get("parameters", {}).get("properties", {})
    return f"- {schema.get('name')}({', '.join(properties)}): {schema.get('description', '')}"


def _name_in(raw: str) -> str:
    found = re.match(r'\{\s*"\w+"\s*:\s*"(\w{1,64})"', raw)
    return found[1] if found else ""


def _short(error: Exception) -> str:
    return (
        f"{error.msg.lower()} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else "unusable"
    )


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
