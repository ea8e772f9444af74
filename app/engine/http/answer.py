"""What a server's answer says where it is not what was asked for: in a sentence, never a dump."""

from __future__ import annotations

import html
import json
import re
from typing import Any, Final

from app.engine.server_settings import KEY_VARIABLE
from app.errors import EngineError, ServerRefused

MAX_BODY_KEPT: Final = 2000
"""Characters of a refusal's body that its error keeps."""


def text_of(body: bytes, source: str) -> str:
    """The body as text. Raises EngineError where it is no UTF-8, or ends inside a character."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        cut = error.reason == "unexpected end of data"
        what = "breaks off inside a UTF-8 character" if cut else "is no UTF-8"
        raise EngineError(f"The answer to {source} {what}, at byte {error.start:,} of {len(body):,}.") from error


def json_of(text: str, source: str) -> Any:
    """The text as JSON. Raises EngineError that says what came instead, and whether it broke off."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EngineError(f"The answer to {source} is no JSON: {_instead(text, error)}.", _WRONG_SERVER) from error


def refusal(status: int, text: str, source: str, key_source: str) -> ServerRefused:
    """The error for an answer with `status` that is no success. `key_source` says where the key came from, or ""."""
    said = _message(text)
    told = f" It says: {said}" if said else ""
    body = text[:MAX_BODY_KEPT]
    if status in (401, 403):
        if key_source:
            what, hint = f"does not accept the API key from {key_source}", "Put the right key there."
        else:
            what, hint = "wants an API key", f"Put it in {KEY_VARIABLE} or give a key file."
    elif status == 404:
        what, hint = "knows nothing of it, or not the model", "Look at the address, its base path and the model's name."
    elif status == 429:
        what, hint = "has too much to do, or a limit is reached", "Try again later."
    elif status >= 500:
        what, hint = "failed at it", "Look at its log; 502 to 504 come from a gateway before it."
    else:
        what, hint = "does not accept it", ""
    return ServerRefused(f"The server answered {status} to {source}: it {what}.{told}", hint, status=status, body=body)


def _message(text: str) -> str:
    """The server's own words: out of the shapes of OpenAI, Ollama and FastAPI, a page's title, or its first line."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return _html(text) or _shortened(text)
    if isinstance(found, dict):
        found = next((found[name] for name in ("error", "detail", "message") if found.get(name)), found)
    if isinstance(found, dict):
        found = found.get("message") or found
    return _shortened(found if isinstance(found, str) else json.dumps(found))


def _html(text: str) -> str:
    """ "an HTML page, "502 Bad Gateway"", or "" where it is none."""
    if not re.match(r"\s*<(!doctype|html|head|body)", text, re.IGNORECASE):
        return ""
    title = re.search(r"<(title|h1)[^>]*>(.*?)</\1", text[:10_000], re.IGNORECASE | re.DOTALL)
    return f"an HTML page, {_shortened(html.unescape(title[2]))!r}" if title else "an HTML page"


def _instead(text: str, error: Exception) -> str:
    if not text.strip():
        return "it is empty"
    page = _html(text)
    if page:
        return f"it is {page}"
    at_end = isinstance(error, json.JSONDecodeError) and (
        error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated string")
    )
    if at_end and text.lstrip()[0] in "{[":
        return f"it breaks off after {len(text):,} characters"
    return f"it begins with {_shortened(text, 80)!r}"


def _shortened(text: str, length: int = 300) -> str:
    text = " ".join(text[: 4 * length].split())
    return text if len(text) <= length else text[: length - 1] + "…"


_WRONG_SERVER: Final = "Is this the address of an inference server, with its base path?"
