"""What a prefix cache of blocks can hold of one State."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from app.trajectory.step import IdArray


class BlockHistory:
    """Every whole block of every prompt and evaluated answer that a State asked for.

    A block is named by all ids up to its end; of a prompt the leading blocks that are known are found, and its last
    token is always evaluated again, so that a prompt of whole blocks gives its last one up: vLLM's rule
    (https://docs.vllm.ai/en/stable/design/prefix_caching/), and SGLang's with its page for a block. `block` is in
    tokens; 1 where the server does not tell.
    """

    def __init__(self, block: int) -> None:
        self._block = block
        self._known: set[bytes] = set()

    def add(self, ids: IdArray) -> None:
        """Ids int32 [n] that were evaluated from the start of a sequence."""
        self._known.update(self._names(ids))

    def most(self, prompt: IdArray) -> int:
        """The most tokens of `prompt` that the cache can give; fewer where something was evicted."""
        count = 0
        for name in self._names(prompt[:-1]):
            if name not in self._known:
                break
            count += self._block
        return count

    def _names(self, ids: IdArray) -> Iterator[bytes]:
        raw = np.ascontiguousarray(ids, dtype="<i4").tobytes()
        chain = hashlib.sha256()
        size = 4 * self._block
        for start in range(0, len(raw) - size + 1, size):
            chain.update(raw[start : start + size])
            yield chain.digest()
