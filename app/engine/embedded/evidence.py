"""What one request did to a llama.cpp memory, held against llama.cpp's own counters: evidence, not claims."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.trajectory.trajectory import RequestReport


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


@dataclass(frozen=True, slots=True)
class Counters:
    """llama.cpp's own: prompt and single tokens evaluated since the request came, and the memory's last position."""

    n_p_eval: int
    n_eval: int
    pos_max: int


@dataclass
class Tally:
    """One request as the state saw it. Counts are tokens, times seconds of the monotonic clock."""

    held_before: int
    begin: float
    cached: int = 0
    chunks: list[int] = field(default_factory=list)
    decoded: int = 0
    prefilled: float | None = None
    first_step: float | None = None
    note: str | None = None
    problems: list[str] = field(default_factory=list)

    def expect_end(self, held: int, pos_max: int, when: str) -> None:
        """Note a problem where a memory that should hold `held` tokens ends at another position."""
        if pos_max != held - 1:
            self.problems.append(f"llama.cpp's memory ends at position {pos_max} {when}, {held - 1} was expected")

    def report(self, finish_reason: str, held: int, counters: Counters, end: float) -> RequestReport:
        """The request's report, with a problem where the counters contradict the counts."""
        self.expect_end(held, counters.pos_max, "after the request")
        # llama.cpp counts chunks of one token as decoded, and never reports less than one of either.
        prompt = sum(size for size in self.chunks if size > 1)
        single = self.chunks.count(1) + self.decoded
        for name, counted, expected in (("n_p_eval", counters.n_p_eval, prompt), ("n_eval", counters.n_eval, single)):
            if counted != max(1, expected):
                self.problems.append(f"llama.cpp counted {name} = {counted}, {expected} was expected")
        return RequestReport(
            cached_tokens=self.cached,
            evaluated_tokens=sum(self.chunks),
            chunks=tuple(self.chunks),
            finish_reason=finish_reason,
            held_before=self.held_before,
            first_token_ms=_milliseconds(self.begin, self.first_step),
            prefill_ms=_milliseconds(self.begin, self.prefilled),
            decode_ms=_milliseconds(self.first_step, end),
            checks={"n_p_eval": counters.n_p_eval, "n_eval": counters.n_eval, "pos_max": counters.pos_max},
            problem="; ".join(self.problems) + "." if self.problems else None,
            note=self.note,
        )


def _milliseconds(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else (end - start) * 1000
