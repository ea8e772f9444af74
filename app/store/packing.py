"""Steps and prompts as the blobs that a row holds, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.trajectory.step import NO_ID, IdArray, LogprobArray, StepBlock, as_ids

STEP_COLUMNS = ("token_ids", "logprobs", "rivals", "rival_ids", "rival_logprobs", "piece_bytes", "piece_ends")
"""The columns of `requests` and `open_steps` that hold a StepBlock, in the order of `pack_steps`."""

REPORT_COLUMNS = (
    *("cached_tokens", "evaluated_tokens", "chunks", "finish_reason", "held_before", "slot", "first_token_ms"),
    *("prefill_ms", "decode_ms", "checks", "problem", "note", "raw_request", "raw_response"),
)
"""The columns of `requests` that hold a RequestReport, named and ordered as its fields are."""

StepRow = tuple[bytes, bytes, int, bytes, bytes, bytes, bytes]


def pack_ids(ids: IdArray) -> bytes:
    """Token ids as i4."""
    return ids.astype("<i4", copy=False).tobytes()


def unpack_ids(blob: bytes) -> IdArray:
    """The ids that `pack_ids` packed, read-only."""
    return np.frombuffer(blob, "<i4")


def pack_steps(block: StepBlock) -> StepRow:
    """A block as the values of STEP_COLUMNS."""
    return (
        pack_ids(block.token_ids),
        block.logprobs.astype("<f4", copy=False).tobytes(),
        block.rival_ids.shape[1],
        pack_ids(block.rival_ids),
        block.rival_logprobs.astype("<f4", copy=False).tobytes(),
        block.piece_bytes,
        pack_ids(block.piece_ends),
    )


def unpack_steps(row: StepRow) -> StepBlock:
    """The block that `pack_steps` packed; its arrays are read-only. Raises ValueError where the blobs do not fit."""
    token_ids, logprobs, rivals, rival_ids, rival_logprobs, piece_bytes, piece_ends = row
    count = len(token_ids) // 4
    if not len(token_ids) == len(logprobs) == len(piece_ends):
        raise ValueError("the columns of a request's steps differ in length")
    ends = np.frombuffer(piece_ends, "<i4")
    if (int(ends[-1]) if count else 0) != len(piece_bytes):
        raise ValueError("the pieces of a request do not fill their bytes")
    return StepBlock(
        np.frombuffer(token_ids, "<i4"),
        np.frombuffer(logprobs, "<f4"),
        np.frombuffer(rival_ids, "<i4").reshape(count, rivals),
        np.frombuffer(rival_logprobs, "<f4").reshape(count, rivals),
        piece_bytes,
        ends,
    )


def join(blocks: Sequence[StepBlock]) -> StepBlock:
    """Blocks end to end; the narrower ones get empty rival columns."""
    if len(blocks) < 2:
        return blocks[0] if blocks else StepBlock.empty()
    width = max(block.rival_ids.shape[1] for block in blocks)
    rival_ids, rival_logprobs = zip(*(_widen(block, width) for block in blocks), strict=True)
    piece_starts = np.cumsum([0, *(len(block.piece_bytes) for block in blocks[:-1])])
    return StepBlock(
        np.concatenate([block.token_ids for block in blocks]),
        np.concatenate([block.logprobs for block in blocks]),
        np.concatenate(rival_ids),
        np.concatenate(rival_logprobs),
        b"".join(block.piece_bytes for block in blocks),
        as_ids(np.concatenate([b.piece_ends + start for b, start in zip(blocks, piece_starts, strict=True)])),
    )


def rebuild_prompts(stored: Sequence[tuple[int, IdArray, IdArray]]) -> list[IdArray]:
    """The prompts of a trajectory from (shared_ids, new_ids, answer ids) of its requests in order.

    Prompts that continue each other are views of one array, so 1,600 requests growing to 100,000 tokens take the
    memory of one prompt. Raises ValueError where a request shares more than there was before it.
    """
    prompts: list[IdArray] = []
    parts: list[IdArray] = []
    sizes: list[int] = []
    total = 0
    for shared, new_ids, answer in stored:
        if not 0 <= shared <= total:
            raise ValueError("a prompt shares more than there was before it")
        if shared < total:
            whole = np.concatenate(parts)
            prompts += [whole[:size] for size in sizes]
            parts, sizes = [whole[:shared]], []
        parts += [new_ids, answer]
        sizes.append(shared + len(new_ids))
        total = sizes[-1] + len(answer)
    whole = np.concatenate(parts) if parts else np.empty(0, np.int32)
    return prompts + [whole[:size] for size in sizes]


def _widen(block: StepBlock, width: int) -> tuple[IdArray, LogprobArray]:
    missing = ((0, 0), (0, width - block.rival_ids.shape[1]))
    return (
        np.pad(block.rival_ids, missing, constant_values=NO_ID),
        np.pad(block.rival_logprobs, missing, constant_values=np.nan),
    )
