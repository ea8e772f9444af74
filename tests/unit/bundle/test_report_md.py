from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.bundle.format import CANNOT, FORMS, Form, Redaction
from app.bundle.forms import FORM_FIELDS
from app.bundle.markdown import block, cell, code
from app.bundle.redact import redacted
from app.bundle.report_md import issue_text, report_md
from app.bundle.report_words import Foreign
from tests.unit.bundle.report_contents import contents_of, forked, hostile_contents, of_every_kind, part_of

HEADINGS: dict[Form, Sequence[str]] = {  # as the projects' own form files have them
    "llama.cpp": (
        "Name and Version", "Operating systems", "GGML backends", "Hardware", "Models",
        "Problem description & steps to reproduce", "First Bad Commit", "Relevant log output",
    ),
    "vllm": ("Your current environment", "🐛 Describe the bug", "Before submitting a new issue..."),
    "sglang": ("Checklist", "Describe the bug", "Reproduction", "Environment"),
}  # fmt: skip


def prose(markdown: str) -> str:
    """What is left of a text without comments, fenced blocks and code spans, which GitHub takes as they are."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<!`)(`+)(?!`)(?:(?!\n\n).)*?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
    return re.sub(r"<!--[^>]*?-->", "", text)


def fields(markdown: str) -> dict[str, str]:
    """The fields' texts by their headings."""
    parts = re.split(r"^### (.*)$", markdown, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("form", HEADINGS)
def test_the_report_has_the_fields_of_the_projects_form(form: Form) -> None:
    assert list(fields(report_md(contents_of(part_of(forked())), form))) == list(HEADINGS[form])


def test_facts_fill_the_fields() -> None:
    filled = fields(report_md(contents_of(part_of(forked(), log="slot 0: reuse 41")), "llama.cpp"))
    assert "`embedded; bindings llama-cpp-python 0.3.36; ggml_commit 0c1e570`" in filled["Name and Version"]
    assert filled["Operating systems"].strip() == "`Linux (Linux-6.18-x86_64)`"
    assert filled["GGML backends"].strip() == "CPU"
    assert filled["Hardware"].strip() == "`AMD EPYC`"
    assert "`small.gguf; 98,362,432 bytes; 210 tensors Q4_1; SHA-256 b179c9`" in filled["Models"]
    assert "slot 0: reuse 41" in filled["Relevant log output"]


def test_imported_conversations_are_in_the_data_and_not_in_the_issue() -> None:
    made = contents_of(part_of(forked()))
    plan = dict(made.experiment.plan) | {"imported_episodes": [{"id": "x", "turns": ["a whole conversation"]}]}
    made = replace(made, experiment=replace(made.experiment, plan=plan))
    assert "a whole conversation" not in report_md(made)
    assert "`rivals`" in report_md(made), "how it was run is told"


def test_what_was_asked_of_the_person_stands_in_its_field() -> None:
    answers = {"gpu": "RTX 4090", "launch": "llama-server -m small.gguf", "link": "where it is"}
    filled = fields(report_md(contents_of(part_of(forked()), answers=answers), "llama.cpp"))
    assert "RTX 4090" in filled["Hardware"] and "where it is" in filled["Models"]
    assert "```sh\nllama-server -m small.gguf\n```" in filled["Problem description & steps to reproduce"]


@pytest.mark.parametrize("form", FORMS)
def test_prose_is_left_to_the_person(form: Form) -> None:
    markdown = report_md(contents_of(part_of(forked(), log="a line"), replay_log={"repro.sh": "exit 0"}), form)
    marked = [field.heading for field in FORM_FIELDS[form].fields if field.prose]
    assert marked and all("<!-- write this yourself" in fields(markdown)[heading] for heading in marked)
    lines = [line for line in prose(markdown).splitlines() if line.strip() and line[0] not in "|#-<"]
    assert lines in ([], ["CPU"])
    assert ("llama.cpp does not accept generated text" in markdown) == (form == "llama.cpp")


@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_a_model_wrote_stands_where_it_could_act(form: Form) -> None:
    markdown = report_md(hostile_contents(), form)
    assert markdown.count("MINE") > 50
    assert "MINE" not in prose(markdown)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", markdown)
    for table in re.findall(r"(?:^\|.*\n)+", markdown, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


@pytest.mark.parametrize("text", ["a`b", "``", "` `", "a``b`c", "|", "\\|", "\\", "x\ny", "<b>", "@you #1", " "])
def test_a_code_span_holds_any_line(text: str) -> None:
    span = code(text)
    assert not prose(span) and "\n" not in span
    assert not re.search(r"(?<!\\)\||\\\\\|", cell(Foreign(text))), "a cell ends at an unescaped bar"


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert block("a\n````\nb").startswith("`````text\n")


def test_the_table_around_the_fork_compares_up_to_it() -> None:
    markdown = report_md(contents_of(part_of(forked())), "generic")
    lines = [line.split(" | ") for line in markdown.splitlines() if re.match(r"\| \d+:\d+ \|", line)]
    assert [line[0] for line in lines][16] == "| 3:17" and "**fork**" in lines[16][-1]
    assert all(re.fullmatch(r"[+-]\d\.\d{6}|0", line[7]) for line in lines[:16])
    assert not any(line[7] for line in lines[16:])


@pytest.mark.parametrize("pair", of_every_kind(), ids=lambda pair: pair.verdict.headline[:40])
@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_fork_makes_a_report(pair, form: Form) -> None:  # type: ignore[no-untyped-def]
    assert f"`{pair.verdict.code}`" in report_md(contents_of(part_of(pair)), form)


def test_an_issue_takes_as_many_pairs_as_fit_and_lists_the_others() -> None:
    part = part_of(forked())
    text = issue_text(contents_of(*[part] * 250))
    assert 40_000 < len(text) < 65_536
    assert text.count("#### ") > 2 and "50 more pairs in the bundle." in text
    assert issue_text(contents_of(part)) == report_md(contents_of(part))


def test_an_issue_of_one_endless_pair_still_fits() -> None:
    part = part_of(forked(requests=900, steps_each=3, fork_request=1, fork_step=1), note="n" * 99_999, log="l" * 99_999)
    text = issue_text(contents_of(part, answers={"launch": "x" * 99_999}, replay_log={"repro.sh": "y" * 99_999}))
    assert len(text) < 65_536 and "2:2" in text


@pytest.mark.parametrize("level", ["light", "strict"])
def test_a_redacted_report_says_what_it_cannot_do(level: Redaction) -> None:
    contents = contents_of(part_of(forked(), log="secret log"))
    markdown = report_md(redacted(contents, level), "llama.cpp")
    assert all(sentence in markdown for sentence in CANNOT[level])
    assert "repro*" not in markdown and "secret log" not in markdown and "Tuesday" not in markdown
    assert "**fork**" in markdown


def test_where_there_are_no_scripts_the_person_is_told_why_and_the_reader_is_not() -> None:
    report = report_md(contents_of(part_of(of_every_kind()[2])))
    assert "<!-- the bundle holds no scripts: the two paths part by their length, not at a sampled token. -->" in report
    assert "no scripts" not in prose(report)
    assert "no scripts" not in report_md(contents_of(part_of(forked())))


def test_scripts_are_named_where_there_are_any() -> None:
    pairs = of_every_kind()
    assert "pairs/*/repro*" in report_md(contents_of(part_of(pairs[1]), part_of(pairs[0])))
    assert "pairs/*/repro*" not in report_md(contents_of(part_of(pairs[1])))


def test_the_bundles_own_form_is_taken_unless_told() -> None:
    contents = contents_of(part_of(forked()), form="sglang")
    assert report_md(contents) == report_md(replace(contents, form="generic"), "sglang")
