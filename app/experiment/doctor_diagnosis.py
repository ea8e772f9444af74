"""What the doctor says of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mark(StrEnum):
    """How an answer of the doctor is to be taken."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Finding:
    """One question of the study's checklist, answered in a sentence; `evidence` is what was seen."""

    question: str
    status: Mark
    answer: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One probe, cached against recompute. `fork` is the token that differs first, from 1, None where none does;
    `margin` the recompute path's there, `drift` the largest change of a shared token's logprob, in nats; `cached` is
    None where the count was not reported."""

    name: str
    prompt: int
    cached: int | None
    drift: float | None
    fork: int | None
    margin: float | None
    tokens: str


@dataclass(frozen=True)
class Diagnosis:
    """`exit_code` 0: ids and logprobs bit-identical on every probe; 1: something differed; 2: it cannot be proved.

    `facts` say what was examined, in order; `command` starts the server so that it is reproducible, "" where nothing
    has to change or no flag does it; then `advice` says what does.
    """

    facts: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    probes: tuple[ProbeRow, ...]
    verdict: str
    exit_code: int
    command: str
    advice: str
