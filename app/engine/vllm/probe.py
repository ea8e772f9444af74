"""What a vLLM server is and can do, found out at connect by reading what it tells and asking some tiny requests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.engine.base import Capabilities, EngineInfo, Gap, StopFlag
from app.engine.control_tokens import END_TOKENS
from app.engine.http.server import Server
from app.engine.llama_server.probe import file_name
from app.engine.llama_server.shape import as_list, as_mapping, count_of
from app.engine.served_answer import Answer
from app.engine.server_settings import ServerSettings
from app.engine.template_file import NO_TEMPLATE, read_template
from app.engine.token_pieces import REPLACEMENT, TokenPieces
from app.engine.vllm.api import VllmApi
from app.engine.vllm.metrics import Counters
from app.engine.vllm.paths import Means, Paths, find_paths
from app.errors import EngineError, ServerRefused, SettingsError

_PROBE: Final = "Every word of this is a probe. "
_RIVALS: Final = 5
_BEYOND: Final = 99_999_999  # an id that no vocabulary has
_TOLD: Final = {
    "model_config": ("dtype", "quantization", "seed", "enforce_eager", "max_logprobs", "logprobs_mode",
                     "disable_cascade_attn"),
    "cache_config": ("block_size", "cache_dtype", "enable_prefix_caching", "num_gpu_blocks", "sliding_window"),
    "parallel_config": ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
    "scheduler_config": ("max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "async_scheduling"),
    "device_config": ("device",),
}  # fmt: skip
"""Settings that move numbers, of GET /server_info (development mode)."""

_COUNTED: Final = ("block_size", "cache_dtype", "enable_prefix_caching", "num_gpu_blocks", "prefix_caching_hash_algo")
"""Of the labels of /metrics, where /server_info is not told."""

_ENVIRONMENT: Final = ("VLLM_BATCH_INVARIANT", "VLLM_CPU_OMP_THREADS_BIND", "VLLM_CPU_KVCACHE_SPACE")


@dataclass(frozen=True)
class Identity:
    """What must stay the same while a pass runs. `started` is the process's start in seconds of the epoch, if told."""

    version: str
    model: str
    n_ctx: int
    started: float | None

    def changed_to(self, other: Identity) -> str | None:
        """A sentence where `other` is another server, or the same one started anew; None where it is the same."""
        if (self.version, self.model, self.n_ctx) != (other.version, other.model, other.n_ctx):
            was, now = (f"{each.model} on vLLM {each.version}, context {each.n_ctx}" for each in (self, other))
            return f"another server answers: {was} became {now}"
        restarted = None not in (self.started, other.started) and self.started != other.started
        return "the server was restarted: what its cache held is gone" if restarted else None


@dataclass(frozen=True)
class Found:
    """The result of the probe. `pieces` know the bytes of tokens; `block` is the cache's in tokens, 1: unknown."""

    info: EngineInfo
    api: VllmApi
    paths: Paths
    pieces: TokenPieces
    identity: Identity
    block: int


def probe(
    server: Server, settings: ServerSettings, salt: str, control: Server | None, stop: StopFlag | None = None
) -> Found:
    """All questions, in some seconds on a small model. Raises SettingsError for a model that is not served, EngineError
    where this is no vLLM or ids cannot be had, and what Server raises."""
    api = VllmApi(server, _served(server, settings, stop))
    counters = api.counters(stop)
    identity = identity_of(api, counters, stop)
    prompt = _prompt(api, counters, identity.n_ctx)
    first = api.complete(prompt, 1, salt=f"{salt}-first", stop=stop)
    if not first.answer.ids or first.answer.prompt_ids != tuple(prompt):
        raise EngineError(
            "The server does not return the ids that went in and came out (return_token_ids).",
            "Write openai+ before its address to compare texts.",
        )
    api.count_by_metrics = first.cached is None and counters.hits is not None
    paths = find_paths(api, prompt, salt, settings, control, stop)
    pieces = TokenPieces(api.texts, api.spellings)
    told = _told(api.tell("/server_info?config_format=json", stop))
    ends = _ends(api, salt, stop)
    pieces.learn(ends)
    template = read_template(settings)
    gaps = [*paths.gaps, *_count_gaps(first.cached, api), *_shape_gaps(paths.sample.answer, told), *_piece_gaps(api)]
    if template is None:
        gaps.append(NO_TEMPLATE)
    paths_of_app = api.tell("/openapi.json", stop).get("paths")
    info = EngineInfo(
        name="vllm",
        build={"server": "vLLM", "version": identity.version, "fingerprint": first.answer.fingerprint},
        model=_model(api, identity, ends, pieces, template),
        settings={
            "n_ctx": identity.n_ctx,
            "recompute": str(paths.means),
            **{name: counters.config[name] for name in _COUNTED if name in counters.config},
            **told,
        },
        capabilities=Capabilities(
            token_ids=True,
            rivals=not any(gap.field.startswith("logprobs") for gap in gaps),
            cached_counts=paths.proven is not None,
            snapshot=False,
            recompute=paths.proven,
            rebuild=False,
            piece_bytes=not any(gap.field.startswith("token_strs") for gap in gaps),
            reset="/reset_prefix_cache" in paths_of_app if isinstance(paths_of_app, dict) else None,
            slots=False,
            salt=paths.salted,
        ),
        eog_ids=frozenset(ends),
        n_ctx=identity.n_ctx,
        states_at_once=None if paths.means in (Means.SALT, Means.OFF) else 1,
        level="ids",
        recompute_by=paths.recompute_by,
        gaps=tuple(gaps),
    )
    return Found(info, api, paths, pieces, identity, counters.block_size)


def identity_of(api: VllmApi, counters: Counters, stop: StopFlag | None = None) -> Identity:
    """Who answers now."""
    listed = [as_mapping(item) for item in as_list(api.tell("/v1/models", stop).get("data"))]
    model = next((item for item in listed if item.get("id") == api.model), {})
    root = file_name(str(model.get("root") or ""))
    return Identity(
        version=str(api.tell("/version", stop).get("version") or "unknown"),
        model=f"{api.model} ({root})" if root and root != api.model else api.model,
        n_ctx=count_of(model.get("max_model_len")) or 0,
        started=counters.process_start,
    )


def _served(server: Server, settings: ServerSettings, stop: StopFlag | None) -> str:
    """The model to ask: the one that is set, else the only one that is served."""
    listed = as_list(as_mapping(server.get("/v1/models", stop=stop).json()).get("data"))
    names = [str(as_mapping(item).get("id")) for item in listed if as_mapping(item).get("max_model_len")]
    if not names:
        raise EngineError(f"What answers at {server.url} is no vLLM.", "Its /v1/models names no model with a length.")
    if settings.model and settings.model not in names:
        raise SettingsError(f"The server has no model {settings.model!r}.", f"It serves {', '.join(names)}.")
    if not settings.model and len(names) > 1:
        raise SettingsError("The server has more than one model.", f"Name one of them: {', '.join(names)}.")
    return settings.model or names[0]


def _prompt(api: VllmApi, counters: Counters, n_ctx: int) -> list[int]:
    """Two whole blocks and a bit: what is found in the cache must show in whole blocks."""
    size = min(2 * (counters.block_size if counters.block_size > 1 else 256) + 8, n_ctx - 8)
    ids = api.tokenize(_PROBE)
    if not ids or size < 1:
        raise EngineError("The server does not turn text into ids (POST /tokenize).")
    return (ids * (size // len(ids) + 1))[:size]


def _ends(api: VllmApi, salt: str, stop: StopFlag | None) -> list[int]:
    """The ids that end an answer, the model's own end token first.

    The server lists them nowhere, so each candidate is forced: where an answer that may say nothing else stops after
    one token, it is an end token.
    """
    rendered = api.tokenize_chat([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], stop)
    written = [ids[0] for end in END_TOKENS if len(ids := api.tokenize(end)) == 1]
    prompt = api.tokenize("a")
    proven: list[tuple[bool, int]] = []
    for candidate in dict.fromkeys([*rendered[-4:], *written]):
        answer = api.complete(prompt, 2, salt=f"{salt}-ends", rivals=1, stop=stop, allowed_token_ids=[candidate]).answer
        if answer.ids == (candidate,) and answer.finish_reason == "stop":
            proven.append((answer.stop_reason is not None, candidate))
    return [token_id for _, token_id in sorted(proven)]


def _model(
    api: VllmApi, identity: Identity, ends: list[int], pieces: TokenPieces, template: str | None
) -> dict[str, object]:
    plain = api.tokenize("x")
    start = api.tokenize("x", add_special=True)
    begins = start[: len(start) - len(plain)] if start[len(start) - len(plain) :] == plain else []
    pieces.learn(begins)
    return {
        "name": identity.model,
        "n_vocab": _n_vocab(api),
        "chat_template": template,
        "chat_template_hash": template and hashlib.sha256(template.encode()).hexdigest(),
        "bos_token": pieces.piece(begins[0]).decode("utf-8", "replace") if len(begins) == 1 else "",
        "eos_token": pieces.piece(ends[0]).decode("utf-8", "replace") if ends else "",
        "tensor_types": {},
        **dict.fromkeys(
            ("size_bytes", "sha256", "architecture", "tokenizer_hash", "n_ctx_train", "n_swa", "recurrent")
        ),
    }


def _n_vocab(api: VllmApi) -> int | None:
    """The server names the size of its vocabulary when it refuses an id beyond it."""
    try:
        api.complete([0], 1, salt="vocabulary", logit_bias={str(_BEYOND): 1})
    except ServerRefused as error:
        size = re.search(r"Vocabulary size: (\d+)", f"{error.message} {error.body}")
        return int(size[1]) if size else None
    return None


def _told(info: Mapping[str, Any]) -> dict[str, object]:
    config, environment = as_mapping(info.get("vllm_config")), as_mapping(info.get("vllm_env"))
    told = {name: as_mapping(config.get(part)).get(name) for part, names in _TOLD.items() for name in names}
    return _plain({**told, **{name: environment.get(name) for name in _ENVIRONMENT}})


def _plain(told: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in told.items() if isinstance(value, str | int | float)}


def _count_gaps(cached: int | None, api: VllmApi) -> Iterator[Gap]:
    if cached is None and api.count_by_metrics:
        yield Gap("usage.prompt_tokens_details.cached_tokens", "absent: /metrics is read instead",
                  "counting them while others use the server (--enable-prompt-tokens-details)")  # fmt: skip


def _shape_gaps(answer: Answer, told: Mapping[str, object]) -> Iterator[Gap]:
    margins = "margins, drift and the verdict of a near tie"
    entries = [entry for entry in answer.entries if entry is not None]
    if not entries:
        yield Gap("logprobs.tokens", "absent, or not as token_id:N", margins)
    elif len(entries) < len(answer.ids):
        yield Gap("logprobs.tokens", "entries of other tokens than were sampled", margins)
    elif any(len(entry.rivals) < _RIVALS for entry in entries):
        yield Gap("logprobs.top_logprobs", "fewer rivals than were asked for", margins)
    mode = told.get("logprobs_mode")
    if mode not in (None, "raw_logprobs"):
        yield Gap("logprobs_mode", str(mode), "margins over the unfiltered distribution (--logprobs-mode raw_logprobs)")
    if answer.completion_tokens != len(answer.ids):
        yield Gap("usage.completion_tokens", str(answer.completion_tokens), "holding the ids against another count")


def _piece_gaps(api: VllmApi) -> Iterator[Gap]:
    if not api.spellings(REPLACEMENT):
        yield Gap("token_strs", "absent", "the bytes of tokens that are no whole character")
