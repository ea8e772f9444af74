"""Small made-up bundles: two pairs, one of them with a history, a note and a log."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path as FilePath

from app import __version__
from app.bundle.format import BundleContents, PairPart
from app.bundle.write import write_bundle
from app.diagnosis.verdict import judge
from app.trajectory.compare import compare
from app.trajectory.pair import NEAR_TIE_NATS, NoiseFloor, Pair, Repeats
from app.trajectory.reproducer import WarmUp
from app.trajectory.step import as_ids
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Path, Status, Trajectory
from tests.builders import WORDS, forked_pair_of_trajectories

NOISE = NoiseFloor(0.14, 1_200)
ENVIRONMENT = {
    "app": {"name": "forkpoint", "version": __version__},
    "engine": "embedded",
    "build": {"ggml_commit": "0c1e570", "os": "Linux", "cpu": "a cpu"},
    "model": {"name": "made.gguf", "size_bytes": 98_362_432, "sha256": "b1" * 32, "n_vocab": 49_152,
              "tokenizer_hash": "84" * 32, "chat_template": "{{ messages }}", "eos_token": "<|im_end|>"},
    "settings": {"n_ctx": 4096, "threads": 1},
}  # fmt: skip
PLAN = {
    "kind": "pair",
    "episode_ids": ["made-00", "made-01"],
    "sampling": {"temperature": 0.0, "top_k": 40, "top_p": 0.95, "seed": 42},
    "max_tokens": 64,
    "rivals": 5,
    "model": None,
}


def pair_of(cached: Trajectory, recompute: Trajectory) -> Pair:
    repeats = {"cached": Repeats(2, True), "recompute": Repeats(2, True)}
    comparison = compare(cached, recompute, repeats=repeats)
    verdict = judge(comparison, cached, recompute, NOISE, near_tie=NEAR_TIE_NATS)
    ids = {i for side in (cached, recompute) for r in side.requests for i in r.steps.rival_ids.ravel().tolist()}
    return Pair(cached, recompute, comparison, verdict, NOISE, {i: WORDS[i % len(WORDS)].encode() for i in ids})


def contents_of_two_pairs() -> BundleContents:
    parts = []
    for number in range(2):
        sides = forked_pair_of_trajectories(requests=3, steps_each=12, fork_request=1, fork_step=5, seed=number)
        cached, recompute = (
            replace(side, id=10 * number + side.id, pass_id=side.id, episode_id=f"made-0{number}") for side in sides
        )
        names = ("made-00", "made-01")
        parts.append(
            PairPart(
                pair_of(cached, recompute),
                PassInfo(1, 1, Path.CACHED, 1, Status.DONE, names, True, (), {"n_ctx": 4096}),
                PassInfo(2, 1, Path.RECOMPUTE, 1, Status.DONE, names, True, (), {"n_ctx": 4096}),
            )
        )
    history = (
        WarmUp("made-09 r1", as_ids([1, 2, 3]), as_ids([4, 5]), 2, 0),
        WarmUp("made-09 r2", as_ids([1, 2, 3, 4, 6]), as_ids([7]), 1, None),
    )
    parts[1] = replace(parts[1], history=history, note="It began last week.", log_excerpt="slot 0: cached 34\n")
    return BundleContents(
        created="2026-11-30T01:00:00+00:00",
        app_version=__version__,
        experiment=ExperimentInfo(1, "pair · made.gguf", "2026-11-29T23:00:00+00:00", Status.DONE, PLAN, ENVIRONMENT),
        pairs=tuple(parts),
        near_tie=NEAR_TIE_NATS,
        answers={"gpu": "none"},
        form="llama.cpp",
        replay_log={"pairs/01-made-00/repro_embedded.py": "it forks"},
    )


EXTRA = {"report.html": "<p>a report</p>", "report.md": "# a report", "pairs/01-made-00/repro.sh": "exit 0\n"}


def bundle_in(folder: FilePath, contents: BundleContents | None = None) -> FilePath:
    target = folder / "b.zip"
    write_bundle(contents or contents_of_two_pairs(), target, EXTRA, replace=True)
    return target


def repacked(source: FilePath, target: FilePath, changes: Mapping[str, bytes | None]) -> FilePath:
    """The zip with parts replaced, added or (None) left out, packed by an ordinary zip program with right CRCs."""
    file = io.BytesIO()
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        parts = {name: old.read(name) for name in old.namelist()} | dict(changes)
        for name, data in parts.items():
            if data is not None:
                new.writestr(name, data)
    target.write_bytes(file.getvalue())
    return target
