from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from app import paths
from app.bundle.format import CANNOT, LABELS, Redaction
from app.bundle.redact import redacted
from app.bundle.report_html import report_html
from app.trajectory.pair import PATH_NAMES, run_names
from app.trajectory.trajectory import Path
from app.views.theme import DARK, LIGHT, Theme
from tests.builders import forked_pair_of_trajectories, request, step, trajectory
from tests.unit.bundle.report_contents import contents_of, forked, hostile_contents, of_every_kind, pair_of, part_of


class Page(HTMLParser):
    """What a browser would make of the page: elements, and the text of those with a class."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.shapes: set[tuple[str, tuple[str, ...]]] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[tuple[str, str]] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.shapes.add((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "wbr", "rect", "path"):
            self._open.append((tag, str(dict(attrs).get("class") or "")))

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "path"):
            assert self._open.pop()[0] == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.texts.append((" ".join(self._open[-1]), data.strip()))

    def of(self, kind: str) -> list[str]:
        """Texts of elements of one tag and class, e.g. "bdi t fork"."""
        return [text for where, text in self.texts if where == kind]


def rows(page: str, table_class: str) -> Iterator[list[str]]:
    """Rows of the tables of a class, as text."""
    for body in re.findall(rf'<table class="{table_class}">.*?</table>', page, re.DOTALL):
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL):
            yield [re.sub("<[^>]*>", "", text).strip() for text in re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.DOTALL)]


def test_the_page_needs_nothing_else_and_runs_nothing() -> None:
    page = report_html(contents_of(part_of(forked())))
    read = Page(page)
    tags = {tag for tag, _ in read.shapes}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "style src"}
    assert not [name for _, name, _ in read.attributes if name.startswith("on") or name in ("src", "style")]
    assert all(value.startswith("#") for _, name, value in read.attributes if name == "href")
    assert "url(" not in page and "@import" not in page
    policy = next(value for _, name, value in read.attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_whatever_a_model_wrote_stays_text() -> None:
    page, harmless = (
        report_html(hostile_contents()),
        report_html(contents_of(*[part_of(forked(), "n", "l")] * 2, replay_log={"repro.sh": "exit 0"})),
    )
    assert "alert(&#39;MINE&#39;)" in page
    known = Page(harmless).shapes | Page(report_html(contents_of(*map(part_of, of_every_kind())))).shapes
    assert Page(page).shapes <= known
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", page)


def test_both_strips_mark_the_fork_and_show_its_surroundings() -> None:
    page = report_html(contents_of(part_of(forked())))
    cached, recompute = Page(page).of("bdi t fork")
    pair = forked()
    fork = pair.comparison.fork
    assert fork is not None and fork.cached is not None and fork.recompute is not None
    assert [cached, recompute] == [side.piece.decode().replace(" ", "·") for side in (fork.cached, fork.recompute)]
    strips = page.split('<div class="tokens">')[1:3]
    assert all(len(re.findall('class="t ', strip.split("</div>")[0])) == 25 for strip in strips)
    ids = [row[2] for row in rows(page, "fork-table")][1:]
    assert ids == [str(fork.cached.token_id), str(fork.recompute.token_id)]


def test_the_fork_comes_before_everything_that_may_be_long() -> None:
    page = report_html(contents_of(part_of(forked(), note="long " * 4000, log="log " * 4000)))
    assert page.index('class="t fork"') < page.index('class="note"')
    long = [replace(side, requests=tuple(_with_long_pieces(r) for r in side.requests)) for side in _sides()]
    page = report_html(contents_of(part_of(pair_of(long[0], long[1]))))
    for strip in page.split('<div class="tokens">')[1:3]:
        before = re.sub("<[^>]*>", "", strip[: strip.index('class="t fork"')])
        assert len(before) < 220


def _sides() -> tuple[Any, Any]:
    return forked_pair_of_trajectories()


def _with_long_pieces(request: Any) -> Any:
    size = len(request.steps)
    ends = np.arange(1, size + 1, dtype=np.int32) * 400
    return replace(request, steps=replace(request.steps, piece_bytes=b"\x1b" * 400 * size, piece_ends=ends))


def test_the_position_table_has_the_recorded_numbers() -> None:
    pair = forked()
    table = [row for row in rows(report_html(contents_of(part_of(pair))), "numbers") if re.match(r"\d+:\d+", row[0])]
    assert [row[0] for row in (table[0], table[16], table[-1])] == ["3:1", "3:17", "4:3"]
    left, right = (side.requests[2].steps for side in (pair.cached, pair.recompute))
    third = table[3]
    assert third[5] == f"{right.logprobs[3]:.6f}" and third[6] == f"{left.logprobs[3]:.6f}"
    assert third[7] == f"{float(left.logprobs[3]) - float(right.logprobs[3]):+.6f}"
    assert third[8] == f"{right.margins[3]:.6f}" and third[9] == f"{left.margins[3]:.6f}"


def test_after_the_fork_nothing_is_compared_though_tokens_agree() -> None:
    sides = [
        trajectory([request(0, range(9), [step(5), step(chosen, 0.04), step(5)])], path=path, id=chosen)
        for path, chosen in ((Path.CACHED, 7), (Path.RECOMPUTE, 8))
    ]
    page = report_html(contents_of(part_of(pair_of(sides[0], sides[1]))))
    table = [row for row in rows(page, "numbers") if re.match(r"\d+:\d+", row[0])]
    assert [row[7] for row in table] == ["0", "", ""]
    assert table[2][3] == "="


def test_the_card_says_what_the_verdict_rests_on() -> None:
    page = report_html(contents_of(part_of(forked())))
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>(.*?)</dd>", page))
    assert facts["noise floor"] == "0.061000 nats (99th percentile of n = 4,321 steps)"
    assert facts["repeats, cached"] == "2 of 2 runs bit-identical"
    assert facts["first difference"] == "token, at request 3, token 17"
    assert facts["near ties up to it"] == str(forked().comparison.near_ties)


@pytest.mark.parametrize("pair", of_every_kind(), ids=lambda pair: pair.verdict.headline[:40])
def test_every_kind_of_fork_makes_a_page(pair: Any) -> None:
    page = report_html(contents_of(part_of(pair)))
    assert pair.verdict.headline.split("‘")[0] in page
    fork = pair.comparison.fork
    marked = Page(page).of("bdi t fork")
    assert len(marked) == (0 if fork is None or fork.step is None else 2)


def test_a_pair_of_runs_is_not_called_a_pair_of_paths() -> None:
    pair = forked()
    page = report_html(contents_of(part_of(replace(pair, comparison=replace(pair.comparison, names=run_names(2))))))
    assert "◆ Second run" in page and "first run token" in page
    assert not any(f"<th>{name}" in page or f"{name}, solid" in page for name in PATH_NAMES)


@pytest.mark.parametrize("level", ["light", "strict"])
def test_a_redacted_page_shows_no_text_and_says_so(level: Redaction) -> None:
    contents = contents_of(part_of(forked(), log="secret log"))
    page = report_html(redacted(contents, level))
    assert LABELS[level].replace("'", "&#39;") in page
    assert all(sentence in page for sentence in CANNOT[level])
    assert page.index('class="redacted"') < page.index("<section") and 'class="asked"' not in page
    assert 'class="redacted"' not in report_html(contents)
    assert 'class="plot"' in page
    marked = Page(page).of("bdi t fork")
    assert len(set(marked)) == 2 and all(re.fullmatch(r"#\d+", text) for text in marked)
    assert not [word for word in ("Tuesday", "·the", ">tool<", "{&#34;", "é") if word in page]
    assert "next free hour" not in page and "secret log" not in page


def test_several_pairs_have_an_index_and_a_long_episode_a_close_up() -> None:
    long = forked(requests=4, steps_each=900, fork_request=3, fork_step=100)
    page = report_html(contents_of(part_of(forked()), part_of(long)))
    assert re.findall(r'href="#pair-\d+"', page) == ['href="#pair-1"', 'href="#pair-2"']
    plots = re.findall(r"<svg[^>]*class=\"plot.*?</svg>", page, re.DOTALL)
    assert [re.search(r"([\d,]+) steps", plot)[1] for plot in plots] == ["120", "121", "3,600"]  # type: ignore[index]
    assert all("fork-mark" in plot and len(plot) < 80_000 for plot in plots)


@pytest.mark.parametrize(("fork_step", "anchor"), [(3, "end"), (11, "start")])
def test_the_near_ties_label_keeps_off_the_forks_line(fork_step: int, anchor: str) -> None:
    pair = forked(requests=2, steps_each=12, fork_request=1, fork_step=fork_step)
    assert f'text-anchor="{anchor}">near tie' in report_html(contents_of(part_of(pair)))


def test_where_no_margin_was_reported_the_page_says_so() -> None:
    sides = [
        replace(
            side,
            requests=tuple(
                replace(r, steps=replace(r.steps, rival_logprobs=np.full_like(r.steps.rival_logprobs, np.nan)))
                for r in side.requests
            ),
        )
        for side in _sides()
    ]
    page = report_html(contents_of(part_of(pair_of(sides[0], sides[1]))))
    assert "No margins were reported." in page and ">nan" not in page


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_the_page_wears_the_windows_colours(theme: Theme) -> None:
    css = (paths.resources_dir() / "report" / "report.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#\w+)", dark if theme is DARK else light))
    assert len(colours) > 12
    assert colours == {name: getattr(theme, name.replace("-", "_")) for name in colours}
