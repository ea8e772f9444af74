"""vLLM's own counters of its prefix cache, out of GET /metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_SAMPLE: Final = re.compile(r"^(vllm:\w+|process_start_time_seconds)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Counters:
    """What GET /metrics tells: tokens, None where a series is missing; `config` labels the cache's set-up."""

    queries: int | None = None
    hits: int | None = None
    process_start: float | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def block_size(self) -> int:
        """Tokens in a block; 1 where not told."""
        told = self.config.get("block_size", "")
        return int(told) if told.isdecimal() and int(told) > 0 else 1

    @property
    def caching(self) -> bool | None:
        """Whether prefix caching is on; None where not told."""
        return {"True": True, "False": False}.get(self.config.get("enable_prefix_caching", ""))

    def hits_since(self, before: Counters, prompt_tokens: int) -> int | None:
        """Tokens of one prompt that came from the cache since `before`.

        None where the counters are missing, or where other requests were counted as well (the queries do not add up
        to the prompt).
        """
        if self.queries is None or self.hits is None or before.queries is None or before.hits is None:
            return None
        return self.hits - before.hits if self.queries - before.queries == prompt_tokens else None


def read_metrics(text: str, model: str) -> Counters:
    """The counters of `model` in Prometheus' text format, summed over its engines (data parallel ranks)."""
    sums: dict[str, float] = {}
    config: dict[str, str] = {}
    for name, labels, value in _SAMPLE.findall(text):
        told = dict(_LABEL.findall(labels))
        if name == "vllm:cache_config_info":
            config = told
        elif told.get("model_name", model) == model:
            sums[name] = sums.get(name, 0.0) + float(value)
    return Counters(
        queries=_whole(sums.get("vllm:prefix_cache_queries_total")),
        hits=_whole(sums.get("vllm:prefix_cache_hits_total")),
        process_start=sums.get("process_start_time_seconds"),
        config=config,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
