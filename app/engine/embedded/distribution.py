"""From a row of logits to logprobs and rivals: one definition for every path."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from app.errors import EngineError

_BLOCK = 64
"""Logits are scanned in blocks of this many to find the k largest without sorting the vocabulary."""


class Distribution:
    """The unfiltered softmax over one row of logits, float32 [n_vocab], which may be a view that changes later.

    Logprobs are in nats, float32: float32 exponentials, summed in float64 (DESIGN 3). Raises EngineError where the
    row holds no finite maximum (NaN or infinity). `scratch`, of the row's shape, spares a fresh page-faulting buffer
    at every step.
    """

    def __init__(self, logits: NDArray[np.float32], scratch: NDArray[np.float32] | None = None) -> None:
        self._logits = logits
        best = logits.max()  # NaN anywhere makes this NaN
        if not math.isfinite(best):
            raise EngineError(
                "The model's output is not a number.",
                "Its weights may be damaged, or this build cannot compute them: compare the file's SHA-256.",
            )
        exponentials = np.subtract(logits, best, out=scratch)
        np.exp(exponentials, out=exponentials)
        self._log_total = float(best) + math.log(exponentials.sum(dtype=np.float64))

    def logprob(self, token_id: int) -> float:
        """Log-probability of `token_id` in nats, rounded to float32."""
        return float(np.float32(float(self._logits[token_id]) - self._log_total))

    def largest(self, k: int) -> list[int]:
        """The k most probable ids, falling; the lower id first where logits are exactly equal."""
        k = min(k, len(self._logits))
        if k < 1:
            return []
        # At least k logits reach the k-th largest block maximum, so that no member of the top k is below it.
        blocks = np.maximum.reduceat(self._logits, np.arange(0, len(self._logits), _BLOCK))
        threshold = np.partition(blocks, -k)[-k] if len(blocks) >= k else -np.inf
        candidates = np.flatnonzero(self._logits >= threshold)
        order = np.argsort(-self._logits[candidates], kind="stable")[:k]
        return [int(token_id) for token_id in candidates[order]]
