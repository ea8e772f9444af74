"""POST /v1/completions and GET /v1/models, as OpenAI-compatible servers have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from app.engine.base import Sampling, StopFlag
from app.engine.http.server import Server
from app.engine.llama_server.shape import as_list, as_mapping
from app.errors import ContextOverflow, EngineDied, EngineError, ServerRefused, SettingsError

_STANDARD: Final = {"n": 1, "stream": False, "frequency_penalty": 0, "presence_penalty": 0}
_BEYOND: Final = {"repeat_penalty": 1.0}
"""llama-cpp-python's server punishes repetition unless told not to (its default is 1.1): greedy would not be greedy."""

_OVERFLOW: Final = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context (window|size|length)", re.IGNORECASE
)


class CompletionsApi:
    """Asks one server by text, for one model.

    `asks_logprobs` and `goes_beyond` (fields that OpenAI does not know) are switched off where the server refuses them.
    """

    def __init__(self, server: Server, model: str) -> None:
        self._server = server
        self._wanted = model
        self._connections = -1
        self.model = ""
        self.listed: Mapping[str, Any] = {}
        self.asks_logprobs = True
        self.goes_beyond = True

    def choose_model(self, stop: StopFlag | None) -> None:
        """Take the wanted model or the only one. Raises SettingsError where it is not served, or one must be chosen."""
        try:
            models = [as_mapping(each) for each in as_list(as_mapping(self._get("/v1/models", stop)).get("data"))]
        except ServerRefused as error:
            if error.status != 404 or not self._wanted:
                raise
            models = []
        names = [str(each.get("id", "")) for each in models]
        if self._wanted and names and self._wanted not in names:
            raise SettingsError(f"The server does not serve {self._wanted!r}, but {_listed(names)}.", _MODEL_HINT)
        if not self._wanted and len(names) != 1:
            what = f"serves {_listed(names)}" if names else "does not say what it serves"
            raise SettingsError(f"The server {what}.", _MODEL_HINT)
        self.model = self._wanted or names[0]
        self.listed = models[names.index(self.model)] if self.model in names else {}
        self._connections = self._server.connections

    def complete(self, text: str, max_tokens: int, sampling: Sampling, rivals: int, stop: StopFlag | None) -> object:
        """The raw answer. Raises ContextOverflow where the prompt does not fit, else what `Server.post` raises."""
        body = {"prompt": text, **self.body(max_tokens, sampling, rivals)}
        try:
            return self._server.post("/v1/completions", body, stop=stop).json()
        except ServerRefused as error:
            if error.status < 500 and _OVERFLOW.search(error.body):
                raise ContextOverflow(
                    f"The prompt does not fit the server's context. {error.message}",
                    "Start the server with a larger context, or use shorter episodes.",
                ) from error
            raise

    def body(self, max_tokens: int, sampling: Sampling, rivals: int) -> dict[str, object]:
        """A request less its prompt."""
        body: dict[str, object] = {
            "model": self.model,
            "max_tokens": max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            **_STANDARD,
        }
        if self.goes_beyond:
            body |= _BEYOND
        if sampling.temperature > 0:
            body |= {"top_p": sampling.top_p}
            body |= {"top_k": sampling.top_k, "min_p": 0.0} if self.goes_beyond else {}
        if self.asks_logprobs:
            body |= {"logprobs": max(1, rivals)}  # 0 would leave out more than the rivals
        return body

    def change(self, stop: StopFlag | None) -> str | None:
        """A sentence where the server was restarted and serves another model; asks only after a new connection."""
        if self._server.connections == self._connections:
            return None
        models = as_list(as_mapping(self._get("/v1/models", stop)).get("data")) if self.listed else []
        self._connections = self._server.connections
        names = [str(as_mapping(each).get("id", "")) for each in models]
        if not self.listed or self.model in names:
            return None
        return f"the server was restarted with another model: {self.model} -> {_listed(names)}"

    def told(self, path: str, stop: StopFlag | None) -> Mapping[str, Any]:
        """What a path tells that not every server has; empty where this one does not."""
        try:
            return as_mapping(self._get(path, stop))
        except EngineDied:
            raise
        except EngineError:
            return {}

    def close(self) -> None:
        """End the connection."""
        self._server.close()

    def _get(self, path: str, stop: StopFlag | None) -> object:
        return self._server.get(path, stop=stop).json()


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


_MODEL_HINT: Final = "Name one that it serves with --served-model."
