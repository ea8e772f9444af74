"""One llama_context as a cache state: keep a prefix, evaluate the rest, answer. Imported in the child process only."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from app.engine.base import GenerateRequest, Progress, Sampling, Snapshot
from app.engine.distribution import Distribution
from app.engine.llama_model import LlamaModel
from app.errors import ContextOverflow, EngineError
from app.trajectory.step import IdArray, as_ids, shared_length
from app.trajectory.trajectory import RequestReport, Span

RawStep = tuple[int, float, list[int], list[float]]
"""A step without bytes, as it crosses the pipe: id, logprob, rival ids, rival logprobs."""


def chunk_sizes(total: int, n_batch: int, n_ubatch: int) -> list[int]:
    """How llama.cpp splits `total` tokens: batches of n_batch, each in chunks of n_ubatch."""
    batches = [min(n_batch, total - start) for start in range(0, total, n_batch)]
    return [min(n_ubatch, batch - start) for batch in batches for start in range(0, batch, n_ubatch)]


def rewind_is_honoured(pos_min: int, keep: int, n_swa: int) -> bool:
    """Whether a memory whose entries start at `pos_min` still has what the token at position `keep` attends to.

    llama-server's rule. A full memory starts at 0, a sliding window of n_swa tokens may have dropped what lies before
    it, and a recurrent one holds its last position only; seq_rm's success alone is no proof.
    """
    return 0 <= pos_min <= max(0, keep - max(1, n_swa))


@dataclass
class _Tally:
    """What one request did, to be held against llama.cpp's own counters."""

    held_before: int
    cached: int = 0
    chunks: list[int] = field(default_factory=list)
    decoded: int = 0
    problems: list[str] = field(default_factory=list)
    note: str | None = None


class LlamaState:
    """A llama_context and the ids whose entries it holds, in order (`held`)."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._context = model.new_context()
        self._memory = llama_cpp.llama_get_memory(self._context)
        self.n_ctx = int(llama_cpp.llama_n_ctx(self._context))
        self.n_batch = int(llama_cpp.llama_n_batch(self._context))
        self.n_ubatch = int(llama_cpp.llama_n_ubatch(self._context))
        self._batch = llama_cpp.llama_batch_init(self.n_ubatch, 0, 1)
        for slot in range(self.n_ubatch):
            self._batch.n_seq_id[slot] = 1
            self._batch.seq_id[slot][0] = 0
        self._scratch = np.empty(model.n_vocab, np.float32)
        self._logits, self._logits_address = self._scratch, 0
        self.held: list[int] = []

    def generate(
        self, request: GenerateRequest, stopped: Callable[[], bool]
    ) -> Iterator[Progress | RawStep | RequestReport]:
        """Answer one request by the contract of `State.generate`; `stopped` is asked between evaluations."""
        prompt = as_ids(request.prompt_ids)
        self._check(prompt)
        begin = time.monotonic()
        tally = self._keep_prefix(prompt)
        llama_cpp.llama_perf_context_reset(self._context)
        yield Progress(tally.cached, len(prompt), tally.cached)
        for size in chunk_sizes(len(prompt) - tally.cached, self.n_batch, self.n_ubatch):
            if stopped():
                yield self._report(tally, "cancelled", begin, None, None)
                return
            done = len(self.held) + size
            self._evaluate(prompt[len(self.held) : done].tolist(), logits=done == len(prompt))
            tally.chunks.append(size)
            yield Progress(done, len(prompt), tally.cached)
        prefilled = first = time.monotonic()
        steps, reason = 0, "length"
        with _Sampler(request.sampling) as sampler:
            while steps < request.max_tokens:
                if stopped():
                    reason = "cancelled"
                    break
                step = self._choose(sampler, request.rivals)
                if steps == 0:
                    first = time.monotonic()
                yield step
                steps += 1
                if step[0] in self._model.eog_ids:
                    reason = "stop"
                    break
                if steps == request.max_tokens or len(self.held) == self.n_ctx:
                    break
                self._evaluate([step[0]], logits=True)
                tally.decoded += 1
        yield self._report(tally, reason, begin, prefilled, first if steps else None)

    def rebuild(self, ids: IdArray, spans: Sequence[Span]) -> None:
        """Fill this empty state as `State.rebuild` says."""
        if self.held:
            raise EngineError("Only an empty state can be rebuilt.")
        if sum(span.length for span in spans) != len(ids):
            raise EngineError("The state cannot be rebuilt: the record does not say how each entry was written.")
        self._check(ids)
        for span in spans:
            own = ids[len(self.held) : len(self.held) + span.length].tolist()
            if span.start != len(self.held) or span.kind not in ("prefill", "decode"):
                raise EngineError(f"The state cannot be rebuilt: how token {span.start + 1} was written is not known.")
            size = 1 if span.kind == "decode" else span.chunk or span.length
            for start in range(0, span.length, size):
                self._evaluate_filled(own[start : start + size], size)

    def snapshot(self) -> Snapshot:
        """Exactly what this state holds."""
        size = llama_cpp.llama_state_seq_get_size(self._context, 0)
        buffer = (ctypes.c_uint8 * size)()
        written = llama_cpp.llama_state_seq_get_data(self._context, buffer, size, 0)
        if written != size:
            raise EngineError("llama.cpp cannot save this state.", self._model.log.tail())
        return Snapshot(as_ids(self.held), bytes(buffer))

    def restore(self, snapshot: Snapshot) -> None:
        """Hold exactly what `snapshot` holds. Raises EngineError where it does not fit this model and context."""
        self.clear()
        size = len(snapshot.data)
        buffer = (ctypes.c_uint8 * size).from_buffer_copy(snapshot.data)
        read = llama_cpp.llama_state_seq_set_data(self._context, buffer, size, 0)
        if read != size or self._pos_max() != len(snapshot.ids) - 1:
            self.clear()
            raise EngineError("The saved state does not fit this model and these settings.", self._model.log.tail())
        self.held = snapshot.ids.tolist()

    def clear(self) -> None:
        """Hold nothing, with zeroed entries: as good as new."""
        llama_cpp.llama_memory_clear(self._memory, True)
        self.held = []

    def close(self) -> None:
        """Free the context. Closing twice is harmless."""
        if self._context:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None

    def _check(self, ids: IdArray) -> None:
        if len(ids) == 0:
            raise EngineError("The prompt is empty.", "A request needs at least one token.")
        if len(ids) >= self.n_ctx:
            raise ContextOverflow(
                f"The prompt has {len(ids):,} tokens; the context holds {self.n_ctx:,}.",
                "Raise the context size (n_ctx), or use shorter episodes.",
            )
        if ids.min() < 0 or ids.max() >= self._model.n_vocab:
            wrong = int(ids.min()) if ids.min() < 0 else int(ids.max())
            raise EngineError(f"The prompt holds id {wrong}, which this model's {self._model.n_vocab:,} tokens lack.")

    def _keep_prefix(self, prompt: IdArray) -> _Tally:
        """Rewind to the longest common prefix, less one token where the prompt ends in it."""
        tally = _Tally(held_before=len(self.held))
        self._expect_positions(tally, "before the request")
        keep = min(shared_length(as_ids(self.held), prompt), len(prompt) - 1)
        if keep < len(self.held):
            pos_min = llama_cpp.llama_memory_seq_pos_min(self._memory, 0)
            if keep and not (
                rewind_is_honoured(pos_min, keep, self._model.n_swa)
                and llama_cpp.llama_memory_seq_rm(self._memory, 0, keep, -1)
            ):
                tally.note = (
                    f"The model's memory cannot go back to {keep:,} tokens (its entries start at "
                    f"{max(pos_min, 0) + 1:,}): the prompt was evaluated from the start."
                )
                keep = 0
            if keep == 0:
                self.clear()
            self.held = self.held[:keep]
            self._expect_positions(tally, "after the rewind")
        tally.cached = keep
        return tally

    def _expect_positions(self, tally: _Tally, when: str) -> None:
        if self._pos_max() != len(self.held) - 1:
            tally.problems.append(
                f"llama.cpp's memory ends at position {self._pos_max()} {when}, {len(self.held) - 1} was expected"
            )

    def _pos_max(self) -> int:
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, 0))

    def _evaluate(self, ids: list[int], *, logits: bool) -> None:
        """One llama_decode of at most n_ubatch tokens: exactly one chunk. `logits` asks for the last token's."""
        batch, start = self._batch, len(self.held)
        batch.n_tokens = len(ids)
        for slot, token_id in enumerate(ids):
            batch.token[slot], batch.pos[slot], batch.logits[slot] = token_id, start + slot, 0
        batch.logits[len(ids) - 1] = logits
        code = llama_cpp.llama_decode(self._context, batch)
        # Without this, llama.cpp counts two decodes as one, and a single token as part of a prefill.
        llama_cpp.llama_synchronize(self._context)
        if code != 0:
            self.held = self.held[: self._pos_max() + 1]
            raise EngineError(f"llama.cpp could not evaluate the tokens (code {code}).", self._model.log.tail())
        self.held.extend(ids)

    def _evaluate_filled(self, ids: list[int], size: int) -> None:
        """Evaluate `ids` as the head of a chunk of `size` tokens, and cut what filled it up."""
        if size > self.n_ubatch or len(self.held) + size > self.n_ctx:
            raise EngineError(f"The state cannot be rebuilt: a chunk of {size} tokens does not fit these settings.")
        keep = len(self.held) + len(ids)
        self._evaluate(ids + ids[-1:] * (size - len(ids)), logits=False)
        if len(ids) < size:
            if not llama_cpp.llama_memory_seq_rm(self._memory, 0, keep, -1):
                raise EngineError("The state cannot be rebuilt: this model's memory cannot be cut.")
            self.held = self.held[:keep]

    def _choose(self, sampler: _Sampler, rivals: int) -> RawStep:
        distribution = Distribution(self._last_logits(), self._scratch)
        ids = distribution.largest(max(1, rivals))
        token_id = sampler.sample(self._context) if sampler.chain else ids[0]
        logprobs = [distribution.logprob(rival) for rival in ids]
        return token_id, distribution.logprob(token_id), ids[:rivals], logprobs[:rivals]

    def _last_logits(self) -> NDArray[np.float32]:
        """The last evaluated token's row: a view of llama.cpp's buffer, which the next evaluation overwrites."""
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        address = ctypes.addressof(pointer.contents)
        if address != self._logits_address:
            self._logits = np.ctypeslib.as_array(pointer, (self._model.n_vocab,))
            self._logits_address = address
        return self._logits

    def _report(
        self, tally: _Tally, reason: str, begin: float, prefilled: float | None, first: float | None
    ) -> RequestReport:
        """Counts as evidence: what was done, beside what llama.cpp counted."""
        now = time.monotonic()
        self._expect_positions(tally, "after the request")
        perf = llama_cpp.llama_perf_context(self._context)
        checks = {"n_p_eval": int(perf.n_p_eval), "n_eval": int(perf.n_eval), "pos_max": self._pos_max()}
        singles = tally.chunks.count(1) + tally.decoded
        # llama.cpp never reports fewer than one of either.
        for name, count in (("n_p_eval", sum(c for c in tally.chunks if c > 1)), ("n_eval", singles)):
            if checks[name] != max(1, count):
                tally.problems.append(f"llama.cpp counted {name} = {checks[name]}, {count} was expected")
        return RequestReport(
            cached_tokens=tally.cached,
            evaluated_tokens=sum(tally.chunks),
            chunks=tuple(tally.chunks),
            finish_reason=reason,
            held_before=tally.held_before,
            first_token_ms=None if first is None else (first - begin) * 1000,
            prefill_ms=None if prefilled is None else (prefilled - begin) * 1000,
            decode_ms=None if first is None else (now - first) * 1000,
            checks=checks,
            problem="; ".join(tally.problems).capitalize() + "." if tally.problems else None,
            note=tally.note,
        )


class _Sampler:
    """llama.cpp's own chain for one request: top-k, top-p, temperature, seeded choice. No chain where greedy."""

    def __init__(self, sampling: Sampling) -> None:
        self.chain = None
        if sampling.temperature > 0:
            self.chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
            for part in (
                llama_cpp.llama_sampler_init_top_k(sampling.top_k),
                llama_cpp.llama_sampler_init_top_p(sampling.top_p, 1),
                llama_cpp.llama_sampler_init_temp(sampling.temperature),
                llama_cpp.llama_sampler_init_dist(sampling.seed & 0xFFFFFFFF),
            ):
                llama_cpp.llama_sampler_chain_add(self.chain, part)

    def sample(self, context: object) -> int:
        """Choose from the last evaluated token's logits, and take it into account."""
        return int(llama_cpp.llama_sampler_sample(self.chain, context, -1))

    def __enter__(self) -> _Sampler:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.chain:
            llama_cpp.llama_sampler_free(self.chain)
            self.chain = None
