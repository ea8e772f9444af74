"""report.md: the fields of an engine's own issue form, filled with facts only.

Whatever is prose stays empty and is marked for the person who reports: maintainers want to read people, and llama.cpp
forbids generated text in issues. So what stands here are tables, commands and logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from app.bundle.format import BundleContents, Form, PairPart
from app.bundle.forms import FORM_FIELDS, Facts, IssueForm
from app.bundle.markdown import block, code, facts, span, table
from app.bundle.report_facts import (
    backends,
    environment_rows,
    hardware_line,
    has_scripts,
    history_table,
    launch_command,
    model_line,
    operating_system,
    plan_rows,
    redaction_lines,
    version_line,
)
from app.bundle.report_positions import position_table
from app.bundle.report_tables import Table, card, fork_table, judgement, provenance_table, reuse_table
from app.bundle.report_words import Foreign, foreign, nats
from app.trajectory.reproducer import why_no_reproducer

MOST_CHARACTERS = 60_000
"""GitHub refuses issues of more than 65,536 characters; a person's own words need room too."""
MOST_LINES = 200
"""Pairs that the overview lists."""
MOST_SCRIPTS = 4
"""Scripts whose output is shown; there are up to three a pair."""
LONGEST_BLOCK = 4_000
"""Characters of a log or a script's output that stand inline; long ones belong into files (so both forms)."""

NOT_RECORDED = "<!-- not recorded: please fill in -->"


def report_md(contents: BundleContents, form: Form | None = None) -> str:
    """The whole report: the issue form with the tables of every pair. `form` is the bundle's own unless told."""
    return _issue(contents, form or contents.form, len(contents.pairs))


def issue_text(contents: BundleContents, form: Form | None = None) -> str:
    """What *Copy issue text* copies: as many pairs in full as an issue takes, the others in one line each."""
    text = _issue(contents, form or contents.form, 0)
    for full in range(1, len(contents.pairs) + 1):
        longer = _issue(contents, form or contents.form, full)
        if len(longer) > MOST_CHARACTERS:
            break
        text = longer
    return text


def _issue(contents: BundleContents, form: Form, full: int) -> str:
    made = FORM_FIELDS[form]
    writers = _writers(contents, made, full)
    title = f'begin the title with "{made.title}" and ' if made.title else ""
    parts = [f"<!-- {title}write it yourself -->"]
    for field in made.fields:
        parts.append(f"### {field.heading}")
        if field.prose:
            why = f": {made.rule}" if made.rule else ""
            parts.append(f"<!-- write this yourself{why} ({field.prose}) -->")
        parts += [text for name in field.facts for text in writers[name]()]
    return "\n\n".join(parts) + "\n"


def _writers(contents: BundleContents, form: IssueForm, full: int) -> Mapping[Facts, Callable[[], Iterator[str]]]:
    """What fills a field, by the name of the facts."""

    def line(text: str) -> Iterator[str]:
        yield span(text) or NOT_RECORDED

    return {
        "version": lambda: line(version_line(contents)),
        "system": lambda: line(operating_system(contents)),
        "backends": lambda: line(backends(contents)),
        "hardware": lambda: line(hardware_line(contents)),
        "model": partial(_model, contents),
        "environment": partial(_environment, contents),
        "repro": partial(_repro, contents),
        "evidence": partial(_evidence, contents, full),
        "log": partial(_logs, contents, full),
        "checks": lambda: iter(["\n".join(f"- [ ] {text}" for text in form.checks)]),
    }


def _model(contents: BundleContents) -> Iterator[str]:
    yield span(model_line(contents)) or NOT_RECORDED
    link = code(contents.answers.get("link", ""))
    yield link or "<!-- a link to the model file, if it was downloaded -->"


def _environment(contents: BundleContents) -> Iterator[str]:
    yield _folded("Environment, as recorded when the run began", facts(environment_rows(contents)))


def _repro(contents: BundleContents) -> Iterator[str]:
    if launch := launch_command(contents):
        yield block(launch[:LONGEST_BLOCK], "sh")
    if contents.redaction != "none":
        yield "\n".join(f"- {text}" for text in redaction_lines(contents))
        return
    if has_scripts(contents):
        head = ("scripts in the attached bundle", "exit 0", "exit 1", "exit 2")
        row = (Foreign("pairs/*/repro*"), "the fork shows", "it does not", "could not be tried")
        yield table(Table(head, (row,)))
    elif reason := why_no_reproducer(contents.pairs[0].pair):
        yield f"<!-- the bundle holds no scripts: {reason[:1].lower()}{reason[1:]} -->"
    for name, printed in sorted(contents.replay_log.items())[:MOST_SCRIPTS]:
        yield block(f"$ {name}\n{_cut(printed)}")


def _evidence(contents: BundleContents, full: int) -> Iterator[str]:
    if len(contents.pairs) > 1 or not full:
        yield table(_overview(contents))
    for part in contents.pairs[:full]:
        yield from _pair(part, contents)
    yield _folded("How it was run", facts(plan_rows(contents)))


def _overview(contents: BundleContents) -> Table:
    rows = []
    for part in contents.pairs[:MOST_LINES]:
        fork, verdict = part.pair.comparison.fork, part.pair.verdict
        margin = nats(fork.recompute.margin) if fork and fork.recompute else ""
        episode = foreign(part.pair.comparison.episode_id, 60)
        rows.append((episode, fork.label if fork else "none", margin, foreign(verdict.code), foreign(verdict.headline)))
    more = len(contents.pairs) - len(rows)
    note = f"{more:,} more pairs in the bundle." if more else ""
    return Table(("episode", "fork at request:token", "margin there", "class", "verdict"), tuple(rows), note=note)


def _pair(part: PairPart, contents: BundleContents) -> Iterator[str]:
    pair, redacted = part.pair, contents.redaction != "none"
    yield f"#### {code(foreign(pair.comparison.episode_id))}"
    if part.note:
        yield block(_cut(part.note))
    if tokens := fork_table(pair, redacted=redacted):
        yield table(tokens)
    yield table(position_table(pair, contents.near_tie, redacted=redacted))
    yield _folded("Divergence card", facts([*judgement(pair), *card(pair)]))
    yield _folded("Proof of reuse: what each request took from the cache", table(reuse_table(pair)))
    yield _folded("How the cache entries of the prompt were written", table(provenance_table(pair)))
    if part.history:
        yield _folded("Served before the episode", table(history_table(part)))


def _logs(contents: BundleContents, full: int) -> Iterator[str]:
    logs = [part.log_excerpt for part in contents.pairs[: max(full, 1)] if part.log_excerpt]
    yield from (_folded("Logs", block(_cut(log), "shell")) for log in logs)
    if not logs:
        yield "<!-- no log was recorded: please paste what is relevant -->"


def _cut(text: str) -> str:
    more = len(text) - LONGEST_BLOCK
    return text if more <= 0 else f"{text[:LONGEST_BLOCK]}\n… ({more:,} characters more in the bundle)"


def _folded(title: str, body: str) -> str:
    """A part that GitHub shows when it is clicked; `title` is ours, `body` Markdown."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
