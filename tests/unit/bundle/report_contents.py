"""Bundle contents made of small made-up pairs, for the tests of both reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.bundle.format import BundleContents, PairPart
from app.diagnosis.verdict import judge
from app.trajectory.compare import compare
from app.trajectory.episode import Message
from app.trajectory.pair import NoiseFloor, Pair, Repeats
from app.trajectory.reproducer import WarmUp
from app.trajectory.step import as_ids
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Path, Status, Trajectory
from tests.builders import forked_pair_of_trajectories, request, step, trajectory

HOSTILE = (
    "<script>alert('MINE')</script>|`MINE` @MINE #7 ![x](http://MINE.example)\x1b[31m\u202eMINE</pre></code>-->```"
)
"""What a model may write; MINE must never stand where it could act."""

ENVIRONMENT: dict[str, Any] = {
    "engine": "embedded",
    "build": {"bindings": "llama-cpp-python 0.3.36", "ggml_commit": "0c1e570", "gpu_offload": False, "cpu": "AMD EPYC",
              "os": "Linux-6.18-x86_64"},
    "model": {"name": "small.gguf", "size_bytes": 98362432, "sha256": "b179c9", "tensor_types": {"Q4_1": 210}},
    "settings": {"n_ctx": 4096, "n_ubatch": 512, "gpu_layers": 0},
    "gaps": [{"what": "slot", "why": "has none"}],
}  # fmt: skip

PLAN: dict[str, Any] = {
    "sampling": {"temperature": 0.0, "top_k": 40, "top_p": 0.95, "seed": 42},
    "max_tokens": 64, "rivals": 5, "episode_ids": ["made-00"],
}  # fmt: skip


def pair_of(cached: Trajectory, recompute: Trajectory, near_tie: float = 0.1) -> Pair:
    """Two trajectories, compared and judged as the product does."""
    noise = NoiseFloor(0.061, 4321)
    comparison = compare(
        cached, recompute, near_tie=near_tie, repeats={"cached": Repeats(2, True), "recompute": Repeats(2, True)}
    )
    verdict = judge(comparison, cached, recompute, noise, near_tie=near_tie)
    pieces = {
        int(step.token_ids[n]): step.piece(n)
        for side in (cached, recompute)
        for step in (request.steps for request in side.requests)
        for n in range(len(step))
    }
    return Pair(cached, recompute, comparison, verdict, noise, pieces)


def part_of(pair: Pair, note: str = "", log: str = "") -> PairPart:
    """The pair with a warm-up request before it."""
    episodes = (pair.comparison.episode_id,)
    passes = [PassInfo(n, 1, path, 1, Status.DONE, episodes, True) for n, path in enumerate(Path, start=1)]
    warm_up = WarmUp("earlier-00 r1", as_ids(range(30)), as_ids(range(5)), 5, 0)
    return PairPart(pair, passes[0], passes[1], (warm_up,), note, log)


def contents_of(*parts: PairPart, environment: dict[str, Any] = ENVIRONMENT, **more: Any) -> BundleContents:
    """A bundle of these pairs; `more` are other fields of BundleContents."""
    info = ExperimentInfo(1, "pair", "2026-11-30T01:20:00Z", Status.DONE, PLAN, environment)
    return BundleContents("2026-11-30T01:30:00Z", "0.2.0", info, parts, 0.1, **more)


def forked(**shape: int) -> Pair:
    """A pair that forks at 3:17 unless told otherwise."""
    return pair_of(*forked_pair_of_trajectories(**shape))


def hostile_contents() -> BundleContents:
    """A forked pair in which every text of the model, the engine and the person is HOSTILE."""
    piece = HOSTILE.encode()
    sides = []
    for path, chosen in ((Path.CACHED, 7), (Path.RECOMPUTE, 8)):
        steps = [
            step(5, piece=piece),
            step(chosen, 0.04, piece=piece + bytes([chosen + 48])),
            step(9, piece=b"\xe2\x80"),
        ]
        asked = request(0, range(20), steps, added=(Message("user", HOSTILE),), finish_reason=HOSTILE)
        sides.append(trajectory([asked], path=path, episode_id=HOSTILE, id=chosen))
    part = part_of(pair_of(sides[0], sides[1]), HOSTILE, HOSTILE)
    part = replace(part, history=(replace(part.history[0], writer=HOSTILE),))
    environment = {
        "engine": HOSTILE, HOSTILE: HOSTILE, "gaps": [{HOSTILE: HOSTILE}],
        "model": {"name": HOSTILE, "sha256": HOSTILE}, "build": {"os": HOSTILE, "cpu": HOSTILE, "version": HOSTILE},
    }  # fmt: skip
    answers = {"gpu": HOSTILE, "launch": HOSTILE, "link": HOSTILE}
    return contents_of(part, part, environment=environment, answers=answers, replay_log={HOSTILE: HOSTILE})


def of_every_kind() -> Sequence[Pair]:
    """A pair for each kind of first difference, one without, an open one and an empty one."""
    same = [step(5), step(6), step(7)]
    first = request(0, range(20), same)
    pairs = [
        ([request(0, [1, 2, 3], same)], [request(0, [1, 9, 3], same)]),
        ([request(0, range(20), same[:2])], [first]),
        ([first, request(1, range(40), same, cached=22)], [first]),
        ([first], [first]),
        ([], []),
    ]
    made = [
        pair_of(trajectory(left, path=Path.CACHED), trajectory(right, path=Path.RECOMPUTE, id=2))
        for left, right in pairs
    ]
    running = trajectory([first], path=Path.CACHED, status=Status.RUNNING)
    return [forked(), *made, pair_of(running, trajectory([], path=Path.RECOMPUTE, status=Status.RUNNING))]
