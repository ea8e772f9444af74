"""The issue forms of the engines: their fields, in their order, under their own headings.

Sources: ggml-org/llama.cpp .github/ISSUE_TEMPLATE/011-bug-results.yml, vllm-project/vllm 400-bug-report.yml,
sgl-project/sglang 1-bug-report.yml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from app.bundle.format import Form

Facts = Literal[
    "version", "system", "backends", "hardware", "model", "environment", "evidence", "repro", "log", "checks"
]
"""What of the bundle fills a field."""

NO_GENERATED_TEXT = "llama.cpp does not accept generated text"


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its heading, the facts that fill it, and, where a person must write, what about (`prose`)."""

    heading: str
    facts: tuple[Facts, ...]
    prose: str = ""


@dataclass(frozen=True, slots=True)
class IssueForm:
    """A form: how its titles begin, its fields, and what a person must know before writing (`rule`)."""

    title: str
    fields: tuple[Field, ...]
    rule: str = ""
    checks: tuple[str, ...] = ()


FORM_FIELDS: Mapping[Form, IssueForm] = {
    "llama.cpp": IssueForm(
        "Eval bug: ",
        (
            Field("Name and Version", ("version",)),
            Field("Operating systems", ("system",)),
            Field("GGML backends", ("backends",)),
            Field("Hardware", ("hardware",)),
            Field("Models", ("model",)),
            Field("Problem description & steps to reproduce", ("repro", "evidence"), "what is wrong"),
            Field("First Bad Commit", (), "the commit, if you bisected; else leave it empty"),
            Field("Relevant log output", ("log",)),
        ),
        NO_GENERATED_TEXT,
    ),
    "vllm": IssueForm(
        "[Bug]: ",
        (
            Field("Your current environment", ("environment",), "paste the output of `python collect_env.py`"),
            Field("🐛 Describe the bug", ("repro", "evidence", "log"), "what is wrong, what you expected instead"),
            Field("Before submitting a new issue...", ("checks",)),
        ),
        checks=(
            "Make sure you already searched for relevant issues, and asked the chatbot living at the bottom right "
            "corner of the documentation page, which can answer lots of frequently asked questions.",
        ),
    ),
    "sglang": IssueForm(
        "[Bug] ",
        (
            Field("Checklist", ("checks",)),
            Field("Describe the bug", ("evidence",), "what is wrong, clearly and concisely"),
            Field("Reproduction", ("repro", "model", "log")),
            Field("Environment", ("environment",), "paste the output of `python3 -m sglang.check_env`"),
        ),
        checks=(
            "I searched related issues but found no solution.",
            "The bug persists in the latest version.",
            "Issues without environment info and a minimal reproducible demo are hard to resolve and may receive no "
            "feedback.",
            "If this is not a bug report but a general question, please start a discussion. Otherwise, it will be "
            "closed.",
            "Please use English. Otherwise, it will be closed.",
        ),
    ),
    "generic": IssueForm(
        "",
        (
            Field("Summary", (), "what is wrong"),
            Field("Engine", ("version",)),
            Field("Model", ("model",)),
            Field("Hardware and system", ("hardware", "system")),
            Field("Steps to reproduce", ("repro",)),
            Field("Observed", ("evidence",)),
            Field("Expected", (), "what you expected instead"),
            Field("Log", ("log",)),
            Field("Environment", ("environment",)),
        ),
    ),
}
