"""Conversations and prompts from elsewhere become episodes.

What is taken: OpenAI chat messages as a JSON list, as JSONL (one message a line), or as a whole request body
{"messages": [...], "tools": [...]}; {"prompt": [ids]} or a bare list of token ids, which make one request; and
several request bodies, one a line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from app.errors import WorkloadError
from app.trajectory.episode import Episode, Message

FAMILY: Final = "imported"
MAX_BYTES: Final = 10_000_000
"""Largest file that is read: fifty conversations that fill a context of 32,768 tokens."""
MAX_MESSAGES: Final = 2_000
MAX_EPISODES: Final = 200
MAX_IDS: Final = 1_000_000
_LARGEST_ID: Final = 2**31 - 1
_HINT: Final = "Expected are OpenAI chat messages as JSON or JSONL, a request body with “messages”, or token ids."


def load_episodes(path: Path) -> tuple[Episode, ...]:
    """The episodes in a file, named after it: one, or one a line where the lines are request bodies.

    Raises WorkloadError.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise WorkloadError(
            f"“{path.name}” cannot be read: {error.strerror or error}.", "Choose another file."
        ) from error
    if len(data) > MAX_BYTES:
        raise WorkloadError(f"“{path.name}” is larger than {MAX_BYTES // 1_000_000} MB.", _HINT)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WorkloadError(f"“{path.name}” is not a text file in UTF-8.", _HINT) from error
    return read_text(text, name=path.stem)


def read_text(text: str, *, name: str = "pasted") -> tuple[Episode, ...]:
    """Episodes "imported-`name`" (several: "imported-`name`-1" and on) from text. Raises WorkloadError."""
    if len(text) > MAX_BYTES:
        raise WorkloadError(f"The text is longer than {MAX_BYTES // 1_000_000} million characters.", _HINT)
    id = f"{FAMILY}-{name}"
    value = _parse(text)
    if isinstance(value, list) and len(value) > 1 and all(_is_body(each) for each in value):
        if len(value) > MAX_EPISODES:
            raise WorkloadError(f"There are more than {MAX_EPISODES} conversations.", _HINT)
        return tuple(_episode(f"{id}-{number}", each) for number, each in enumerate(value, 1))
    return (_episode(id, value[0] if isinstance(value, list) and len(value) == 1 and _is_body(value[0]) else value),)


def _is_body(value: Any) -> bool:
    return isinstance(value, dict) and "role" not in value and ("messages" in value or "prompt" in value)


def _episode(id: str, value: Any) -> Episode:
    if isinstance(value, dict) and "messages" in value:
        return _conversation(id, value["messages"], value.get("tools") or value.get("functions") or [])
    if isinstance(value, dict):
        value = [value] if "role" in value else value.get("prompt")
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return _conversation(id, value, [])
    if isinstance(value, list) and value:
        return Episode(id, FAMILY, (), (), raw_ids=_ids(value))
    raise WorkloadError("The text holds neither messages nor token ids.", _HINT)


def _parse(text: str) -> Any:
    """The text as JSON, or the list of its lines as JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        if len(lines) < 2 or not lines[0][1].lstrip().startswith("{"):
            raise WorkloadError("The text is not JSON.", _HINT) from error
    values = []
    for number, line in lines:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise WorkloadError(f"Line {number} is not JSON.", _HINT) from error
    return values


def _ids(values: list[Any]) -> tuple[int, ...]:
    if len(values) > MAX_IDS:
        raise WorkloadError(f"There are more than {MAX_IDS:,} token ids.", _HINT)
    for position, value in enumerate(values, 1):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST_ID:
            raise WorkloadError(f"Token id {position} is not a whole number from 0 to {_LARGEST_ID}.", _HINT)
    return tuple(values)


def _conversation(id: str, messages: Any, tools: Any) -> Episode:
    """Messages before the first user's are the opening; each user message is a turn; tool results belong to a turn."""
    if not isinstance(messages, list) or not messages:
        raise WorkloadError("“messages” is not a list with messages in it.", _HINT)
    if len(messages) > MAX_MESSAGES:
        raise WorkloadError(f"There are more than {MAX_MESSAGES:,} messages.", _HINT)
    opening: list[Message] = []
    turns: list[str] = []
    recorded: list[list[Message]] = []
    called: dict[str, str] = {}
    for number, raw in enumerate(messages, 1):
        message = _message(number, raw, called)
        if message.role == "user":
            turns.append(message.content)
            recorded.append([])
        elif message.role == "tool" and turns:
            recorded[-1].append(message)
        elif not turns:
            opening.append(message)
        elif message.role == "system":
            raise WorkloadError(
                f"Message {number} is a system message in the middle of the conversation.",
                "Only system messages before the first user message can be replayed.",
            )
    if not turns:
        raise WorkloadError("The conversation has no user message, so there is nothing to replay.", _HINT)
    return Episode(id, FAMILY, tuple(opening), tuple(turns), _tools(tools), recorded=tuple(map(tuple, recorded)))


def _message(number: int, raw: Any, called: dict[str, str]) -> Message:
    """One message; `called` collects the tool calls so far, id -> name."""
    if not isinstance(raw, dict):
        raise WorkloadError(f"Message {number} is not a JSON object.", _HINT)
    role = {"developer": "system", "function": "tool"}.get(str(raw.get("role")), raw.get("role"))
    if role not in ("system", "user", "assistant", "tool"):
        raise WorkloadError(
            f"Message {number} has the unknown role “{str(role)[:40]}”.", "Known roles: system, user, assistant, tool."
        )
    calls = raw.get("tool_calls") or []
    content = _content(
        number, raw.get("content"), may_be_empty=role == "assistant" and bool(calls or raw.get("function_call"))
    )
    if role == "assistant":
        called.update(_calls(number, calls, raw.get("function_call")))
        return Message("assistant", content)
    if role != "tool":
        return Message(role, content)
    key = raw.get("tool_call_id", raw.get("name"))
    if not isinstance(key, str) or key not in called:
        raise WorkloadError(
            f"Message {number} is a tool result, but no tool call before it has its id.",
            "Add the assistant message with the tool call, or take the result out.",
        )
    return Message("tool", content, called[key])


def _calls(number: int, calls: Any, function_call: Any) -> dict[str, str]:
    """id -> function name; an old-style function_call is known by its name."""
    wanted = f"Message {number} has a tool call without an id and a function name."
    if not isinstance(calls, list):
        raise WorkloadError(wanted, _HINT)
    found: dict[str, str] = {}
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if (
            not isinstance(function, dict)
            or not isinstance(function.get("name"), str)
            or not isinstance(call.get("id"), str)
        ):
            raise WorkloadError(wanted, _HINT)
        found[call["id"]] = function["name"]
    if isinstance(function_call, dict) and isinstance(function_call.get("name"), str):
        found[function_call["name"]] = function_call["name"]
    return found


def _content(number: int, content: Any, *, may_be_empty: bool) -> str:
    if isinstance(content, str):
        return content
    if content is None and may_be_empty:
        return ""
    if isinstance(content, list) and content:
        return "".join(_part(number, part) for part in content)
    raise WorkloadError(f"Message {number} has no content.", _HINT)


def _part(number: int, part: Any) -> str:
    if isinstance(part, str):
        return part
    if (
        isinstance(part, dict)
        and part.get("type") in ("text", "input_text", "output_text")
        and isinstance(part.get("text"), str)
    ):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else part
    raise WorkloadError(f"Message {number} has a part of the kind “{str(kind)[:40]}”.", "Only text can be replayed.")


def _tools(tools: Any) -> tuple[dict[str, Any], ...]:
    """Function descriptions out of OpenAI's wrapping {"type": "function", "function": {...}}, or bare ones."""
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise WorkloadError("“tools” is not a list.", _HINT)
    found: list[dict[str, Any]] = []
    for number, each in enumerate(tools, 1):
        function = each.get("function", each) if isinstance(each, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise WorkloadError(f"Tool {number} has no function name.", _HINT)
        parameters = function.get("parameters") or {}
        if not isinstance(parameters, dict) or not isinstance(parameters.get("properties") or {}, dict):
            raise WorkloadError(f"Tool {number} has parameters that are no JSON schema.", _HINT)
        if not isinstance(parameters.get("required") or [], list):
            raise WorkloadError(f"Tool {number} has parameters that are no JSON schema.", _HINT)
        found.append(function)
    return tuple(found)
