"""How the reports write a token, a number and a text that came from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from app.trajectory.pair import Pair
from app.trajectory.piece_text import inert, visible

SIDES = ("cached", "recompute")
"""The sides of a pair by the names of their fields; how they are called says `side_names`."""
UNKNOWN = "not reported"
SAME = "="
ELSEWHERE = 1_000_000.0


class Foreign(str):
    """Text that came from a model, an engine or a person: one line, inert, and no words of ours."""

    __slots__ = ()


def foreign(text: object, longest: int = 400) -> Foreign:
    """Any value as one inert line; what is longer than `longest` characters is cut and counted."""
    line = inert(str(text)).replace("\n", "⏎")
    return Foreign(line if len(line) <= longest else f"{line[:longest]}… (+{len(line) - longest:,} characters)")


def token_text(piece: bytes | None, token_id: int, *, redacted: bool) -> Foreign:
    """A token as both reports show it: its visible bytes; its id where the bytes are not here, e.g. "#1437"."""
    if redacted or piece is None:
        return Foreign("▯" if token_id < 0 else f"#{token_id}")
    return Foreign(visible(piece))


def id_text(token_id: int) -> str:
    """A token id; "▯" where the redaction took it out."""
    return "▯" if token_id < 0 else str(token_id)


def known(value: np.floating) -> float | None:
    """A stored float; NaN, which stands for "not reported", as None."""
    return None if np.isnan(value) else float(value)


def nats(value: float | None, *, unit: bool = False) -> str:
    """A logprob or margin in nats with six decimals; None is "not reported"."""
    if value is None:
        return UNKNOWN
    text = f"{value:.6f}" if abs(value) < ELSEWHERE else f"{value:.3g}"
    return f"{text} nats" if unit else text


def signed_nats(value: float) -> str:
    """A difference in nats; two values that are bit for bit the same differ by "0"."""
    if value == 0:
        return "0"
    return f"{value:+.6f}" if 1e-6 <= abs(value) < ELSEWHERE else f"{value:+.1e}"


def count_text(tokens: int | None) -> str:
    """A number of tokens; None is "not reported", never 0."""
    return UNKNOWN if tokens is None else f"{tokens:,}"


def section(environment: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of the environment record, e.g. "build"; empty where it has none, as a received record may."""
    found = environment.get(name)
    return found if isinstance(found, Mapping) else {}


def side_names(pair: Pair) -> tuple[str, str]:
    """What the two sides are called: by their paths, or as runs of one path. Letters, digits and spaces only."""
    left, right = (re.sub("[^A-Za-z0-9 ]", "", name)[:30] for name in pair.comparison.names)
    return left, right


def marked_names(pair: Pair) -> tuple[str, str]:
    """The same with the marks that they have in the window."""
    left, right = side_names(pair)
    return f"◆ {left}", f"● {right}"


def engine_name(environment: Mapping[str, Any]) -> str:
    """The engine and its commit or version in short, e.g. "embedded · llama-cpp-python 0.3.36 · 0c1e570"."""
    build = section(environment, "build")
    names = ("bindings", "version", "build_info", "ggml_commit", "llama_cpp_commit", "commit")
    return " · ".join(str(part) for part in (environment.get("engine"), *(build.get(name) for name in names)) if part)
