"""What the probe of a llama-server finds missing, moved or nonsensical, and what each makes impossible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.engine.base import Gap
from app.engine.llama_server.shape import Completion, as_mapping

SLOT = 0
"""The slot that every request is pinned to."""

FIXED: Mapping[str, object] = {
    "id_slot": SLOT,
    "stream": False,  # only then `tokens` is complete
    "return_tokens": True,
    "post_sampling_probs": False,
}
"""What every request asks for alike."""

GREEDY: Mapping[str, object] = {"temperature": 0.0, "samplers": ["temperature"]}


def props_gaps(props: Mapping[str, Any]) -> Iterable[Gap]:
    """What /props lacks."""
    for name, impossible in (
        ("build_info", "naming the build, and noticing that another one answers"),
        ("model_path", "naming the model, and noticing that another one answers"),
        ("chat_template", "rendering conversations as the model was trained on: the built-in template is used"),
        ("total_slots", "knowing how many conversations may meet in this cache"),
    ):
        if not props.get(name):
            yield Gap(f"/props {name}", "absent", impossible)


def shape_gaps(answer: Completion, n_vocab: object, pieces: int, eog_ids: frozenset[int]) -> Iterable[Gap]:
    """What an answer of three steps with five rivals lacks that steps are made of.

    The server told the bytes of `pieces` tokens of a vocabulary of `n_vocab` (None: not told).
    """
    if not answer.ids:
        yield Gap("tokens", "absent", "comparing answers by token ids")
    elif answer.predicted != len(answer.ids):
        yield Gap("tokens", f"{len(answer.ids)} of {answer.predicted} tokens", "comparing answers by token ids")
    elif isinstance(n_vocab, int) and max(answer.ids) >= n_vocab:
        yield Gap("tokens", f"id {max(answer.ids)} of {n_vocab}", "comparing answers by token ids")
    margins = "margins, drift and the verdict of a near tie"
    entries = [entry for entry in answer.entries if entry]
    if answer.stray:
        yield Gap("completion_probabilities", "entries of other tokens than were sampled", margins)
    elif not entries:
        yield Gap("completion_probabilities", "absent, or in the shape of an older build", margins)
    elif any(entry.logprob is None for entry in entries):
        yield Gap("completion_probabilities[].logprob", "no logprob", margins)
    elif any(len(entry.rivals) < 5 for entry in entries):
        yield Gap("completion_probabilities[].top_logprobs", "fewer rivals than were asked for", margins)
    if not pieces:
        yield Gap("completion_probabilities[].top_logprobs[].bytes", "absent", "showing tokens that are no whole text")
    elif isinstance(n_vocab, int) and pieces < n_vocab:
        found_bytes = f"bytes of {pieces:,} of {n_vocab:,} tokens"
        yield Gap("completion_probabilities[].top_logprobs", found_bytes, "showing every token that is no whole text")
    if not eog_ids:
        yield Gap("generation_settings.logit_bias", "no end tokens", "knowing where a turn ended by itself")
    if answer.slot != SLOT:
        yield Gap("id_slot", _shown(answer.slot), "pinning a conversation to one slot")


def cache_gaps(cold: Completion, warm: Completion, asked: int) -> Iterable[Gap]:
    """Whether a prompt of `asked` tokens, first kept from the cache and then repeated, has the counts that it must."""
    if cold.cached is None or warm.cached is None:
        yield Gap("timings.cache_n", "absent", "proving what came from the cache: every pair stays unproven")
        return
    if cold.cached:
        yield Gap("cache_prompt", f"false, yet {cold.cached} tokens came from the cache", "a recompute path")
    if warm.cached != asked - 1:
        found = f"{warm.cached} where a repeated prompt of {asked} should reuse {asked - 1}"
        yield Gap("timings.cache_n", found, "a cached path: nothing, or not all, is reused")
    for answer in (cold, warm):
        if answer.evaluated is None or answer.evaluated + (answer.cached or 0) != asked:
            yield Gap("timings.prompt_n", _shown(answer.evaluated), "holding the cached count against another one")
            return


def settings_gaps(raw: Mapping[str, Any]) -> Iterable[Gap]:
    """A field that the server does not know is ignored without a word; what it used instead stands in its answer."""
    used = as_mapping(raw.get("generation_settings"))
    for name, asked in {**GREEDY, "seed": 42, "post_sampling_probs": False}.items():
        if used.get(name) != asked:
            yield Gap(f"generation_settings.{name}", _shown(used.get(name)), f"pinning {name} for a run")


def _shown(value: object) -> str:
    return "absent" if value is None else str(value)
