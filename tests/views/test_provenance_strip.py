"""The strip above a pane: chunks, decoded positions, what was evaluated now."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.trajectory.trajectory import Path, Span
from app.views.pane_header import PaneHeader, counts_text
from app.views.provenance_strip import ProvenanceStrip, pieces_of, summary
from app.views.theme import LIGHT
from tests.builders import request, step
from tests.views.made_windows import Dress


def test_a_span_of_several_chunks_is_cut_and_neighbouring_chunks_differ_in_shade() -> None:
    spans = (
        Span(0, 1100, "prefill", "made r1", 512),
        Span(1100, 30, "decode", "made r1"),
        Span(1130, 8, "prefill", ""),
    )
    pieces = list(pieces_of(spans))
    assert [(piece.start, piece.stop) for piece in pieces] == [
        (0, 512),
        (512, 1024),
        (1024, 1100),
        (1100, 1130),
        (1130, 1138),
    ]
    assert [piece.shade for piece in pieces if piece.span.kind == "prefill"] == [0, 1, 0, 1]


def test_the_strip_is_also_a_sentence() -> None:
    own = request(1, range(100), [step(1)], cached=90)
    assert summary(own) == (
        "100 prompt positions: 55 prefilled in 2 chunks, 45 decoded one by one, 10 evaluated by this request."
    )
    assert summary(replace(own, spans=())).endswith("not reported.")


def test_a_position_names_its_writer_and_chunk(qtbot: QtBot) -> None:
    strip = ProvenanceStrip(Path.CACHED, LIGHT)
    qtbot.addWidget(strip)
    strip.resize(200, 30)
    strip.show_request(request(1, range(100), [step(1)], cached=90))
    assert strip.describe(10) == "Prompt tokens 1 to 45: prefilled in made-00 r1 in a chunk of 45 tokens"
    assert strip.describe(100) == "Prompt tokens 46 to 90: decoded one by one in made-00 r1"
    assert strip.describe(199).endswith("in a chunk of 10 tokens, evaluated by this request")
    assert "10 evaluated by this request" in strip.accessibleDescription()


def test_decoded_positions_are_painted_in_the_paths_colour(qtbot: QtBot) -> None:
    strip = ProvenanceStrip(Path.CACHED, LIGHT)
    qtbot.addWidget(strip)
    strip.resize(200, 30)
    strip.show_request(request(1, range(100), [step(1)], cached=90))
    image = strip.grab().toImage()
    assert [image.pixelColor(x, 3).name() for x in (40, 130, 190)] == [
        LIGHT.prefill,
        LIGHT.cached,
        LIGHT.prefill_alternate,
    ]
    assert image.pixelColor(190, 9).name() == LIGHT.text  # evaluated now
    assert image.pixelColor(130, 9).name() != LIGHT.text


@pytest.mark.parametrize(
    ("cached", "text"),
    [(90, "90 cached · 10 evaluated"), (0, "0 cached · 100 evaluated"), (None, "cached: not reported")],
)
def test_counts_are_said_and_none_is_not_zero(cached: int | None, text: str) -> None:
    assert counts_text(request(1, range(100), [step(1)], cached=cached)) == text


def test_a_prefill_takes_the_place_of_the_counts_until_it_ends(qtbot: QtBot) -> None:
    header = PaneHeader(Path.CACHED, LIGHT)
    qtbot.addWidget(header)
    header.resize(400, 60)
    header.show_request(request(1, range(100), [step(1)], cached=90))
    header.set_progress("prefill 310 of 450", 0.69)
    assert header.counts.text() == "prefill 310 of 450"
    header.set_progress("", None)
    assert header.counts.text() == "90 cached · 10 evaluated"


def test_the_head_of_a_pane_follows_the_text_size(qtbot: QtBot, dress: Dress) -> None:
    head = PaneHeader(Path.CACHED, LIGHT)
    qtbot.addWidget(head)
    head.show()
    dress(LIGHT, 1.0)
    small = head.title.sizeHint().height(), head.counts.sizeHint().height()
    dress(LIGHT, 2.0)
    assert head.title.sizeHint().height() > 1.5 * small[0]
    assert head.counts.sizeHint().height() > 1.5 * small[1]


@pytest.mark.parametrize("width", [90, 140, 200, 320])
def test_a_narrow_legend_leaves_out_whole_words(qtbot: QtBot, width: int) -> None:
    strip = ProvenanceStrip(Path.RECOMPUTE, LIGHT)
    qtbot.addWidget(strip)
    strip.show_request(request(1, range(100), [step(1)]))
    strip.set_text_scale(1.5)
    strip.resize(width, strip.sizeHint().height())
    image = strip.grab().toImage()
    edge = {image.pixelColor(width - 1, y).name() for y in range(12, image.height())}
    assert len(edge) == 1, "a word runs out of the strip"
