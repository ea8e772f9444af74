"""Tokens and messages on screen: visible, and inert."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trajectory.piece_text import EMPTY, LONGEST, hex_bytes, inert, quoted, visible


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (b" the", "·the"),
        (b"\n", "⏎"),
        (b"\t\t", "⇥⇥"),
        (b"\r\n", r"\x0D⏎"),
        (b"\xe2", r"\xE2"),
        (b"\x80\x94", r"\x80\x94"),
        ("a\u202egnp".encode(), r"a\u202Egnp"),
        (b"\x1b[31m", r"\x1B[31m"),
        ("\u200b".encode(), r"\u200B"),
        ("\u00a0".encode(), r"\xA0"),
        ("\U000e0001".encode(), r"\U000E0001"),
        ("\u0301".encode(), "◌\u0301"),
        ("é中".encode(), "é中"),
        (b"<b>", "<b>"),
        (b"", EMPTY),
    ],
)
def test_a_token_shows_what_it_holds(piece: bytes, shown: str) -> None:
    assert visible(piece) == shown


def test_a_token_of_10000_characters_is_cut_and_counted() -> None:
    shown = visible(b"x" * 10_000)
    assert shown == "x" * LONGEST + "…+9,952"


@given(st.binary(max_size=200))
def test_no_token_shows_a_control_or_format_character(piece: bytes) -> None:
    assert all(unicodedata.category(character)[0] not in "CZ" for character in visible(piece))


@given(st.text(max_size=200))
def test_a_message_keeps_its_lines_and_nothing_else_that_acts(text: str) -> None:
    shown = inert(text)
    assert all(unicodedata.category(character)[0] != "C" or character == "\n" for character in shown)
    assert inert("plain\nlines") == "plain\nlines"


def test_a_message_shows_bidi_and_bell_as_escapes_and_tabs_as_room() -> None:
    assert inert("a\u202eb\x07\tc\r\nd") == "a\\u202Eb\\x07    c\nd"


def test_bytes_are_written_as_in_a_report() -> None:
    assert hex_bytes(b" 14") == "20 31 34"


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (b" 14", "‘ 14’"),
        (b" the cat", "‘ the cat’"),
        (b" ", "‘·’"),
        (b"   ", "‘···’"),
        (b"  x", "‘··x’"),
        (b"x ", "‘x·’"),
        (b" \n", "‘·⏎’"),
        (b"\t", "‘⇥’"),
        (b"\xe2\x82", r"‘\xE2\x82’"),
        (b"\xff a", r"‘\xFF a’"),
        (b"\x1b[31m", r"‘\x1B[31m’"),
        ("\u202eab\u200b".encode(), r"‘\u202Eab\u200B’"),
        ("\u00a0".encode(), r"‘\xA0’"),
        ("é\ufffd".encode(), "‘é\ufffd’"),
        (b"x" * 40, f"‘{'x' * 32}…’"),
    ],
)
def test_quotes_show_what_is_invisible(piece: bytes, shown: str) -> None:
    assert quoted(piece) == shown


@given(st.binary(max_size=60))
def test_no_bytes_of_a_model_can_act_on_the_line(piece: bytes) -> None:
    shown = quoted(piece)
    assert shown.isprintable() and shown.encode("utf-8")
    assert "  " not in shown
