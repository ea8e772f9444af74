"""What one request to a llama-server found in its slot: the server's counts against what the slot should have held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.base import EngineInfo
from app.engine.llama_server.gaps import SLOT
from app.engine.llama_server.shape import Completion


class Evidence:
    """One answer's counts against what the slot should have held: `expected` tokens of a prompt of `total`."""

    def __init__(self, answer: Completion, expected: int, total: int, info: EngineInfo, *, caching: bool) -> None:
        self._answer = answer
        self._expected = expected
        self._total = total
        self._caching = caching
        self._eog_ids = info.eog_ids
        self._may_rewind = not (info.model.get("n_swa") or info.model.get("recurrent"))
        self._n_ctx = info.n_ctx

    @property
    def ended_itself(self) -> bool:
        """Whether the model ended the answer, by the server's word or by the last id."""
        return self._answer.stop_type == "eos" or self._answer.ids[-1] in self._eog_ids

    def checks(self) -> dict[str, int]:
        """The server's own numbers in which contradictions were looked for."""
        answer = self._answer
        counts = {
            "cache_n": answer.cached,
            "prompt_n": answer.evaluated,
            "tokens_evaluated": answer.prompt,
            "tokens_predicted": answer.predicted,
            "tokens_cached": answer.left,
            "cache_n_expected": self._expected,
        }
        return {name: count for name, count in counts.items() if count is not None}

    def problem(self, changed: str | None) -> str | None:
        """All that contradicts, as one sentence, and `changed` where another server may have answered."""
        return _sentence([*self._problems(), *([changed] if changed else [])])

    def note(self) -> str | None:
        """What a reader must know, as one sentence."""
        return _sentence(list(self._notes()))

    def _problems(self) -> Iterator[str]:
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
        left = self._total + len(answer.ids) - 1  # the last token was sampled and not evaluated
        # Of a draft, more may have been evaluated than was returned.
        if answer.left is not None and (answer.left < left or (answer.left > left and not answer.drafted)):
            yield (
                f"the slot held {answer.left} tokens at the end of the answer instead of {left}: another request was "
                "let into it meanwhile, and what was sampled since rests on other tokens"
            )
        if answer.slot not in (None, SLOT):
            yield f"slot {answer.slot} answered instead of slot {SLOT}"
        if answer.stray:
            yield "the probability entries are of other tokens than were sampled"
        if self._total + len(answer.ids) > self._n_ctx:
            yield f"the answer is longer than the context of {self._n_ctx} tokens: the server dropped a part of it"
        if answer.stop_type == "eos" and answer.ids[-1] not in self._eog_ids:
            yield f"the server ended at token {answer.ids[-1]}, which is none of its end tokens"

    def _notes(self) -> Iterator[str]:
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


def _sentence(parts: Sequence[str]) -> str | None:
    return f"{'; '.join(parts)}." if parts else None
