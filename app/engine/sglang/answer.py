"""An SGLang server's answer to POST /generate, read with distrust: what is no number, no id or no list is not there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from app.engine.llama_server.shape import as_list, as_mapping, count_of, logprob_of
from app.engine.served_answer import Answer, Entry


def read_answer(raw: object) -> Answer:
    """What is to be had of an answer; raises nothing. Where `output_ids` is missing the logprobs name the ids."""
    answer = as_mapping(raw)
    meta = as_mapping(answer.get("meta_info"))
    finish = as_mapping(meta.get("finish_reason"))
    sampled = [_named(item) for item in as_list(meta.get("output_token_logprobs"))]
    told = answer.get("output_ids")
    ids = [count_of(item) for item in told] if isinstance(told, list) else [named and named[0] for named in sampled]
    whole = tuple(token_id for token_id in ids if token_id is not None)
    return Answer(
        ids=whole if len(whole) == len(ids) else (),
        entries=_entries(whole, sampled, as_list(meta.get("output_top_logprobs"))),
        text=str(answer.get("text") or ""),
        finish_reason=str(finish.get("type") or ""),
        stop_reason=finish.get("matched"),
        prompt_ids=None,
        prompt_tokens=count_of(meta.get("prompt_tokens")),
        completion_tokens=count_of(meta.get("completion_tokens")),
        cached=count_of(meta.get("cached_tokens")),
        fingerprint=str(meta.get("weight_version") or ""),
    )


def without_arrays(raw: object) -> str:
    """The body as JSON less the ids and logprobs, which the steps hold already."""
    answer = dict(as_mapping(raw))
    answer.pop("output_ids", None)
    held = {"input_token_logprobs", "output_token_logprobs", "input_top_logprobs", "output_top_logprobs"}
    answer["meta_info"] = {
        name: value for name, value in as_mapping(answer.get("meta_info")).items() if name not in held
    }
    return json.dumps(answer, ensure_ascii=False)


def _entries(
    ids: Sequence[int], sampled: Sequence[tuple[int, float] | None], tops: Sequence[Any]
) -> tuple[Entry | None, ...]:
    """By position, and only where the entry names the token that was sampled there: nothing ever shifts."""
    found: list[Entry | None] = []
    for at, token_id in enumerate(ids):
        own = sampled[at] if at < len(sampled) else None
        if own is None or own[0] != token_id:
            found.append(None)
            continue
        rivals = [named for item in as_list(tops[at] if at < len(tops) else None) if (named := _named(item))]
        # Of equals the sampled one comes first.
        found.append(Entry(own[1], tuple(sorted(rivals, key=lambda named: (-named[1], named[0] != token_id)))))
    return tuple(found)


def _named(item: object) -> tuple[int, float] | None:
    """(id, logprob) of [logprob, id, text or null]."""
    values = as_list(item)
    if len(values) < 2:
        return None
    logprob, token_id = logprob_of(values[0]), count_of(values[1])
    return None if logprob is None or token_id is None else (token_id, logprob)
