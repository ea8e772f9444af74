"""Recording against a bare table, and what steps and prompts take on disk: `python -m tests.bench.recording`.

The speed's reference is `executemany` into one table without keys, types or indexes: of each step one row with the same
bytes (ids, logprobs, rivals, piece), packed before the clock starts, 64 rows to a commit, the same journal mode and
flushing. The recorder is handed `Step` objects and does all of its work: it packs them, keeps the steps in flight
apart, writes each request's prompt, report, calls, results and spans, and packs its row.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from itertools import product
from pathlib import Path as FilePath
from typing import NamedTuple

import numpy as np

from app.store.packing import pack_steps
from app.store.recorder import Recorder
from app.trajectory.episode import Message, Outcome, ToolCall, ToolResult
from app.trajectory.provenance import KvLedger
from app.trajectory.step import Step, StepBlock, as_ids
from app.trajectory.trajectory import Path, Prompt, RequestReport, Span, Status
from tests.builders import step

BLOCKS = 10
EPISODES, REQUESTS, BATCH = 4, 15, 64
SPEED_BAR, STEP_BYTES_BAR, PROMPT_BAR = 0.5, 120.0, 1.5
TEXT = '{"status": "ok", "events": [{"id": 7, "title": "review", "hour": 13}, {"id": 9, "title": "lunch", "hour": 12}]}'
ARGUMENTS = {"day": "Tuesday", "calendar": "work"}
CALL = ToolCall(
    "list_events", ARGUMENTS, '{"tool": "list_events", "arguments": {"day": "Tuesday", "calendar": "work"}}'
)
RAW_REQUEST = (
    '{"id_slot": 0, "cache_prompt": true, "n_predict": 64, "stream": true, "temperature": 0.0, "top_k": 1, '
    '"n_probs": 5, "post_sampling_probs": false, "return_tokens": true, "timings_per_token": false}'
)
RAW_RESPONSE = (
    '{"index": 0, "id_slot": 0, "stop": true, "model": "SmolLM2-135M-Instruct-Q4_1.gguf", "tokens_predicted": 64, '
    '"tokens_evaluated": 1214, "truncated": false, "stop_type": "limit", "stopping_word": "", "tokens_cached": 1277, '
    '"timings": {"cache_n": 1093, "prompt_n": 121, "prompt_ms": 812.52, "prompt_per_token_ms": 6.715, '
    '"prompt_per_second": 148.919, "predicted_n": 64, "predicted_ms": 1031.4, "predicted_per_second": 62.05}}'
)
"""A server's bodies without the ids and per-token arrays, which are held already."""
RESULT, ADDED = ToolResult("list_events", TEXT, True), Message("tool", TEXT, "list_events")


class Prepared(NamedTuple):
    """All that a run tells the recorder of one request."""

    prompt: Prompt
    batches: list[list[Step]]
    report: RequestReport
    spans: tuple[Span, ...]


def prepare(episodes: int, steps: int, added_tokens: int = 120) -> list[list[Prepared]]:
    """Made-up episodes on the cached path: each prompt goes on with `added_tokens` new tokens."""
    rng = np.random.default_rng(1)
    made: list[list[Prepared]] = []
    for episode in range(episodes):
        ledger, context = KvLedger(), as_ids(())
        made.append([])
        for index in range(REQUESTS):
            ids = as_ids(rng.zipf(1.3, steps) % 49_152)  # tokens repeat as words do, so most pieces are known already
            answer = [step(id) for id in ids.tolist()]
            prompt = as_ids(np.concatenate([context, rng.integers(0, 49_152, added_tokens)]))
            cached = max(0, len(context) - 1)
            chunks = (len(prompt) - cached,)
            spans = ledger.take(f"bench-{episode} r{index + 1}", prompt, cached, chunks, ids)
            checks = {"n_p_eval": chunks[0], "n_eval": steps - 1, "seq_pos_max": len(prompt) + steps - 2}
            times = (120.5, 118.25, 940.1)
            bodies = (RAW_REQUEST, RAW_RESPONSE)
            report = RequestReport(
                cached, *(chunks[0], chunks, "stop", len(context), None, *times), checks, None, None, *bodies
            )
            batches = [answer[start : start + BATCH] for start in range(0, steps, BATCH)]
            made[-1].append(Prepared(Prompt(prompt, index, (ADDED,)), batches, report, spans))
            context = np.concatenate([prompt, ids])
    return made


def record(recorder: Recorder, experiment_id: int, episodes: list[list[Prepared]]) -> None:
    """One pass of these episodes, as a run records it."""
    pass_id = recorder.add_pass(experiment_id, Path.CACHED, 1, [], {})
    for number, requests in enumerate(episodes):
        trajectory_id = recorder.start_trajectory(pass_id, f"bench-{number}", "bench")
        for index, request in enumerate(requests):
            recorder.start_request(trajectory_id, index, request.prompt)
            for batch in request.batches:
                recorder.append(trajectory_id, index, batch)
            recorder.finish_request(trajectory_id, index, request.report, (CALL,), (RESULT,), request.spans)
        recorder.finish_trajectory(trajectory_id, Status.DONE, Outcome("reached"))


def speed(folder: FilePath) -> tuple[float, float, float]:
    """Median, least and greatest ratio of steps a second, recorder over the bare table, over BLOCKS pairs of blocks."""
    episodes = prepare(EPISODES, BATCH)
    packed = [
        [pack_steps(StepBlock.pack([step])) for step in batch]
        for requests in episodes
        for request in requests
        for batch in request.batches
    ]
    recorder = Recorder(folder / "speed.forkpoint")
    experiment_id = recorder.add_experiment("bench", {}, {})
    ratios = []
    with closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as bare:
        bare.execute("PRAGMA journal_mode=WAL")
        bare.execute("PRAGMA synchronous=NORMAL")
        bare.execute("CREATE TABLE bare (token_id, logprob, k, rival_ids, rival_logprobs, piece, piece_end)")
        for _ in range(BLOCKS):
            began = time.perf_counter()
            for rows in packed:
                bare.execute("BEGIN")
                bare.executemany("INSERT INTO bare VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
                bare.execute("COMMIT")
            between = time.perf_counter()
            record(recorder, experiment_id, episodes)
            ratios.append((between - began) / (time.perf_counter() - between))
    recorder.close()
    return statistics.median(ratios), min(ratios), max(ratios)


def bytes_a_step(folder: FilePath) -> float:
    """Size of a closed file over its steps: prompts, reports, tool texts, spans, indexes and all."""
    file = folder / "size.forkpoint"
    with closing(Recorder(file)) as recorder:
        record(recorder, recorder.add_experiment("bench", {}, {}), prepare(40, BATCH))
    return file.stat().st_size / (40 * REQUESTS * BATCH)


def prompts_on_disk(folder: FilePath) -> float:
    """How much larger a file is for its prompts, over 4 bytes for each token that is new in its prompt.

    Episodes of 15 requests growing to 7,000 tokens, against the same requests with nothing new in their prompts; with
    short and long answers, because how well a row fills its page depends on all of it.
    """
    sizes = {450: 0, 0: 0}
    answers = range(8, BATCH + 1, 8)
    for steps, added_tokens in product(answers, sizes):
        file = folder / f"prompts-{steps}-{added_tokens}.forkpoint"
        with closing(Recorder(file)) as recorder:
            record(recorder, recorder.add_experiment("bench", {}, {}), prepare(4, steps, added_tokens))
        sizes[added_tokens] += file.stat().st_size
    return (sizes[450] - sizes[0]) / (4 * 450 * REQUESTS * 4 * len(answers))


def main() -> bool:
    """Print the figures; returns whether every bar is met."""
    with tempfile.TemporaryDirectory() as name:
        folder = FilePath(name)
        ratio, least, greatest = speed(folder)
        print(f"recording: {ratio:.2f} of a bare table's speed (bar >= {SPEED_BAR}), {least:.2f} to {greatest:.2f}")
        step_bytes = bytes_a_step(folder)
        print(f"on disk: {step_bytes:.1f} bytes a step, everything included (bar <= {STEP_BYTES_BAR:.0f})")
        prompts = prompts_on_disk(folder)
        print(f"prompts on disk: {prompts:.2f} x the bytes of their new tokens (bar <= {PROMPT_BAR})")
    return ratio >= SPEED_BAR and step_bytes <= STEP_BYTES_BAR and prompts <= PROMPT_BAR


if __name__ == "__main__":
    sys.exit(not main())
