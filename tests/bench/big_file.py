"""A file of pairs of ordinary size and one of 2 x 100,000 steps, written by the product's own recorder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path as FilePath

import numpy as np

from app.experiment.pairs import PairReader
from app.experiment.plans import RunRequest
from app.store.reader import Reader
from app.store.recorder import Recorder
from app.trajectory.episode import Message, Outcome, ToolCall, ToolResult
from app.trajectory.pair import NEAR_TIE_NATS
from app.trajectory.provenance import KvLedger
from app.trajectory.step import IdArray, LogprobArray, Rival, Step, as_ids
from app.trajectory.trajectory import Path, Prompt, RequestReport, Status

BIG = "big-00"
REQUESTS, STEPS = 1600, 100_000
SMALL_PAIRS, SMALL_REQUESTS, SMALL_STEPS = 20, 9, 400
RIVALS, FLUSH = 5, 64
N_UBATCH = 512
OPENING_TOKENS, ADDED_TOKENS = 300, 18


class _Words:
    """A made-up vocabulary of the default model's size: most pieces are words with a space, some are not ASCII."""

    def __init__(self, rng: np.random.Generator) -> None:
        letters = rng.integers(ord("a"), ord("z") + 1, (49_152, 8)).astype(np.uint8)
        sizes = rng.integers(1, 9, len(letters))
        rows = zip(letters, sizes, strict=True)
        self.pieces = [(b" " if n % 12 else "é".encode()) + row[:size].tobytes() for n, (row, size) in enumerate(rows)]

    def steps(self, ids: IdArray, logprobs: LogprobArray) -> list[Step]:
        pieces, offsets = self.pieces, (0, 1, 7, 31, 211)
        return [
            Step(
                token_id,
                row[0],
                pieces[token_id],
                tuple(
                    Rival(rival, value, pieces[rival])
                    for value, rival in zip(row, ((token_id + offset) % len(pieces) for offset in offsets), strict=True)
                ),
            )
            for token_id, row in zip(ids.tolist(), logprobs.tolist(), strict=True)
        ]

    def text(self, ids: IdArray) -> str:
        return b"".join(self.pieces[token_id] for token_id in ids.tolist()).decode()


def write_file(
    file: FilePath, *, with_big: bool, pairs: int = SMALL_PAIRS, size: tuple[int, int] = (SMALL_REQUESTS, SMALL_STEPS)
) -> None:
    """An experiment whose episodes all fork in their middle, the big one last; compared as a run does it.

    `size` is the number of requests and of steps of an ordinary episode on one path.
    """
    words = _Words(np.random.default_rng(11))
    names = [f"small-{number:02}" for number in range(1, pairs + 1)] + [BIG] * with_big
    with closing(Recorder(file)) as recorder:
        plan = asdict(RunRequest(rivals=RIVALS)) | {"kind": "pair", "episode_ids": names}
        experiment = recorder.add_experiment("bench", plan, {"engine": "embedded", "settings": {"n_ubatch": N_UBATCH}})
        for path in Path:
            pass_id = recorder.add_pass(experiment, path, 1, names, {"n_ubatch": N_UBATCH})
            for seed, name in enumerate(names):
                sizes = (REQUESTS, STEPS) if name == BIG else size
                _record(recorder, pass_id, name, path, words, np.random.default_rng(seed), *sizes)
            recorder.finish_pass(pass_id, Status.DONE, True, ())
        recorder.finish_experiment(experiment, Status.DONE)
        with closing(Reader(file)) as reader:
            compared = PairReader(reader, reader.experiments()[0], NEAR_TIE_NATS)
            for name in names:
                compared.refresh(name, recorder)


def _record(
    recorder: Recorder, pass_id: int, name: str, path: Path, words: _Words, rng: np.random.Generator, requests: int,
    steps: int,
) -> None:  # fmt: skip
    """One trajectory whose prompts grow with its answers and tool results, as a conversation's do."""
    trajectory_id = recorder.start_trajectory(pass_id, name, name.split("-")[0])
    ledger, context = KvLedger(), as_ids(())
    for index, (ids, logprobs) in enumerate(_answers(rng, path, requests, steps)):
        added_ids = as_ids(rng.integers(0, len(words.pieces), ADDED_TOKENS if index else OPENING_TOKENS))
        prompt = np.concatenate([context, added_ids])
        cached = max(0, len(context) - 1) if path is Path.CACHED else 0
        full, rest = divmod(len(prompt) - cached, N_UBATCH)
        chunks = (N_UBATCH,) * full + ((rest,) if rest else ())
        if path is Path.RECOMPUTE:
            ledger = KvLedger()
        spans = ledger.take(f"{name} r{index + 1}", prompt, cached, chunks, ids)
        user = (Message("user", words.text(added_ids)),)
        added = user if index % 3 == 0 else (Message("tool", words.text(added_ids), "list_events"),)
        recorder.start_request(trajectory_id, index, Prompt(prompt, index // 3, added))
        taken = words.steps(ids, logprobs)
        for start in range(0, len(taken), FLUSH):
            recorder.append(trajectory_id, index, taken[start : start + FLUSH])
        arguments = {"day": "Tuesday", "calendar": "work", "hour": index % 24}
        raw = json.dumps({"tool": "list_events", "arguments": arguments})
        result = json.dumps({"status": "ok", "events": [{"id": index, "title": "review", "hour": index % 24}]})
        checks = {"n_p_eval": len(prompt) - cached, "n_eval": len(ids) - 1, "seq_pos_max": len(prompt) + len(ids) - 2}
        report = RequestReport(cached, len(prompt) - cached, chunks, "stop", len(context), None, 120.5, 118.25, 940.125,
                               checks)  # fmt: skip
        calls = (ToolCall("list_events", arguments, raw),)
        recorder.finish_request(trajectory_id, index, report, calls, (ToolResult("list_events", result, True),), spans)
        context = np.concatenate([prompt, ids])
    recorder.finish_trajectory(trajectory_id, Status.DONE, Outcome("reached" if path is Path.CACHED else "missed"))


def _answers(rng: np.random.Generator, path: Path, requests: int, steps: int) -> Iterator[tuple[IdArray, LogprobArray]]:
    """Ids and rivals' logprobs of every answer; both paths draw the same, until the cached one goes its own way."""
    for index, ids in enumerate(np.array_split(rng.zipf(1.3, steps) % 49_152, requests)):
        logprobs = -np.cumsum(rng.gamma(1.2, 1.0, (len(ids), RIVALS)), axis=1)
        if path is Path.CACHED:
            logprobs -= 1e-3 * np.abs(np.sin(np.arange(len(ids))))[:, None]
            if index >= requests // 2:
                ids[len(ids) // 2 :] = (ids[len(ids) // 2 :] + 1) % 49_152
        yield as_ids(ids), logprobs.astype(np.float32)
