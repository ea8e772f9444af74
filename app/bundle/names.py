"""Which files a bundle may hold, and what each is."""

from __future__ import annotations

import re

_PAIR = r"pairs/\d{2,}-[\w.-]+/"
_DESCRIPTIONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.ASCII), what)
    for pattern, what in (
        (r"manifest\.json", "engine, model, settings, answers, and the list of all files with their checksums"),
        (r"SHA256SUMS", "checksums, for sha256sum -c"),
        (r"README\.txt", "what this is and how to use it"),
        (r"pieces\.json", "the bytes of every token id that an answer or a rival mentions"),
        (rf"({_PAIR})?report\.html", "the report for a browser"),
        (rf"({_PAIR})?report\.md", "the report as tables, in the fields of an issue form"),
        (rf"({_PAIR})?repro[\w.-]*\.(py|sh)", "a script that shows the fork without Forkpoint"),
        (rf"{_PAIR}card\.json", "the divergence card: fork, margins, drift, noise floor, verdict and its rule"),
        (rf"{_PAIR}cached\.jsonl", "the cached run: every request with its prompt, answer, rivals, counts and chunks"),
        (rf"{_PAIR}recompute\.jsonl", "the recompute run, in the same form"),
        (rf"{_PAIR}history\.jsonl", "what was served before, so that the cache state can be rebuilt"),
        (rf"{_PAIR}log\.txt", "the engine's log around the request"),
        (rf"{_PAIR}note\.txt", "what a person wrote about the pair"),
    )
)


def describe(name: str) -> str:
    """What the file of this name is; "" where a bundle may not hold it."""
    return next((what for pattern, what in _DESCRIPTIONS if pattern.fullmatch(name)), "")
