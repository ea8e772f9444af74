"""The facts that all pairs of a bundle share: environment, how it was run, what a person was asked, files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from app.bundle.format import CANNOT, LABELS, QUESTIONS, BundleContents, PairPart, folder_of
from app.bundle.names import describe
from app.bundle.report_tables import Table
from app.bundle.report_words import Foreign, count_text, foreign, section
from app.bundle.repro import repro_files
from app.trajectory.reproducer import why_no_reproducer

_NOT_HOW = ("episode_ids", "settings", "out", "imported", "imported_episodes", "episodes", "model")
"""Of the plan, what says where the run was kept or what it asked, not how it was asked."""


def environment_rows(contents: BundleContents) -> list[tuple[str, str]]:
    """The sealed environment record, every value in a line of its own under a dotted name, and what was answered."""
    rows: list[tuple[str, str]] = [(foreign(name), foreign(value)) for name, value in _leaves(contents.environment)]
    return rows + [(f"told: {key}", foreign(contents.answers[key])) for key in QUESTIONS if contents.answers.get(key)]


def plan_rows(contents: BundleContents) -> list[tuple[str, str]]:
    """How the requests were asked: sampling, rivals, longest answer, repeats."""
    plan = {key: value for key, value in contents.experiment.plan.items() if key not in _NOT_HOW and value is not None}
    return [(foreign(name), foreign(value)) for name, value in _leaves(plan)]


def model_line(contents: BundleContents) -> str:
    """The model file: name, size, SHA-256, tensor types; "" where the record has none."""
    model = section(contents.environment, "model")
    size, types = model.get("size_bytes"), model.get("tensor_types")
    parts = [
        model.get("name"),
        f"{size:,} bytes" if isinstance(size, int) else None,
        ", ".join(f"{count} tensors {name}" for name, count in types.items()) if isinstance(types, Mapping) else None,
        f"SHA-256 {model['sha256']}" if model.get("sha256") else None,
    ]
    return foreign("; ".join(str(part) for part in parts if part))


def version_line(contents: BundleContents) -> str:
    """The engine and its build's version, commit and bindings; "" where none was recorded."""
    build = section(contents.environment, "build")
    names = [name for name in build if re.search("version|commit|bindings|build|compiler|target", str(name))]
    engine = str(contents.environment.get("engine") or "")
    return foreign("; ".join([engine, *(f"{name} {build[name]}" for name in names)]).strip("; "), 1000)


def hardware_line(contents: BundleContents) -> str:
    """CPU as recorded, and the GPU as answered; "" where neither is known."""
    cpu = section(contents.environment, "build").get("cpu")
    return foreign("; ".join(str(part) for part in (cpu, contents.answers.get("gpu")) if part))


def operating_system(contents: BundleContents) -> str:
    """The operating system by the names of llama.cpp's form, and as recorded; "" where it was not recorded."""
    recorded = str(section(contents.environment, "build").get("os") or "")
    if not recorded:
        return ""
    known = {"linux": "Linux", "macos": "Mac", "darwin": "Mac", "windows": "Windows", "bsd": "BSD"}
    name = next((name for word, name in known.items() if word in recorded.lower()), "Other")
    return foreign(f"{name} ({recorded})")


def backends(contents: BundleContents) -> str:
    """The ggml backend where the record proves that it was the CPU; "" where a person must say."""
    build = section(contents.environment, "build")
    settings = section(contents.environment, "settings")
    return "CPU" if build.get("gpu_offload") is False or settings.get("gpu_layers") == 0 else ""


def launch_command(contents: BundleContents) -> str:
    """The server's launch line: as answered, else as recorded; "" for an engine that has none."""
    recorded = contents.environment.get("launch")
    words = " ".join(map(str, recorded)) if isinstance(recorded, list | tuple) else str(recorded or "")
    return contents.answers.get("launch") or words


def history_table(part: PairPart) -> Table:
    """The warm-up requests that must be served before the episode, in order."""
    rows = tuple(
        (
            str(number),
            foreign(request.writer),
            f"{len(request.prompt_ids):,}",
            count_text(request.cached_tokens),
            f"{len(request.answer_ids):,}",
        )
        for number, request in enumerate(part.history, start=1)
    )
    return Table(("order", "request", "prompt tokens", "from cache", "answer tokens"), rows)


def files_table(contents: BundleContents) -> Table:
    """What lies in the bundle; the manifest has sizes and checksums."""
    own = ["card.json", "cached.jsonl", "recompute.jsonl"]
    own += ["history.jsonl"] * any(part.history for part in contents.pairs)
    own += ["log.txt"] * any(part.log_excerpt for part in contents.pairs)
    own += ["note.txt"] * any(part.note for part in contents.pairs)
    rows = [
        (name, describe(name)) for name in ("report.html", "report.md", "README.txt", "manifest.json", "SHA256SUMS")
    ]
    rows += [("pieces.json", describe("pieces.json"))] * (contents.redaction == "none")
    folders = [folder_of(n, part.pair.cached.episode_id) for n, part in enumerate(contents.pairs, start=1)]
    where = f"{folders[0]}/" if len(folders) == 1 else "pairs/*/"
    rows += [(where + name, describe(f"pairs/01-pair/{name}")) for name in own]
    rows += [(where + "repro*", describe("pairs/01-pair/repro.sh"))] * has_scripts(contents)
    return Table(("file", "what it is"), tuple((Foreign(name), what) for name, what in rows))


def has_scripts(contents: BundleContents) -> bool:
    """Whether scripts that show the fork are made of these contents; the first pair that has a reproducer tells it."""
    forked = [part for part in contents.pairs if not why_no_reproducer(part.pair)]
    return bool(repro_files(replace(contents, pairs=tuple(forked[:1]))))


def redaction_lines(contents: BundleContents) -> Sequence[str]:
    """What was taken out, and what the bundle can no longer do for it."""
    return (LABELS[contents.redaction], *CANNOT[contents.redaction])


def _leaves(value: object, above: str = "") -> Iterator[tuple[str, object]]:
    """(dotted name, value) of a record, in its own order; entries of a list of records are numbered from 1."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{above}.{key}" if above else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value, start=1):
            yield from _leaves(item, f"{above}.{number}")
    elif value is not None and value != "" and value != [] and value != ():
        yield above, value
