"""Whether a bundle is as it was written, and whether its runs say what its cards say."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from app import __version__
from app.bundle.container import CONTAINER, Unpacked, unpack
from app.bundle.format import BundleContents, Manifest, PairPart
from app.bundle.parts import contents_of
from app.bundle.read import manifest_of, unexpected
from app.bundle.write import MANIFEST, SUMS, sums
from app.diagnosis.verdict import judge
from app.errors import BundleError
from app.trajectory.compare import compare

State = Literal["whole", "altered", "unreadable"]


@dataclass(frozen=True, eq=False)
class Verification:
    """What was found. `findings`: part -> what is wrong with it; `comparisons`: episode -> how its card differs from
    what comparing its runs anew says, "" where both agree. `contents` is None where they cannot be read; `hint` is then
    what a person can do."""

    state: State
    findings: Mapping[str, str] = field(default_factory=dict)
    comparisons: Mapping[str, str] = field(default_factory=dict)
    contents: BundleContents | None = None
    hint: str = "Ask for the bundle again."

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        if self.state == "whole":
            count = len(self.comparisons)
            return f"Whole: every checksum is right, and comparing {count} pair{'s' * (count != 1)} anew says the same."
        worst = next((f"{name} {why}" for name, why in self.findings.items()), "")
        others = f", and {len(self.findings) - 1} more" if len(self.findings) > 1 else ""
        return f"{'Altered' if self.state == 'altered' else 'Unreadable'}: {worst}{others}."


def verify_bundle(path: Path) -> Verification:
    """Check every checksum, the container byte by byte, and every pair's comparison. Runs and opens nothing of it."""
    try:
        unpacked = unpack(path)
    except BundleError as error:
        return Verification("unreadable", {CONTAINER: _clause(error)}, hint=error.hint)
    findings = {name: f"is damaged: {why}" for name, why in unpacked.damaged.items()}
    if MANIFEST in findings:
        return Verification("altered", findings)
    try:
        manifest = manifest_of(unpacked.parts.get(MANIFEST))
    except BundleError as error:
        return Verification("unreadable", findings | {MANIFEST: _clause(error)}, hint=error.hint)
    findings |= _checksums(manifest, unpacked)
    if unpacked.flaw:
        findings[CONTAINER] = f"is not as it was written: {unpacked.flaw}"
    try:
        contents = contents_of(manifest, unpacked.parts)
    except BundleError as error:
        return Verification("altered" if findings else "unreadable", findings or {MANIFEST: _clause(error)})
    comparisons = {part.pair.cached.episode_id: recompared(part, contents) for part in contents.pairs}
    for folder, difference in zip(manifest.pairs, comparisons.values(), strict=True):
        if difference:
            findings[f"{folder}/card.json"] = f"does not say what its runs say: {difference}"
    return Verification("altered" if findings else "whole", findings, comparisons, contents)


def recompared(part: PairPart, contents: BundleContents) -> str:
    """How the card of a pair differs from comparing its runs anew; "" where it does not.

    What a bundle does not hold (repeats, the experiment's noise floor, why the pair is not valid) is the card's word.
    Another version may word its verdict in another way; its class must agree.
    """
    pair, card = part.pair, part.pair.comparison
    anew = compare(
        pair.cached,
        pair.recompute,
        near_tie=contents.near_tie,
        repeats=card.repeats,
        problems=card.problems,
        unproven=card.unproven,
        names=card.names,
        level=card.level,
    )
    for name in ("fork", "aligned_steps", "shared_steps", "drift_max", "margin_change_median", "near_ties"):
        if getattr(anew, name) != getattr(card, name):
            return f"{name} is {_short(getattr(anew, name))}, not {_short(getattr(card, name))}"
    if anew != card:
        return "what changed with the fork is another"
    verdict = judge(anew, pair.cached, pair.recompute, pair.noise_floor, near_tie=contents.near_tie)
    same_version = contents.app_version == __version__
    if verdict.code != pair.verdict.code or (same_version and verdict != pair.verdict):
        return f"the verdict is {verdict.code}: {verdict.headline}"
    return ""


def _checksums(manifest: Manifest, unpacked: Unpacked) -> dict[str, str]:
    """Every part's digest stands in the manifest and in SHA256SUMS: of the three, that one is named which differs."""
    findings = dict(unexpected(manifest, set(unpacked.parts) | set(unpacked.damaged)))
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in unpacked.parts.items()}
    summed = _summed(unpacked.parts.get(SUMS))
    altered = set()
    for part in manifest.parts:
        digest = digests.get(part.name)
        if digest is None:
            continue
        if (part.size, part.sha256) != (len(unpacked.parts[part.name]), digest):
            altered.add(MANIFEST if summed.get(part.name) == digest else part.name)
        elif SUMS in digests and summed.get(part.name) != digest:
            altered.add(SUMS)
    if SUMS in digests:
        if MANIFEST in summed and summed[MANIFEST] != digests[MANIFEST]:
            altered.add(MANIFEST)
        elif not altered and unpacked.parts[SUMS] != sums(manifest, digests[MANIFEST]):
            altered.add(SUMS)
    return findings | dict.fromkeys(sorted(altered), "is not what was written: its checksum differs")


def _summed(data: bytes | None) -> dict[str, str]:
    """The digests in SHA256SUMS, by name."""
    lines = (data or b"").decode("utf-8", errors="replace").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _short(value: object) -> str:
    label = getattr(value, "label", None)
    return str(label if label is not None else value)


def _clause(error: BundleError) -> str:
    return f"cannot be used: {error.message.rstrip('.')}"
