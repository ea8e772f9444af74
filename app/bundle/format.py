"""What a bundle holds. resources/help/bundle-format.md is its schema page; the parts are in the one wire form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.trajectory.pair import Comparison, NoiseFloor, Pair, Verdict
from app.trajectory.reproducer import WarmUp
from app.trajectory.trajectory import ExperimentInfo, PassInfo, Request

FORMAT = "forkpoint-bundle"

FORMAT_VERSION = 1
"""Goes up when a bundle of an earlier version can no longer be read by the rules of this one."""

Redaction = Literal["none", "light", "strict"]
"""What was taken out before the bundle was written; keys, home paths, user and host names always are."""

Form = Literal["llama.cpp", "vllm", "sglang", "generic"]
"""Whose issue form report.md follows."""

REDACTIONS: tuple[Redaction, ...] = ("none", "light", "strict")
FORMS: tuple[Form, ...] = ("llama.cpp", "vllm", "sglang", "generic")

LABELS: Mapping[Redaction, str] = {
    "none": "Nothing was taken out but keys, home paths, user and host names.",
    "light": "Redacted lightly: texts are out, and token ids are exchanged for others, the same id always for the same "
    "one. This hides from a glance only: it is a substitution cipher.",
    "strict": "Redacted strictly: texts, token ids, rivals' ids, token bytes and hashes are out. Lengths, what prompts "
    "share, what is equal, logprobs and margins are kept.",
}
"""What the redaction state means, in the words that the manifest and the reports show."""

CANNOT: Mapping[Redaction, tuple[str, ...]] = {
    "none": (),
    "light": ("It cannot be replayed.", "It holds no repro scripts.", "It shows no texts and no raw bodies."),
    "strict": (
        "It cannot be replayed.",
        "It holds no repro scripts.",
        "It shows no texts and no raw bodies.",
        "It cannot say which tokens rivalled at the fork.",
        "The model file cannot be told by its hash.",
    ),
}
"""What a bundle can no longer do after its redaction."""

QUESTIONS: Mapping[str, str] = {
    "gpu": "Which GPU or other accelerator did the engine use (none, if it ran on the CPU)?",
    "launch": "With which command line was the server started?",
    "link": "Where can the model file be had?",
}
"""What the app cannot know and asks before an export, by the key under which the manifest keeps the answer."""


@dataclass(frozen=True, eq=False)
class PairPart:
    """One pair with all that belongs to it. `pair.cached` and `pair.recompute` are its runs.

    `cached_pass` and `recompute_pass` are the passes that they come from. `history` are the warm-up requests of earlier
    episodes on the cached path, in the order served: after them, and the episode's own requests before the fork, the
    cache holds what the forked request met. `note` is what a person wrote about the pair, `log_excerpt` what the
    engine's log says around the request.
    """

    pair: Pair
    cached_pass: PassInfo
    recompute_pass: PassInfo
    history: tuple[WarmUp, ...] = ()
    note: str = ""
    log_excerpt: str = ""


@dataclass(frozen=True, eq=False)
class BundleContents:
    """All of a bundle but the files made from it (reports, repro scripts).

    `created` is ISO 8601, UTC. `experiment` has the plan and the sealed environment record (app, engine, build, model
    with name, size_bytes and sha256, settings); its plan's `episode_ids` are those of the bundled pairs. `near_tie` in
    nats is the threshold that the comparisons were made with. `answers` are what the person was asked, by the keys of
    QUESTIONS. `replay_log` is what each repro script printed before the export, by file name; empty where none was run.
    """

    created: str
    app_version: str
    experiment: ExperimentInfo
    pairs: tuple[PairPart, ...]
    near_tie: float
    answers: Mapping[str, str] = field(default_factory=dict)
    redaction: Redaction = "none"
    form: Form = "generic"
    replay_log: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> Mapping[str, Any]:
        """The sealed environment record."""
        return self.experiment.environment


def folder_of(number: int, episode_id: str) -> str:
    """Where pair `number` (from 1) lies in the zip, e.g. "pairs/01-calendar-02"; only letters, digits, "." "_" "-"."""
    return f"pairs/{number:02}-{re.sub('[^A-Za-z0-9._-]', '_', episode_id)[:60]}"


@dataclass(frozen=True)
class Part:
    """A file in the zip: size in bytes and SHA-256 of what it holds unpacked."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """manifest.json. `cannot` says what the redaction made impossible; `pairs` are the pairs' folders in order;
    `parts` all files but manifest.json and SHA256SUMS."""

    format: str
    format_version: int
    wire_version: int
    app_version: str
    created: str
    redaction: Redaction
    redaction_label: str
    cannot: tuple[str, ...]
    form: Form
    near_tie: float
    experiment: ExperimentInfo
    questions: Mapping[str, str]
    answers: Mapping[str, str]
    replay_log: Mapping[str, str]
    pairs: tuple[str, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Card:
    """card.json: the divergence card of a pair, and the passes that its runs come from."""

    comparison: Comparison
    verdict: Verdict
    noise_floor: NoiseFloor
    cached_pass: PassInfo
    recompute_pass: PassInfo


@dataclass(frozen=True, eq=False)
class RequestLine:
    """A line of cached.jsonl or recompute.jsonl after the first.

    The prompt starts with the first `shared_ids` of the previous request's prompt and answer; `request.prompt.ids` are
    only those after them. In the same way the first `shared_spans` of the previous request's spans go before
    `request.spans`. A conversation of 15 requests would else hold its beginning 15 times.
    """

    shared_ids: int
    shared_spans: int
    request: Request


@dataclass(frozen=True, eq=False)
class HistoryLine:
    """A line of history.jsonl.

    The prompt starts with the first `shared_ids` of the previous line's prompt and answer; `request.prompt_ids` are
    only those after them.
    """

    shared_ids: int
    request: WarmUp
