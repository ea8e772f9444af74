"""Servers in memory that answer in the shapes of vLLM 0.32.0 (as seen) and of SGLang (as documented).

Their model says a fixed text token by token; a token is a byte, as in the scripted engine. Their cache is real: blocks
by salt, counted as the servers count them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from app.engine.base import Engine
from app.engine.http.server import Server
from app.engine.scripted import CONTROL, IM_END, piece, tokenize
from app.engine.server_settings import ServerSettings
from app.engine.sglang.engine import SglangEngine
from app.engine.token_pieces import _BYTE_OF
from app.engine.vllm.engine import VllmEngine

N_VOCAB = 256 + len(CONTROL)
SAID = "Größe 😀"
_SPELLED = {byte: letter for letter, byte in _BYTE_OF.items()}

Route = Callable[[Any], httpx.Response]


def text_of(ids: Sequence[int]) -> str:
    return b"".join(piece(token_id) for token_id in ids).decode("utf-8", errors="replace")


class Blocks:
    """Prefix blocks by salt; only whole blocks are found, and never a prompt's last token."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.known: set[tuple[str, tuple[int, ...]]] = set()

    def find(self, salt: str, prompt: Sequence[int]) -> int:
        count = 0
        while count + self.size < len(prompt) and (salt, tuple(prompt[: count + self.size])) in self.known:
            count += self.size
        return count

    def add(self, salt: str, ids: Sequence[int]) -> None:
        self.known |= {(salt, tuple(ids[:end])) for end in range(self.size, len(ids) + 1, self.size)}


class FakeServer:
    """Routes by path; `asked` keeps every body. `broken` may change an answer before it is sent.

    A token takes `pace_s`. One client asks, on one connection: who asks again while an answer is made has hung up on
    it, and of that answer nothing is kept.
    """

    def __init__(self, said: str = SAID, block: int = 16, max_length: int = 400, pace_s: float = 0.0) -> None:
        self.said, self.max_length, self.pace_s = said, max_length, pace_s
        self.blocks = Blocks(block)
        self._answers = 0
        self.routes: dict[str, Route] = {}
        self.asked: list[tuple[str, Any]] = []
        self.broken: Callable[[dict[str, Any]], object] = lambda _answer: None

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def bodies(self, path: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == path]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content and request.content != b"null" else None
        self.asked.append((request.url.path, body))
        route = self.routes.get(request.url.path)
        return route(body) if route else httpx.Response(404, json={"detail": "Not Found"})

    def answer(self, salt: str, prompt: list[int], max_tokens: int, forced: int | None) -> list[int]:
        """The ids of the answer, once they are made and in the cache."""
        self._answers = mine = self._answers + 1
        said = [forced] * max_tokens if forced is not None else [*self.said.encode(), IM_END]
        end = said.index(IM_END) + 1 if IM_END in said else len(said)
        ids = said[: min(max_tokens, end)]
        threading.Event().wait(self.pace_s * len(ids))
        if self._answers == mine:
            self.blocks.add(salt, [*prompt, *ids[:-1]])
        return ids


class FakeVllm(FakeServer):
    """`salts` False ignores cache_salt; `counts` False leaves the cached tokens out; `dev` has /reset_prefix_cache."""

    def __init__(
        self,
        *,
        salts: bool = True,
        counts: bool = True,
        metrics: bool = True,
        caching: bool = True,
        dev: bool = False,
        **serving: Any,
    ) -> None:
        super().__init__(**serving)
        self.salts, self.counts, self.caching = salts, counts, caching
        self.queries = self.hits = 0
        self.started = 1000.5
        self.version = "0.32.0"
        self.is_busy = False
        self.routes = {
            "/v1/models": lambda _: httpx.Response(
                200, json={"data": [{"id": "tiny", "root": "/models/tiny-1", "max_model_len": self.max_length}]}
            ),
            "/version": lambda _: httpx.Response(200, json={"version": self.version}),
            "/tokenize": self._tokenize,
            "/detokenize": lambda body: httpx.Response(200, json={"prompt": text_of(body["tokens"])}),
            "/v1/completions": self._complete,
        }
        if metrics:
            self.routes["/metrics"] = lambda _: httpx.Response(200, text=self._metrics())
        if dev:
            self.routes["/reset_prefix_cache"] = self._reset

    def _tokenize(self, body: Any) -> httpx.Response:
        messages = body.get("messages")
        text = body.get("prompt") or "".join(
            f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages or ()
        )
        ids = tokenize(text, True)
        spelled = ["".join(_SPELLED[byte] for byte in piece(token_id)) for token_id in ids]
        named = spelled if body.get("return_token_strs") else None
        return httpx.Response(200, json={"count": len(ids), "tokens": ids, "token_strs": named})

    def _complete(self, body: Any) -> httpx.Response:
        prompt, salt = body["prompt"], body.get("cache_salt", "") if self.salts else ""
        if body.get("logit_bias"):
            return refused(f"token_id(s) out of vocab. Vocabulary size: {N_VOCAB} (parameter=logit_bias)")
        if len(prompt) + body["max_tokens"] > self.max_length:
            raise AssertionError("more than fits: the real server would hang")
        cached = self.blocks.find(salt, prompt) if self.caching else 0
        self.queries, self.hits = self.queries + len(prompt), self.hits + cached
        ids = self.answer(salt, prompt, body["max_tokens"], (body.get("allowed_token_ids") or [None])[0])
        ended = ids[-1] == IM_END
        values = [-0.25 - 0.5 * rank for rank in range(body["logprobs"])]
        rivals = [[token_id, *(other for other in b"abcdefgh" if other != token_id)][: len(values)] for token_id in ids]
        answer = {
            "model": body["model"],
            "system_fingerprint": "vllm-fake",
            "choices": [
                {
                    "text": text_of(ids[:-1] if ended else ids),
                    "finish_reason": "stop" if ended else "length",
                    "stop_reason": None,
                    "token_ids": ids,
                    "prompt_token_ids": prompt,
                    "logprobs": {
                        "tokens": [f"token_id:{token_id}" for token_id in ids],
                        "token_logprobs": [-0.25] * len(ids),
                        "top_logprobs": [
                            {f"token_id:{rival}": value for rival, value in zip(row, values, strict=True)}
                            for row in rivals
                        ],
                    },
                }
            ],
            "usage": {
                "prompt_tokens": len(prompt),
                "completion_tokens": len(ids),
                "prompt_tokens_details": {"cached_tokens": cached} if self.counts else None,
            },
        }
        self.broken(answer)
        return httpx.Response(200, json=answer)

    def _metrics(self) -> str:
        return (
            f"process_start_time_seconds {self.started}\n"
            f'vllm:prefix_cache_queries_total{{engine="0",model_name="tiny"}} {float(self.queries)}\n'
            f'vllm:prefix_cache_hits_total{{engine="0",model_name="tiny"}} {float(self.hits)}\n'
            f'vllm:cache_config_info{{block_size="{self.blocks.size}",enable_prefix_caching="{self.caching}"}} 1.0\n'
        )

    def _reset(self, _body: Any) -> httpx.Response:
        if not self.is_busy:
            self.blocks.known.clear()
        return httpx.Response(200, json={"success": not self.is_busy})


class FakeSglang(FakeServer):
    """One radix cache, by default with pages of one token; `flushes` False refuses to flush, as while requests run."""

    def __init__(self, *, counts: bool = True, caching: bool = True, biases: bool = True, **serving: Any) -> None:
        super().__init__(**{"block": 1, **serving})
        self.counts, self.caching, self.biases = counts, caching, biases
        self.flushes = True
        self.version = "0.5.2"
        self.routes = {
            "/get_model_info": lambda _: httpx.Response(200, json={"model_path": "/models/tiny-1"}),
            "/get_server_info": lambda _: httpx.Response(200, json=self._server_info()),
            "/tokenize": lambda body: httpx.Response(200, json={"tokens": tokenize(body["prompt"], True)}),
            "/detokenize": lambda body: httpx.Response(200, json={"text": [text_of(ids) for ids in body["tokens"]]}),
            "/generate": self._generate,
            "/flush_cache": self._flush,
        }

    def _server_info(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "context_length": self.max_length,
            "page_size": self.blocks.size,
            "dtype": "bfloat16",
            "disable_radix_cache": not self.caching,
        }

    def _generate(self, body: Any) -> httpx.Response:
        prompt, sampling = body["input_ids"], body["sampling_params"]
        bias = sampling.get("logit_bias")
        if bias and not self.biases:
            return refused("Unexpected keyword argument 'logit_bias'")
        cached = self.blocks.find("", prompt) if self.caching else 0
        ids = self.answer("", prompt, sampling["max_new_tokens"], int(next(iter(bias))) if bias else None)
        ended = ids[-1] == IM_END
        count = body["top_logprobs_num"]
        rows = [[token_id, *(other for other in b"abcdefgh" if other != token_id)][:count] for token_id in ids]
        tops = [[[-0.25 - 0.5 * rank, rival, None] for rank, rival in enumerate(row)] for row in rows]
        finish = {"type": "stop", "matched": IM_END} if ended else {"type": "length", "length": len(ids)}
        answer = {
            "text": text_of(ids[:-1] if ended else ids),
            "output_ids": ids,
            "meta_info": {
                "prompt_tokens": len(prompt),
                "completion_tokens": len(ids),
                "finish_reason": finish,
                "output_token_logprobs": [[-0.25, token_id, None] for token_id in ids],
                "output_top_logprobs": tops,
                **({"cached_tokens": cached} if self.counts else {}),
            },
        }
        self.broken(answer)
        return httpx.Response(200, json=answer)

    def _flush(self, _body: Any) -> httpx.Response:
        if not self.flushes:
            return httpx.Response(400, text="Flush cache failed.\n")
        self.blocks.known.clear()
        return httpx.Response(200, text="Cache flushed.\n")


def refused(message: str) -> httpx.Response:
    return httpx.Response(400, json={"error": {"message": message, "type": "BadRequestError", "code": 400}})


def prompt_of(count: int) -> list[int]:
    """`count` ids of plain text."""
    return [ord("a") + n % 26 for n in range(count)]


IN_MEMORY = ("vllm in memory", "sglang in memory")


def open_in_memory(name: str, request: pytest.FixtureRequest) -> Engine:
    """An engine for the contract suite: long answers, a millisecond a token, every token of a prefix found."""
    settings = ServerSettings(allow_reset=True)
    said = "The elephant is the largest of them. " * 40
    kind, adapter = (FakeVllm, VllmEngine) if name == IN_MEMORY[0] else (FakeSglang, SglangEngine)
    served = kind(said=said, block=1, max_length=1024, pace_s=0.001)
    engine = adapter(Server("http://memory", settings, transport=served.transport), settings)
    request.addfinalizer(engine.close)
    return engine
