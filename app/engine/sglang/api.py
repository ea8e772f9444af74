"""What is asked of an SGLang server, in its own words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.engine.base import Sampling, StopFlag
from app.engine.http.server import Server
from app.engine.llama_server.shape import as_list, as_mapping, count_of
from app.engine.served_answer import Asked
from app.engine.sglang.answer import read_answer, without_arrays
from app.errors import ContextOverflow, EngineError, ServerRefused

_ANCHOR: Final = "a"
"""Before a token that is turned into text: alone, SentencePiece would drop the space that it begins with."""

_TOO_LONG: Final = re.compile(r"context length|maximum allowed length|longer than the model", re.IGNORECASE)


class SglangApi:
    """One server. Errors are those of Server; a prompt that is too long is a ContextOverflow.

    /generate, /flush_cache and the pages of facts as documented; /tokenize and /detokenize as in SGLang's source
    (python/sglang/srt/entrypoints/openai/serving_tokenize.py).
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self._anchor: list[int] | None = None

    def generate(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        *,
        rivals: int = 5,
        sampling: Sampling = Sampling(),
        stop: StopFlag | None = None,
        **more: object,
    ) -> Asked:
        """One answer to ids; `more` are further sampling parameters."""
        asked: dict[str, object] = {
            "sampling_params": {
                "max_new_tokens": max_tokens,
                "skip_special_tokens": False,
                **_choice(sampling),
                **more,
            },
            "return_logprob": True,
            "top_logprobs_num": rivals,
            "logprob_start_len": -1,  # anything else would forbid reuse beyond it
            "stream": False,
        }
        try:
            raw = self.server.post("/generate", {**asked, "input_ids": list(prompt)}, stop=stop).json()
        except ServerRefused as error:
            if error.status == 400 and _TOO_LONG.search(f"{error.message} {error.body}"):
                raise ContextOverflow(f"The prompt has {len(prompt):,} tokens: {error.message}") from error
            raise
        answer = read_answer(raw)
        return Asked(answer, answer.cached, None, json.dumps(asked), without_arrays(raw))

    def flush(self, stop: StopFlag | None = None) -> None:
        """Drop everything that the radix cache holds, whoever it belongs to. Raises EngineError where it is refused."""
        try:
            self.server.post("/flush_cache", None, stop=stop)
        except ServerRefused as error:
            if error.status in (401, 403, 404):
                raise
            raise EngineError(
                "The server did not flush its cache.", "It refuses while requests run: wait until it is idle."
            ) from error

    def tokenize(self, text: str, *, add_special: bool = False, stop: StopFlag | None = None) -> list[int]:
        """Ids of `text`; control tokens in it are always parsed."""
        body = {"prompt": text, "add_special_tokens": add_special}
        reply = as_mapping(self.server.post("/tokenize", body, stop=stop).json())
        return [token_id for value in as_list(reply.get("tokens")) if (token_id := count_of(value)) is not None]

    def texts(self, ids: Sequence[int], stop: StopFlag | None = None) -> list[str]:
        """The text of each token, all in one request."""
        anchor = self._anchor = self._anchor or self.tokenize(_ANCHOR, stop=stop)
        body = {"tokens": [anchor, *([*anchor, token_id] for token_id in ids)], "skip_special_tokens": False}
        told = [
            str(text)
            for text in as_list(as_mapping(self.server.post("/detokenize", body, stop=stop).json()).get("text"))
        ]
        if len(told) != len(ids) + 1:
            raise EngineError("The server does not turn lists of ids into texts (POST /detokenize).")
        return [text.removeprefix(told[0]) for text in told[1:]]

    def tell(self, path: str, stop: StopFlag | None = None) -> Mapping[str, Any]:
        """GET `path`; empty where the server does not have it."""
        try:
            return as_mapping(self.server.get(path, stop=stop).json())
        except ServerRefused:
            return {}


def _choice(sampling: Sampling) -> dict[str, object]:
    """Everything is said: else what the model's generation_config.json says would be in force."""
    neutral = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    if sampling.temperature == 0:
        return {"temperature": 0.0, "top_k": -1, "top_p": 1.0, **neutral}
    chosen = {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
    return {**chosen, "sampling_seed": sampling.seed, **neutral}
