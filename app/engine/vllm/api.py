"""What is asked of a vLLM server, in its own words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.engine.base import Sampling, StopFlag
from app.engine.http.server import Server
from app.engine.llama_server.shape import as_list, as_mapping, count_of
from app.engine.served_answer import Asked
from app.engine.vllm.answer import read_answer, without_arrays
from app.engine.vllm.metrics import Counters, read_metrics
from app.errors import EngineError, ServerRefused

_SEPARATOR: Final = "\n<~>\n"
"""Between tokens that are turned into text together; no token is known to end or begin with a part of it."""

_NEUTRAL: Final[Mapping[str, object]] = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "min_p": 0.0,
}
"""Said in every request: else what the model's generation_config.json says would be in force."""


class VllmApi:
    """One model of one server. `count_by_metrics` reads the server's counters around every request: two more requests
    each, for servers whose answers do not tell the cached tokens. Errors are those of Server."""

    def __init__(self, server: Server, model: str, count_by_metrics: bool = False) -> None:
        self.server = server
        self.model = model
        self.count_by_metrics = count_by_metrics
        self._separator: list[int] | None = None

    def complete(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        *,
        salt: str,
        rivals: int = 5,
        sampling: Sampling = Sampling(),
        stop: StopFlag | None = None,
        **more: object,
    ) -> Asked:
        """One answer to ids; the prompt's blocks are shared only with requests of the same salt."""
        asked = {
            "model": self.model,
            "max_tokens": max_tokens,
            "logprobs": rivals,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "skip_special_tokens": False,
            "cache_salt": salt,
            **_NEUTRAL,
            **_choice(sampling),
            **more,
        }
        before = self.counters(stop) if self.count_by_metrics else Counters()
        raw = self.server.post("/v1/completions", {**asked, "prompt": list(prompt)}, stop=stop).json()
        answer = read_answer(raw)
        cached, note = answer.cached, None
        if cached is None and self.count_by_metrics:
            cached = self.counters(stop).hits_since(before, len(prompt))
            note = "Cached tokens are counted by /metrics." if cached is not None else (
                "The cached tokens are not known: the counters of /metrics are missing, or others asked meanwhile."
            )  # fmt: skip
        return Asked(answer, cached, note, json.dumps(asked), without_arrays(raw))

    def tokenize(self, text: str, *, add_special: bool = False, stop: StopFlag | None = None) -> list[int]:
        """Ids of `text`; control tokens in it are always parsed."""
        return _tokens(self._tokenize({"prompt": text, "add_special_tokens": add_special}, stop))

    def tokenize_chat(self, messages: Sequence[Mapping[str, str]], stop: StopFlag | None = None) -> list[int]:
        """Ids of a conversation as the server's own chat template renders it; empty where it has none."""
        try:
            return _tokens(self._tokenize({"messages": list(messages), "add_generation_prompt": False}, stop))
        except ServerRefused:
            return []

    def texts(self, ids: Sequence[int], stop: StopFlag | None = None) -> list[str]:
        """The text of each token, all in one request; one by one where the parts cannot be told apart."""
        between = self._separator = self._separator or self.tokenize(_SEPARATOR, stop=stop)
        joined = self._detokenize([*between, *(own for token_id in ids for own in (token_id, *between))], stop)
        parts = joined.split(_SEPARATOR)[1:-1]
        if len(parts) == len(ids):
            return parts
        start = self._detokenize(between, stop)
        return [self._detokenize([*between, token_id], stop).removeprefix(start) for token_id in ids]

    def spellings(self, text: str, stop: StopFlag | None = None) -> dict[int, str]:
        """How the tokenizer spells the tokens of `text`; empty where the server does not tell."""
        reply = self._tokenize({"prompt": text, "add_special_tokens": False, "return_token_strs": True}, stop)
        return dict(zip(_tokens(reply), map(str, as_list(reply.get("token_strs"))), strict=False))

    def counters(self, stop: StopFlag | None = None) -> Counters:
        """GET /metrics; empty where the server has none."""
        try:
            return read_metrics(self.server.get("/metrics", stop=stop).text, self.model)
        except ServerRefused:
            return Counters()

    def tell(self, path: str, stop: StopFlag | None = None) -> Mapping[str, Any]:
        """GET `path`; empty where the server does not have it."""
        try:
            return as_mapping(self.server.get(path, stop=stop).json())
        except ServerRefused:
            return {}

    def reset(self, stop: StopFlag | None = None) -> None:
        """Drop everything that the prefix cache holds, whoever it belongs to.

        Raises EngineError where the server refuses, which it does while requests run.
        """
        reply = as_mapping(self.server.post("/reset_prefix_cache", None, stop=stop).json())
        if reply.get("success") is not True:
            raise EngineError(
                "The server did not reset its prefix cache.", "It refuses while requests run: wait until it is idle."
            )

    def _tokenize(self, body: Mapping[str, object], stop: StopFlag | None) -> Mapping[str, Any]:
        return as_mapping(self.server.post("/tokenize", {"model": self.model, **body}, stop=stop).json())

    def _detokenize(self, ids: Sequence[int], stop: StopFlag | None) -> str:
        reply = self.server.post("/detokenize", {"model": self.model, "tokens": list(ids)}, stop=stop).json()
        return str(as_mapping(reply).get("prompt") or "")


def _tokens(reply: Mapping[str, Any]) -> list[int]:
    return [token_id for value in as_list(reply.get("tokens")) if (token_id := count_of(value)) is not None]


def _choice(sampling: Sampling) -> dict[str, object]:
    if sampling.temperature == 0:
        return {"temperature": 0.0, "top_p": 1.0, "top_k": 0}
    return {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
    }
