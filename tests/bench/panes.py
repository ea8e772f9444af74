"""How fast the token panes open and scroll: `python -m tests.bench.panes`. Prints one line a figure."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.trajectory.episode import Message, ToolCall, ToolResult
from app.trajectory.pair import Fork, ForkKind, ForkSide
from app.trajectory.step import StepBlock, as_ids
from app.trajectory.trajectory import Path, Prompt, Request, RequestReport, Span, Trajectory
from app.views.pane_pair import PanePair
from app.views.theme import DARK
from tests.builders import trajectory

OPENED_BAR_MS = 150.0
"""Layout and first paint; loading has the rest of the 300 ms that a pair may take from file to screen."""
UNFOLDED_BAR_MS = 500.0
FRAME_BAR_MS = 16.7
SIZE = (1180, 760)


def big_pair(steps: int = 100_000, steps_each: int = 64, rivals: int = 5) -> tuple[Trajectory, Trajectory, Fork]:
    """A pair of `steps` steps a side over a vocabulary of 8,000 made-up pieces, forked at its middle."""
    rng = np.random.default_rng(11)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(1, 9))) for _ in range(8000)]
    vocabulary = [f" {word}".encode() for word in words[:7900]] + [f"é{word}".encode() for word in words[7900:]]
    ids = rng.integers(0, len(vocabulary), steps)
    logprobs = -np.sort(rng.gamma(1.2, 2.0, (steps, rivals)).astype(np.float32), axis=1)
    fork_request, fork_step = steps // steps_each // 2, steps_each // 3
    sides = {}
    for path in Path:
        own = ids.copy()
        if path is Path.CACHED:
            own[fork_request * steps_each + fork_step :] += 1
            own %= len(vocabulary)
        requests = [
            _request(number, own[start : start + steps_each], logprobs[start : start + steps_each], vocabulary)
            for number, start in enumerate(range(0, steps, steps_each))
        ]
        sides[path] = trajectory(requests, path=path, id=1 + (path is Path.RECOMPUTE))
    side = ForkSide(1, b" a", -0.7, 0.04)
    fork = Fork(ForkKind.TOKEN, fork_request, fork_step, side, side)
    return sides[Path.CACHED], sides[Path.RECOMPUTE], fork


def _request(index: int, ids: np.ndarray, logprobs: np.ndarray, vocabulary: list[bytes]) -> Request:
    pieces = [vocabulary[token] for token in ids]
    steps = StepBlock(
        token_ids=as_ids(ids.astype(np.int32)),
        logprobs=logprobs[:, 0].copy(),
        rival_ids=np.repeat(ids[:, None], logprobs.shape[1], axis=1).astype(np.int32),
        rival_logprobs=logprobs,
        piece_bytes=b"".join(pieces),
        piece_ends=np.cumsum([len(piece) for piece in pieces], dtype=np.int32),
    )
    result = ToolResult("find_events", '{"id": 7, "title": "review", "day": "Tuesday"}' * 4 + str(index), True)
    return Request(
        index=index,
        prompt=Prompt(as_ids(range(400)), index, (Message("tool", result.text), Message("user", "And the next one?"))),
        steps=steps,
        report=RequestReport(360, 40, (40,), "stop"),
        calls=(ToolCall("find_events", {"day": "Tuesday"}, "{}"),),
        results=(result,),
        spans=(
            Span(0, 300, "prefill", "made r1", 300),
            Span(300, 60, "decode", "made r1"),
            Span(360, 40, "prefill", ""),
        ),
    )


def timed_ms(act: Callable[[], object]) -> float:
    """Milliseconds that an action and the paints it asks for take."""
    start = time.perf_counter()
    act()
    QApplication.processEvents()
    return (time.perf_counter() - start) * 1000


def measure() -> dict[str, float]:
    """Milliseconds: a pair opened to painted, everything unfolded, and the 95th percentile of scroll frames."""
    application = QApplication.instance() or QApplication([])
    cached, recompute, fork = big_pair()
    panes = PanePair(DARK)
    panes.resize(*SIZE)
    panes.show()
    application.processEvents()
    found = {"opened_ms": timed_ms(lambda: panes.show_pair(cached, recompute, fork, {}))}
    found["unfolded_ms"] = timed_ms(panes.unfold_all)
    bar = panes.panes[Path.CACHED].verticalScrollBar()
    frames = [timed_ms(lambda: bar.setValue(bar.value() + 90)) for _ in range(300)]
    found["frame_p95_ms"] = float(np.percentile(frames, 95))
    jumps = [timed_ms(partial(bar.setValue, number * bar.maximum() // 100)) for number in range(100)]
    found["jump_p95_ms"] = float(np.percentile(jumps, 95))
    found["folded_ms"] = timed_ms(panes.fold_all)
    small = big_pair(steps=600)
    found["next_pair_ms"] = timed_ms(lambda: panes.show_pair(*small, {}))
    panes.close()
    return found


def main() -> int:
    """Print the figures; 1 where one is over its bar."""
    found = measure()
    bars = {"opened_ms": OPENED_BAR_MS, "unfolded_ms": UNFOLDED_BAR_MS, "frame_p95_ms": FRAME_BAR_MS}
    for name, value in found.items():
        bar = bars.get(name)
        print(f"{name:14} {value:8.1f}" + (f"   bar {bar:.1f}" if bar else ""))
    return int(any(found[name] > bar for name, bar in bars.items()))


if __name__ == "__main__":
    sys.exit(main())
