"""A slot of a llama-server as a cache state, and the evidence of what each request found in it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.engine.base import GenerateRequest, Progress, Sampling, Snapshot, StopFlag
from app.engine.llama_server_probe import FIXED, GREEDY, SLOT
from app.engine.llama_server_shape import Completion, Entry, as_mapping, read_completion
from app.errors import ContextOverflow, EngineDied, EngineError, ServerRefused
from app.trajectory.step import IdArray, Rival, Step, as_ids, shared_length
from app.trajectory.trajectory import RequestReport, Span

if TYPE_CHECKING:
    from app.engine.llama_server import LlamaServerEngine

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
        evidence = Evidence(answer, expected, len(prompt), self._engine, caching=bool(body["cache_prompt"]))
        yield RequestReport(
            cached_tokens=answer.cached,
            evaluated_tokens=answer.evaluated,
            chunks=(),  # the server does not tell them
            finish_reason="length" if answer.stop_type == "limit" else "stop",
            held_before=None if held is None else len(held),
            slot=answer.slot,
            prefill_ms=answer.prefill_ms,
            decode_ms=answer.decode_ms,
            checks=evidence.checks(),
            problem=_sentence([*evidence.problems(), *([changed] if changed else [])]),
            note=_sentence(evidence.notes()),
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


class Evidence:
    """One answer's counts against what the slot should have held: `expected` tokens of a prompt of `total`."""

    def __init__(
        self, answer: Completion, expected: int, total: int, engine: LlamaServerEngine, *, caching: bool
    ) -> None:
        self._answer = answer
        self._expected = expected
        self._total = total
        self._caching = caching
        info = engine.describe()
        self._eog_ids = info.eog_ids
        self._may_rewind = not (info.model.get("n_swa") or info.model.get("recurrent"))
        self._n_ctx = info.n_ctx

    def checks(self) -> dict[str, int]:
        """The server's own numbers that `problems` were looked for in."""
        answer = self._answer
        counts = {
            "cache_n": answer.cached,
            "prompt_n": answer.evaluated,
            "tokens_evaluated": answer.prompt,
            "tokens_predicted": answer.predicted,
            "cache_n_expected": self._expected,
        }
        return {name: count for name, count in counts.items() if count is not None}

    def problems(self) -> Iterator[str]:
        """What contradicts: each makes the pass invalid."""
        answer, cached = self._answer, self._answer.cached
        if cached is not None and cached < self._expected and self._may_rewind:
            yield (
                f"the slot kept {cached} of the {self._expected} tokens that it should hold: other traffic used it, "
                "the server restarted, or the model's memory cannot go back"
            )
        if cached and not self._caching:
            yield f"the request was to be kept from the cache, yet {cached} tokens came from it"
        if cached is not None and answer.evaluated is not None and cached + answer.evaluated != self._total:
            yield f"{cached} cached and {answer.evaluated} evaluated tokens are not the prompt's {self._total}"
        if answer.prompt not in (None, self._total):
            yield f"the server saw a prompt of {answer.prompt} tokens instead of {self._total}"
        if answer.predicted not in (None, len(answer.ids)):
            yield f"the server sampled {answer.predicted} tokens and returned {len(answer.ids)}"
        if answer.slot not in (None, SLOT):
            yield f"slot {answer.slot} answered instead of slot {SLOT}"
        if answer.stray:
            yield "the probability entries are of other tokens than were sampled"
        if self._total + len(answer.ids) > self._n_ctx:
            yield f"the answer is longer than the context of {self._n_ctx} tokens: the server dropped a part of it"
        if answer.stop_type == "eos" and answer.ids[-1] not in self._eog_ids:
            yield f"the server ended at token {answer.ids[-1]}, which is none of its end tokens"

    def notes(self) -> Iterator[str]:
        """What a reader must know."""
        answer, cached = self._answer, self._answer.cached
        if cached is not None and cached > self._expected and self._caching:
            yield (
                f"{cached - self._expected} cached tokens were not put there by this conversation: the server took "
                "them from its own prompt cache (--cache-ram), or from another conversation in this slot"
            )
        if cached is not None and cached < self._expected and not self._may_rewind:
            yield (
                f"the slot kept {cached} of the {self._expected} tokens that it should hold: this model's memory "
                "cannot go back everywhere, or other traffic used the slot"
            )
        missing = sum(entry is None for entry in answer.entries)
        if missing and not answer.stray:
            yield f"{missing} of {len(answer.ids)} steps came without logprobs"


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
        "Start the server with a larger --ctx-size, or use shorter episodes.",
    )


def _sentence(parts: Iterator[str] | Sequence[str]) -> str | None:
    found = "; ".join(parts)
    return f"{found}." if found else None


def _shown(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))
