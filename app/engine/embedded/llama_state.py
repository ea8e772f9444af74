"""One llama_context as a cache state: keep a prefix, evaluate the rest, answer. Imported in the child process only."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Generator, Iterator, Sequence

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from app.engine.base import GenerateRequest, Progress, Snapshot
from app.engine.embedded.distribution import Distribution
from app.engine.embedded.evidence import Counters, Tally, chunk_sizes, rewind_is_honoured
from app.engine.embedded.llama_model import LlamaModel
from app.engine.embedded.llama_sampler import LlamaSampler
from app.errors import ContextOverflow, EngineError
from app.trajectory.step import IdArray, as_ids, shared_length
from app.trajectory.trajectory import RequestReport, Span

RawStep = tuple[int, float, list[int], list[float]]
"""A step without bytes, as it crosses the pipe: id, logprob, rival ids, rival logprobs."""


class LlamaState:
    """A llama_context and the ids whose entries it holds, in order (`held`)."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self.context = model.new_context()
        self._memory = llama_cpp.llama_get_memory(self.context)
        self.n_ctx = int(llama_cpp.llama_n_ctx(self.context))
        self.n_batch = int(llama_cpp.llama_n_batch(self.context))
        self.n_ubatch = int(llama_cpp.llama_n_ubatch(self.context))
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
        tally = self._keep_prefix(prompt)
        llama_cpp.llama_perf_context_reset(self.context)
        yield Progress(tally.cached, len(prompt), tally.cached)
        for size in chunk_sizes(len(prompt) - tally.cached, self.n_batch, self.n_ubatch):
            if stopped():
                yield self._report(tally, "cancelled")
                return
            done = len(self.held) + size
            self._evaluate(prompt[len(self.held) : done].tolist(), logits=done == len(prompt))
            tally.chunks.append(size)
            yield Progress(done, len(prompt), tally.cached)
        tally.prefilled = time.monotonic()
        with LlamaSampler(request.sampling) as sampler:
            yield self._report(tally, (yield from self._answer(request, sampler, tally, stopped)))

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
            if span.kind == "prefill" and not span.chunk:
                raise EngineError("The state cannot be rebuilt: the sizes of the prefill chunks were not reported.")
            size = 1 if span.kind == "decode" else span.chunk
            for start in range(0, span.length, size):
                self._evaluate_filled(own[start : start + size], size)

    def snapshot(self) -> Snapshot:
        """Exactly what this state holds."""
        size = llama_cpp.llama_state_seq_get_size(self.context, 0)
        buffer = (ctypes.c_uint8 * size)()
        written = llama_cpp.llama_state_seq_get_data(self.context, buffer, size, 0)
        if written != size:
            raise EngineError("llama.cpp cannot save this state.", self._model.log.tail())
        return Snapshot(as_ids(self.held), bytes(buffer))

    def restore(self, snapshot: Snapshot) -> None:
        """Hold exactly what `snapshot` holds. Raises EngineError where it does not fit this model and context."""
        self.clear()
        size = len(snapshot.data)
        buffer = (ctypes.c_uint8 * size).from_buffer_copy(snapshot.data)
        read = llama_cpp.llama_state_seq_set_data(self.context, buffer, size, 0)
        if read != size or self._pos_max() != len(snapshot.ids) - 1:
            self.clear()
            raise EngineError("The saved state does not fit this model and these settings.", self._model.log.tail())
        if self._model.settings.swa_full and self._model.n_swa and self._pos_min() > 0:
            self.clear()  # llama.cpp saves a sliding-window layer's last window only, even where all of it is held
            raise EngineError("The saved state lacks what lies before this model's sliding window.")
        self.held = snapshot.ids.tolist()

    def clear(self) -> None:
        """Hold nothing, with zeroed entries: as good as new."""
        llama_cpp.llama_memory_clear(self._memory, True)
        self.held = []

    def close(self) -> None:
        """Free the context. Closing twice is harmless."""
        if self.context:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self.context)
            self.context = None

    def _check(self, ids: IdArray) -> None:
        if len(ids) == 0:
            raise EngineError("The prompt is empty.", "A request needs at least one token.")
        if len(ids) >= self.n_ctx:
            raise ContextOverflow(
                f"The prompt has {len(ids):,} tokens; the context holds {self.n_ctx:,}.",
                "Raise the context size (n_ctx), or use shorter episodes.",
            )
        wrong = ids[(ids < 0) | (ids >= self._model.n_vocab)]
        if len(wrong):
            raise EngineError(f"The prompt holds id {wrong[0]}, beyond this model's {self._model.n_vocab:,} tokens.")

    def _keep_prefix(self, prompt: IdArray) -> Tally:
        """Rewind to the longest common prefix, less one token where the prompt ends in it."""
        tally = Tally(held_before=len(self.held), begin=time.monotonic())
        tally.expect_end(len(self.held), self._pos_max(), "before the request")
        keep = min(shared_length(as_ids(self.held), prompt), len(prompt) - 1)
        if keep < len(self.held):
            pos_min = self._pos_min()
            if keep and not (
                rewind_is_honoured(pos_min, keep, self._model.n_swa)
                and llama_cpp.llama_memory_seq_rm(self._memory, 0, keep, -1)
            ):
                tally.note = (
                    f"The model's memory cannot go back to {keep:,} tokens (its entries start at position "
                    f"{pos_min:,}): the prompt was evaluated from the start."
                )
                keep = 0
            if keep == 0:
                self.clear()
            self.held = self.held[:keep]
            tally.expect_end(keep, self._pos_max(), "after the rewind")
        tally.cached = keep
        return tally

    def _answer(
        self, request: GenerateRequest, sampler: LlamaSampler, tally: Tally, stopped: Callable[[], bool]
    ) -> Generator[RawStep, None, str]:
        """Steps from the last evaluated token on; returns the finish reason. The last step is not evaluated."""
        for count in range(1, request.max_tokens + 1):
            if stopped():
                return "cancelled"
            step = self._choose(sampler, request.rivals)
            tally.first_step = tally.first_step or time.monotonic()
            yield step
            if step[0] in self._model.eog_ids:
                return "stop"
            if count == request.max_tokens or len(self.held) == self.n_ctx:
                break
            self._evaluate([step[0]], logits=True)
            tally.decoded += 1
        return "length"

    def _choose(self, sampler: LlamaSampler, rivals: int) -> RawStep:
        distribution = Distribution(self._last_logits(), self._scratch)
        ids = distribution.largest(max(1, rivals))
        token_id = ids[0] if sampler.greedy else sampler.sample(self.context)
        logprobs = [distribution.logprob(rival) for rival in ids]
        return token_id, distribution.logprob(token_id), ids[:rivals], logprobs[:rivals]

    def _last_logits(self) -> NDArray[np.float32]:
        """The last evaluated token's row: a view of llama.cpp's buffer, which the next evaluation overwrites."""
        pointer = llama_cpp.llama_get_logits_ith(self.context, -1)
        address = ctypes.addressof(pointer.contents)
        if address != self._logits_address:
            self._logits = np.ctypeslib.as_array(pointer, (self._model.n_vocab,))
            self._logits_address = address
        return self._logits

    def _evaluate(self, ids: list[int], *, logits: bool) -> None:
        """One llama_decode of at most n_ubatch tokens: exactly one chunk. `logits` asks for the last token's."""
        batch, start = self._batch, len(self.held)
        batch.n_tokens = len(ids)
        for slot, token_id in enumerate(ids):
            batch.token[slot], batch.pos[slot], batch.logits[slot] = token_id, start + slot, 0
        batch.logits[len(ids) - 1] = logits
        code = llama_cpp.llama_decode(self.context, batch)
        # Without this, llama.cpp counts two decodes as one, and a single token as part of a prefill.
        llama_cpp.llama_synchronize(self.context)
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

    def _pos_min(self) -> int:
        return int(llama_cpp.llama_memory_seq_pos_min(self._memory, 0))

    def _pos_max(self) -> int:
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, 0))

    def _report(self, tally: Tally, finish_reason: str) -> RequestReport:
        perf = llama_cpp.llama_perf_context(self.context)
        counters = Counters(int(perf.n_p_eval), int(perf.n_eval), self._pos_max())
        return tally.report(finish_reason, len(self.held), counters, time.monotonic())
