"""A made-up server of OpenAI's completions, on a real socket, whose answers can be spoilt."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from tests.unit.engine.broken_server import Behaviour, Received, answer

TOKENS = (" four", ",", " five", ",")
Edit = Callable[[dict[str, Any]], object]


class Completions:
    """Says TOKENS, changed by `edit`; a BrokenServer's behaviour.

    `counts`: it reports cached words, as a server that keeps its last prompt. `refuse` names the fields of a request
    that it does not know. `serve` stands in for its answers while it is set.
    """

    def __init__(self, edit: Edit | None = None, *, counts: bool = False, refuse: tuple[str, ...] = ()) -> None:
        self.edit = edit
        self.counts = counts
        self.refuse = refuse
        self.keeps = True
        self.models = [{"id": "made", "owned_by": "tests"}]
        self.headers: dict[str, str] = {}
        self.asked: list[Mapping[str, Any]] = []
        self.serve: Behaviour | None = None
        self._last = ""

    def __call__(self, connection: socket.socket, request: Received) -> None:
        if request.target == "/v1/models":
            answer({"data": self.models}, **self.headers)(connection, request)
        elif request.target != "/v1/completions":
            answer({"detail": "Not Found"}, "404 Not Found")(connection, request)
        else:
            self.asked.append(request.json)
            behaviour = self.serve or self._answer(request.json)
            behaviour(connection, request)

    def _answer(self, body: Mapping[str, Any]) -> Behaviour:
        known = next((name for name in self.refuse if name in body), None)
        if known:
            return answer({"error": {"message": f"unknown field {known}"}}, "400 Bad Request", **self.headers)
        tokens = TOKENS[: body["max_tokens"]]
        tops = [
            {token: -0.25, **{f"{token}{n}": -1.0 - n for n in range(body.get("logprobs", 1) - 1)}} for token in tokens
        ]
        entries = {"tokens": list(tokens), "token_logprobs": [-0.25] * len(tokens), "top_logprobs": tops}
        words = body["prompt"].split()
        usage: dict[str, Any] = {"prompt_tokens": len(words), "completion_tokens": len(tokens)}
        if self.counts:
            shared = len([1 for a, b in zip(words, self._last.split(), strict=False) if a == b]) if self.keeps else 0
            usage["prompt_tokens_details"] = {"cached_tokens": min(shared, len(words) - 1)}
        self._last = body["prompt"]
        told = entries if "logprobs" in body else None
        raw = {"choices": [{"text": "".join(tokens), "finish_reason": "length", "logprobs": told}], "usage": usage}
        if self.edit is not None:
            self.edit(raw)
        return answer(raw, **self.headers)
