"""A slot of a llama-server as a cache state."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.engine.base import GenerateRequest, Progress, Sampling, Snapshot, StopFlag
from app.engine.llama_server.evidence import Evidence
from app.engine.llama_server.gaps import FIXED, GREEDY
from app.engine.llama_server.shape import Entry, as_mapping, read_completion
from app.errors import ContextOverflow, EngineDied, EngineError, ServerRefused
from app.trajectory.step import IdArray, Rival, Step, as_ids, shared_length
from app.trajectory.trajectory import RequestReport, Span

if TYPE_CHECKING:
    from app.engine.llama_server.engine import LlamaServerEngine

_HELD_ELSEWHERE = ("tokens", "completion_probabilities", "prompt", "model")
"""What a stored raw answer leaves out: it stands in the steps, the request and the environment record."""


class LlamaServerState:
    """What one slot should hold, by the requests that went through this State (`held`; None: not known).

    The first request, and one after a stop, is sent with `cache_prompt` false. Answers come whole: the steps follow
    each other at once when the server is done, and a stop during an answer leaves none of it.
    """

    def __init__(self, engine: LlamaServerEngine, held: IdArray | None = None) -> None:
        self._engine = engine
        self._history = engine.history
        self._file_name = f"forkpoint-{secrets.token_hex(8)}.bin"
        self._held: IdArray | None = as_ids(()) if held is None else held

    def generate(self, request: GenerateRequest, stop: StopFlag) -> Iterator[Progress | Step | RequestReport]:
        """Answer one request; the report comes last."""
        self._check_history()
        prompt = as_ids(request.prompt_ids)
        self._engine.check_prompt(prompt)
        held = self._held
        expected = 0 if held is None else min(shared_length(held, prompt), len(prompt) - 1)
        body = self._body(request, cache_prompt=bool(held is not None and len(held)))
        self._held = None  # until the answer is here, nobody knows what the slot holds
        yield Progress(expected, len(prompt), expected)
        try:
            raw, changed = self._engine.complete({"prompt": prompt.tolist(), **body}, stop)
        except EngineDied:
            if not stop.is_set():
                raise
            yield RequestReport(None, None, (), "cancelled", raw_request=_shown(body))
            return
        except ServerRefused as error:
            raise _overflow(error) or error from error
        answer = read_completion(raw)
        if not answer.ids:
            raise EngineError(
                "The server returned no token ids.",
                "Its build is too old for this, or the address is another server's.",
            )
        if len(prompt) + len(answer.ids) <= self._engine.describe().n_ctx:  # else its context was shifted
            self._held = as_ids([*prompt.tolist(), *answer.ids[:-1]])
        yield Progress(len(prompt), len(prompt), answer.cached or 0)
        for token_id, entry in zip(answer.ids, answer.entries, strict=True):
            yield self._step(token_id, entry, request.rivals)
        evidence = Evidence(answer, expected, len(prompt), self._engine.describe(), caching=bool(body["cache_prompt"]))
        yield RequestReport(
            cached_tokens=answer.cached,
            evaluated_tokens=answer.evaluated,
            chunks=(),  # the server does not tell them
            finish_reason="stop" if answer.stop_type == "word" or evidence.ended_itself else "length",
            held_before=None if held is None else len(held),
            slot=answer.slot,
            prefill_ms=answer.prefill_ms,
            decode_ms=answer.decode_ms,
            checks=evidence.checks(),
            problem=evidence.problem(changed),
            note=evidence.note(),
            raw_request=_shown(body),
            raw_response=_shown({name: value for name, value in raw.items() if name not in _HELD_ELSEWHERE}),
        )

    def rebuild(self, ids: IdArray, spans: Sequence[Span]) -> None:
        """Not to be had: a server evaluates prompts, in chunks of its own choice."""
        raise EngineError(
            f"A server's cache cannot be filled entry by entry ({len(ids)} tokens in {len(spans)} spans).",
            "Run the pass again from its start.",
        )

    def snapshot(self) -> Snapshot:
        """Save the slot on the server; see `LlamaServerEngine.restore`. A later snapshot of this State replaces it."""
        self._check_history()
        if self._held is None:
            raise EngineError("What the slot holds after a stop is not known: it cannot be saved.")
        return self._engine.save(self._held, self._file_name)

    def close(self) -> None:
        """Nothing to give back: the slot stays as it is until the next request."""

    def _check_history(self) -> None:
        if self._history != self._engine.history:
            raise EngineError("This state's server was replaced by a fresh one.", "Open a new state.")

    @staticmethod
    def _body(request: GenerateRequest, *, cache_prompt: bool) -> dict[str, object]:
        """The request less its prompt."""
        return {
            **FIXED,
            **_sampling(request.sampling),
            "n_predict": request.max_tokens,
            "n_probs": max(1, request.rivals),  # 0 would leave out the sampled token's logprob too
            "cache_prompt": cache_prompt,
        }

    def _step(self, token_id: int, entry: Entry | None, count: int) -> Step:
        piece = self._engine.piece
        if entry is None:
            return Step(token_id, None, piece(token_id))
        rivals = tuple(Rival(rival, logprob, piece(rival)) for rival, logprob in entry.rivals[:count])
        return Step(token_id, entry.logprob, piece(token_id), rivals)


def _sampling(sampling: Sampling) -> dict[str, object]:
    """The samplers reduced to what is meant; the server's defaults add seven more."""
    seed = {"seed": sampling.seed & 0xFFFFFFFF}  # llama.cpp's seeds have 32 bits
    if sampling.temperature <= 0:
        return {**GREEDY, **seed}
    return {
        "samplers": ["top_k", "top_p", "temperature"],
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "temperature": sampling.temperature,
        **seed,
    }


def _overflow(error: ServerRefused) -> ContextOverflow | None:
    """The refusal of a prompt that does not fit, by the server's own type of error."""
    try:
        told: Mapping[str, Any] = as_mapping(as_mapping(json.loads(error.body)).get("error"))
    except ValueError:
        return None
    if told.get("type") != "exceed_context_size_error":
        return None
    return ContextOverflow(
        f"The prompt has {told.get('n_prompt_tokens')} tokens; the server's context holds {told.get('n_ctx')}.",
        "Give it a larger context (--ctx-size, here --n-ctx), or use shorter episodes.",
    )


def _shown(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))
