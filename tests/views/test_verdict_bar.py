from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.trajectory.pair import Comparison, Verdict
from app.views.theme import DARK, LIGHT
from app.views.verdict_bar import VerdictBar

VERDICT = Verdict(
    "N",
    "Forked at request 3, token 17: a near tie (0.04 nats), ‘ 14’ against ‘ 15’.",
    "The tool call changed, the outcome did not. Both paths repeat exactly (2 of 2).",
    "N: the margin at the fork, 0.04 nats, lies within 0.22.",
)
INVALID = Comparison(
    "files-08", "files", None, False, 0, 0, None, None, 0,
    tool_calls_changed=False, outcome_changed=False, problems=("the cached pass hit nothing",),
)  # fmt: skip


@pytest.fixture
def bar(qtbot: QtBot) -> VerdictBar:
    made = VerdictBar(LIGHT)
    qtbot.addWidget(made)
    made.resize(700, 120)
    made.show()
    return made


@pytest.mark.parametrize(
    ("code", "glyph"),
    [("N", "◆"), ("S", "◆"), ("equal", "○"), ("drift", "≈"), ("invalid", "✗"), ("unproven", "?"), ("open", "…")],
)
def test_every_code_has_its_shape(bar: VerdictBar, code: str, glyph: str) -> None:
    bar.show_verdict(replace(VERDICT, code=code))
    assert bar._glyph.text() == glyph


def test_the_rule_unfolds_on_demand_with_the_reasons_why_a_pair_does_not_count(bar: VerdictBar) -> None:
    bar.show_verdict(replace(VERDICT, code="invalid"), INVALID)
    assert not bar._rule.isVisible()
    QTest.mouseClick(bar._why, Qt.MouseButton.LeftButton)
    assert bar._rule.isVisible()
    assert bar._rule.text() == f"{VERDICT.rule}\nthe cached pass hit nothing"
    assert bar.text().splitlines() == [VERDICT.headline, VERDICT.detail, VERDICT.rule, "the cached pass hit nothing"]


def test_a_message_has_no_rule_to_ask_for(bar: VerdictBar) -> None:
    bar.show_verdict(VERDICT)
    bar.show_message("Loading the engine…", "A few seconds.")
    assert not bar._why.isVisible()
    assert bar.text() == "Loading the engine…\nA few seconds."


def test_nothing_is_cut_off_however_narrow_it_gets(qtbot: QtBot) -> None:
    window, bar = QWidget(), VerdictBar(LIGHT)
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    column.addWidget(bar)
    column.addWidget(QWidget(), 1)
    bar.show_verdict(VERDICT)
    bar._why.setChecked(True)
    window.resize(420, 500)
    with qtbot.waitExposed(window):
        window.show()
    for label in (bar._headline, bar._detail, bar._rule):
        assert label.height() >= label.heightForWidth(label.width())
    assert window.minimumSizeHint().height() < 200


def test_a_quoted_token_is_never_broken_between_lines_and_markup_is_inert(bar: VerdictBar) -> None:
    bar.show_verdict(replace(VERDICT, headline="Forked: ‘ <b>14</b>’ against ‘ 15’."))
    assert "‘\u00a0<b>14</b>’" in bar._headline.text()
    assert bar._headline.textFormat() is Qt.TextFormat.PlainText
    assert "‘ <b>14</b>’" in bar.text()


def test_it_reads_aloud_and_takes_another_theme(bar: VerdictBar) -> None:
    bar.show_verdict(VERDICT)
    assert bar.accessibleDescription().startswith("forked. Forked at request 3")
    bar.set_theme(DARK)
    assert DARK.fork in bar._glyph.styleSheet()


@pytest.mark.parametrize(
    ("headline", "kept"),
    [
        ("Forked: ‘’ and’ against ‘ or’.", ("‘’\u00a0and’", "‘\u00a0or’")),
        ("the cached path ends there, the recompute path goes on with ‘ a b’.", ("‘\u00a0a\u00a0b’",)),
        ("Forked: ‘ a’ (id 5) against ‘ a’ (id 6). Not finished yet.", ("‘\u00a0a’ (id 5)", "‘\u00a0a’ (id 6)")),
    ],
)
def test_a_quote_is_kept_whole_wherever_it_stands(bar: VerdictBar, headline: str, kept: tuple[str, ...]) -> None:
    bar.show_verdict(replace(VERDICT, headline=headline))
    assert all(quote in bar._headline.text() for quote in kept)
    assert bar.text().startswith(headline)


def test_a_reason_that_the_rule_names_is_not_said_twice(bar: VerdictBar) -> None:
    rule = "A pair counts only where nothing is wrong; here: the cached pass hit nothing."
    bar.show_verdict(replace(VERDICT, code="invalid", rule=rule), INVALID)
    assert bar._rule.text() == rule
