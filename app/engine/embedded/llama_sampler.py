"""llama.cpp's own sampler chain, made for one request. Imported in the child process only."""

from __future__ import annotations

from typing import Any

import llama_cpp

from app.engine.base import Sampling


class LlamaSampler:
    """Top-k, top-p, temperature, then a seeded choice. No chain where greedy: the caller takes the largest logit."""

    def __init__(self, sampling: Sampling) -> None:
        self.greedy = sampling.temperature <= 0
        self._chain: Any = None
        if self.greedy:
            return
        self._chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        for part in (
            llama_cpp.llama_sampler_init_top_k(sampling.top_k),
            llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1),
            llama_cpp.llama_sampler_init_temp(sampling.temperature),
            llama_cpp.llama_sampler_init_dist(sampling.seed & 0xFFFFFFFF),  # llama.cpp's seeds have 32 bits
        ):
            llama_cpp.llama_sampler_chain_add(self._chain, part)

    def sample(self, context: Any) -> int:
        """The id chosen from the last evaluated token's logits; the chain's random state moves on."""
        return int(llama_cpp.llama_sampler_sample(self._chain, context, -1))

    def __enter__(self) -> LlamaSampler:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._chain:
            llama_cpp.llama_sampler_free(self._chain)
            self._chain = None
