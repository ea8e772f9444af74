"""What looks like a key or an address in the texts that would leave the machine: a warning, with its place."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.bundle.format import BundleContents, folder_of
from app.bundle.parts import CACHED, LOG, NOTE, RECOMPUTE
from app.bundle.write import MANIFEST
from app.trajectory.codec import encode
from app.trajectory.piece_text import inert
from app.trajectory.trajectory import Trajectory

LONGEST_EXCERPT = 60

_LOOKS_LIKE = (
    ("a private key", r"-----BEGIN [A-Z ]*(?:PRIVATE KEY|CERTIFICATE)-----"),
    ("an access token (JWT)", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}"),
    ("an API key", r"\b(?:(?:sk|pk|hf|ghp|gho|ghs|github_pat|glpat|xox[abp])[-_]|AIza|AKIA)[A-Za-z0-9_-]{12,}"),
    ("a long hexadecimal string", r"\b(?<!forkpoint-)(?=[0-9A-Fa-f]*\d)[0-9A-Fa-f]{32,}\b"),  # not a salt of ours
    ("a long random string", r"(?<![\w+/=-])(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])(?=[\w+/-]*\d)[\w+/-]{40,}={0,2}"),
    ("an e-mail address", r"\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+\b"),
    ("a host name", r"(?i)\b[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)*\.(?:local|lan|internal|intranet|corp|home)\b"),
    ("a host name", r"(?<=://)(?!127\.|0\.0\.0\.0\b)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"),
    ("an IP address", r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"),
    ("an IP address", r"(?<![\w:])(?:[0-9A-Fa-f]{1,4}:{1,2}){3,7}[0-9A-Fa-f]{1,4}(?![\w:])"),
    ("a telephone number", r"(?<![\w.+-])\+\d{1,3}[ -]?(?:\(\d+\)[ -]?)?\d{2,4}(?:[ -]?\d{2,4}){2,3}\b"),
)
_PATTERNS = tuple((what, re.compile(pattern)) for what, pattern in _LOOKS_LIKE)
_FACT_KEYS = re.compile(r"sha256|hash|commit")


@dataclass(frozen=True)
class Suspect:
    """Something that looks private: `what` it looks like, the text around it, and the `line` (from 1) of the `part`."""

    part: str
    line: int
    what: str
    excerpt: str

    @property
    def sentence(self) -> str:
        """The warning in words."""
        return f"{self.part}, line {self.line}: this looks like {self.what}: {self.excerpt}"


def scan(contents: BundleContents) -> list[Suspect]:
    """What looks like a key or an address in all texts of the data parts; what repeats is told once a part."""
    found: dict[tuple[str, str, str], Suspect] = {}
    known: dict[str, list[tuple[str, str]]] = {}  # the two runs hold the same texts up to the fork
    for part, line, text in _texts(contents):
        if text not in known:
            known[text] = list(_suspicious(text))
        for what, words in known[text]:
            found.setdefault((part, what, words), Suspect(part, line, what, inert(words[:LONGEST_EXCERPT])))
    return list(found.values())


def _suspicious(text: str) -> Iterator[tuple[str, str]]:
    """What a text holds that looks like a key or an address: what it looks like, and the words."""
    for what, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if what != "an IP address" or _is_address(match[0]):
                yield what, match[0]


def _texts(contents: BundleContents) -> Iterator[tuple[str, int, str]]:
    """Every text, with the part and the line where it stands."""
    for value in (contents.environment, contents.experiment.plan, contents.answers, contents.replay_log):
        yield from ((MANIFEST, 1, text) for text in _strings(encode(value)))
    for number, part in enumerate(contents.pairs, 1):
        folder = folder_of(number, part.pair.cached.episode_id)
        for name, run in ((CACHED, part.pair.cached), (RECOMPUTE, part.pair.recompute)):
            yield from ((f"{folder}/{name}", line, text) for line, text in _run_texts(run))
        for name, text in ((NOTE, part.note), (LOG, part.log_excerpt)):
            yield from ((f"{folder}/{name}", line, row) for line, row in enumerate(text.splitlines(), 1))


def _run_texts(run: Trajectory) -> Iterator[tuple[int, str]]:
    yield 1, run.outcome.detail
    for request in run.requests:
        line, report = request.index + 2, request.report
        yield from ((line, message.content) for message in request.prompt.added)
        yield from ((line, result.text) for result in request.results)
        yield line, request.steps.text
        if report:
            bodies = (report.raw_request, report.raw_response, report.note, report.problem)
            yield from ((line, text) for text in bodies if text)


def _strings(value: object, key: str = "") -> Iterator[str]:
    """The texts in JSON values, without those that are hashes by their name."""
    if isinstance(value, str) and not _FACT_KEYS.search(key):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _strings(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)


def _is_address(text: str) -> bool:
    """Whether it is an IP address of some machine, not one of every machine's own."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)
