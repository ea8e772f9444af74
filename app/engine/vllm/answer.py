"""A vLLM server's answer to POST /v1/completions, read with distrust: what is no number, no id or no list is not there.

Shapes as seen on vLLM 0.32.0, asked with `return_token_ids` and `return_tokens_as_token_ids`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from app.engine.llama_server.shape import as_list, as_mapping, count_of, logprob_of
from app.engine.served_answer import Answer, Entry

_AS_ID: Final = "token_id:"
_NEVER: Final = -9999.0
"""What vLLM writes for the logarithm of probability 0, since JSON has no infinity."""


def read_answer(raw: object) -> Answer:
    """What is to be had of an answer; raises nothing."""
    answer = as_mapping(raw)
    choice = as_mapping((as_list(answer.get("choices")) or [None])[0])
    usage = as_mapping(answer.get("usage"))
    ids = _ids(choice.get("token_ids")) or ()
    return Answer(
        ids=ids,
        entries=_entries(ids, as_mapping(choice.get("logprobs"))),
        text=str(choice.get("text") or ""),
        finish_reason=str(choice.get("finish_reason") or ""),
        stop_reason=choice.get("stop_reason"),
        prompt_ids=_ids(choice.get("prompt_token_ids")),
        prompt_tokens=count_of(usage.get("prompt_tokens")),
        completion_tokens=count_of(usage.get("completion_tokens")),
        cached=count_of(as_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        fingerprint=str(answer.get("system_fingerprint") or ""),
    )


def without_arrays(raw: object) -> str:
    """The body as JSON less the ids and logprobs, which the steps hold already."""
    answer = dict(as_mapping(raw))
    held = {"logprobs", "token_ids", "prompt_token_ids"}
    answer["choices"] = [
        {name: value for name, value in as_mapping(choice).items() if name not in held}
        for choice in as_list(answer.get("choices"))
    ]
    return json.dumps(answer, ensure_ascii=False)


def _entries(ids: tuple[int, ...], logprobs: Mapping[str, Any]) -> tuple[Entry | None, ...]:
    """By position, and only where the entry names the token that was sampled there: nothing ever shifts."""
    names, tops = as_list(logprobs.get("tokens")), as_list(logprobs.get("top_logprobs"))
    values = as_list(logprobs.get("token_logprobs"))
    found: list[Entry | None] = []
    for at, token_id in enumerate(ids):
        logprob = _logprob(values[at]) if at < len(values) else None
        if logprob is None or at >= len(names) or names[at] != f"{_AS_ID}{token_id}":
            found.append(None)
        else:
            found.append(Entry(logprob, _rivals(as_mapping(tops[at]) if at < len(tops) else {})))
    return tuple(found)


def _rivals(top: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    """Falling; of equals the first told stays first, which is the sampled token."""
    rivals = [
        (int(name.removeprefix(_AS_ID)), logprob)
        for name, value in top.items()
        if name.startswith(_AS_ID)
        and name.removeprefix(_AS_ID).isdecimal()
        and (logprob := _logprob(value)) is not None
    ]
    return tuple(sorted(rivals, key=lambda rival: -rival[1]))


def _logprob(value: object) -> float | None:
    logprob = logprob_of(value)
    return None if logprob is None or logprob <= _NEVER else logprob


def _ids(value: object) -> tuple[int, ...] | None:
    ids = [count_of(item) for item in value] if isinstance(value, list) else [None]
    return None if None in ids else tuple(token_id for token_id in ids if token_id is not None)
