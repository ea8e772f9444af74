"""What an SGLang server is and can do, found out at connect by reading what it tells and asking some tiny requests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.engine.base import Capabilities, EngineInfo, Gap, StopFlag
from app.engine.control_tokens import END_TOKENS
from app.engine.llama_server.probe import file_name
from app.engine.llama_server.shape import as_list, as_mapping, count_of
from app.engine.served_answer import Answer
from app.engine.server_settings import ServerSettings
from app.engine.sglang.api import SglangApi
from app.engine.template_file import NO_TEMPLATE, read_template
from app.engine.token_pieces import TokenPieces
from app.errors import EngineError, ServerRefused

_PROBE: Final = "Every word of this is a probe. "
_PROBE_TOKENS: Final = 200
_RIVALS: Final = 5
_TOLD: Final = (
    *("dtype", "quantization", "kv_cache_dtype", "attention_backend", "sampling_backend", "page_size", "tp_size"),
    *("chunked_prefill_size", "max_running_requests", "disable_radix_cache", "enable_deterministic_inference"),
    *("disable_cuda_graph", "dp_size", "random_seed", "speculative_algorithm"),
)
"""Settings that move numbers, of GET /get_server_info."""


@dataclass(frozen=True)
class Found:
    """The result of the probe. `flushes`: a State's first request must follow a flush. `page` is in tokens."""

    info: EngineInfo
    pieces: TokenPieces
    identity: str
    flushes: bool
    page: int


@dataclass(frozen=True)
class _Paths:
    """How a recompute is made; `proven` is None where no counts tell."""

    recompute_by: str
    flushes: bool
    proven: bool | None
    gaps: tuple[Gap, ...]


def probe(api: SglangApi, settings: ServerSettings, stop: StopFlag | None = None) -> Found:
    """All questions. With `settings.allow_reset` the server's cache is flushed. Raises EngineError where this is no
    SGLang or ids cannot be had, and what Server raises."""
    told = api.tell("/get_server_info", stop)
    model = api.tell("/get_model_info", stop)
    if not model.get("model_path"):
        raise EngineError(f"What answers at {api.server.url} is no SGLang.", "Its /get_model_info names no model.")
    ids = api.tokenize(_PROBE, stop=stop)
    if not ids:
        raise EngineError("The server does not turn text into ids (POST /tokenize).")
    prompt = (ids * (_PROBE_TOKENS // len(ids) + 1))[:_PROBE_TOKENS]
    sample = api.generate(prompt, 2, stop=stop).answer
    if not sample.ids:
        raise EngineError(
            "The server does not return the ids that came out (output_ids).",
            "Write openai+ before its address to compare texts.",
        )
    paths = _paths(api, prompt, told, settings, stop)
    pieces = TokenPieces(api.texts, lambda _text, _stop: {})
    ends = _ends(api, ids, stop)
    pieces.learn(ends, stop=stop)
    template = read_template(settings)
    gaps = [*paths.gaps, *_shape_gaps(sample), *([] if ends else [_NO_ENDS]), _NO_BYTES]
    gaps += [] if template else [NO_TEMPLATE]
    n_ctx = _n_ctx(api, told, stop)
    identity = identity_of(told, model)
    info = EngineInfo(
        name="sglang",
        build={"server": "SGLang", "version": str(told.get("version") or "unknown")},
        model={
            "name": file_name(str(model["model_path"])),
            "chat_template": template,
            "chat_template_hash": template and hashlib.sha256(template.encode()).hexdigest(),
            "bos_token": "",
            "eos_token": pieces.piece(ends[0]).decode("utf-8", "replace") if ends else "",
            "tensor_types": {},
            **dict.fromkeys(_UNTOLD),
        },
        settings={"n_ctx": n_ctx, **{name: told[name] for name in _TOLD if isinstance(told.get(name), str | int)}},
        capabilities=Capabilities(
            token_ids=True,
            rivals=not any(gap.field.startswith("meta_info.output_t") for gap in gaps),
            cached_counts=sample.cached is not None,
            snapshot=False,
            recompute=paths.proven,
            rebuild=False,
            piece_bytes=False,
            reset=True if paths.flushes else None,
            slots=False,
            salt=False,
        ),
        eog_ids=frozenset(ends),
        n_ctx=n_ctx,
        states_at_once=1,
        level="ids",
        recompute_by=paths.recompute_by,
        gaps=tuple(gaps),
    )
    return Found(info, pieces, identity, paths.flushes, count_of(told.get("page_size")) or 1)


def identity_of(told: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """Who answers: the model and the build, as a person would name them."""
    return f"{file_name(str(model.get('model_path')))} on SGLang {told.get('version') or 'of unknown version'}"


def _paths(
    api: SglangApi, prompt: Sequence[int], told: Mapping[str, Any], settings: ServerSettings, stop: StopFlag | None
) -> _Paths:
    """Seen by the cached tokens of a prompt that was asked before."""
    cached = api.generate(prompt, 2, stop=stop).answer.cached
    if cached == 0 or told.get("disable_radix_cache") is True:
        gap = Gap("cached_tokens", f"{cached} for a prompt asked twice", "a cached path: the server keeps no prefixes")
        return _Paths("the server itself: it keeps no prefixes", False, cached == 0 or None, (gap,))
    uncounted = (_UNCOUNTED,) if cached is None else ()
    if not settings.allow_reset:
        why = Gap(
            "POST /flush_cache", "not allowed here", "a recompute path: it evicts everybody's cache (--allow-reset)"
        )
        return _Paths("", False, None if cached is None else False, (*uncounted, why))
    api.flush(stop)
    left = api.generate(prompt, 2, stop=stop).answer.cached
    if left:
        why = Gap("POST /flush_cache", f"{left} tokens came from the cache after it", "a recompute path")
        return _Paths("", False, False, (why,))
    words = "POST /flush_cache before every State"
    return _Paths(words if left == 0 else f"{words}, unproven", True, None if left is None else True, uncounted)


def _ends(api: SglangApi, prompt: Sequence[int], stop: StopFlag | None) -> list[int]:
    """The ids that end an answer: each candidate is forced, and proves itself by ending it.

    Servers that know no `logit_bias` refuse; then none is known.
    """
    proven = []
    for text in END_TOKENS:
        ids = api.tokenize(text, stop=stop)
        if len(ids) != 1:
            continue
        try:
            answer = api.generate(prompt, 2, rivals=1, stop=stop, logit_bias={str(ids[0]): 1000.0}).answer
        except ServerRefused:
            return []
        if answer.ids == tuple(ids) and answer.finish_reason == "stop":
            proven.append(ids[0])
    return proven


def _n_ctx(api: SglangApi, told: Mapping[str, Any], stop: StopFlag | None) -> int:
    """The longest sequence in tokens, by the first of several names."""
    listed = as_list(api.tell("/v1/models", stop).get("data"))
    names = [as_mapping(listed[0] if listed else None).get("max_model_len"), told.get("context_length")]
    n_ctx = next((count for name in names if (count := count_of(name))), None)
    if n_ctx is None:
        raise EngineError("The server does not tell how long a context may be.", "Start it with --context-length.")
    return n_ctx


def _shape_gaps(answer: Answer) -> Iterator[Gap]:
    margins = "margins, drift and the verdict of a near tie"
    entries = [entry for entry in answer.entries if entry is not None]
    if not entries:
        yield Gap("meta_info.output_token_logprobs", "absent, or in another shape", margins)
    elif len(entries) < len(answer.ids):
        yield Gap("meta_info.output_token_logprobs", "entries of other tokens than were sampled", margins)
    elif any(len(entry.rivals) < _RIVALS for entry in entries):
        yield Gap("meta_info.output_top_logprobs", "fewer rivals than were asked for", margins)
    if answer.completion_tokens != len(answer.ids):
        found = "absent" if answer.completion_tokens is None else str(answer.completion_tokens)
        yield Gap("meta_info.completion_tokens", found, "holding the ids against another count")


_UNTOLD: Final = (
    *("size_bytes", "sha256", "architecture", "tokenizer_hash", "n_vocab", "n_ctx_train", "n_swa", "recurrent"),
)
_UNCOUNTED: Final = Gap(
    "meta_info.cached_tokens", "absent", "proving what came from the cache: every pair stays unproven"
)
_NO_ENDS: Final = Gap("logit_bias", "refused, or without effect", "knowing where a turn ended by itself")
_NO_BYTES: Final = Gap("/detokenize", "texts only", "the bytes of tokens that are no whole character")
