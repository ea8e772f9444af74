from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.piece_ids import OWN_IDS, PieceIds
from app.errors import EngineError

CHAT = "<|im_start|>user\nMove it.<|im_end|>\n<|im_start|>assistant\n"


@given(st.text())
def test_any_text_is_rebuilt_from_its_ids(text: str) -> None:
    pieces = PieceIds()
    assert pieces.bytes_of(pieces.ids_of_text(text)).decode() == text


@given(st.binary(), st.binary())
def test_equal_ids_mean_equal_bytes(left: bytes, right: bytes) -> None:
    pieces = PieceIds()
    assert (pieces.id_of(left) == pieces.id_of(right)) == (left == right)


def test_ids_fit_into_int32_and_are_no_ids_of_a_vocabulary() -> None:
    pieces = PieceIds()
    assert all(OWN_IDS <= pieces.id_of(str(n).encode()) < 2**31 for n in range(1000))


def test_words_keep_the_space_before_them_and_control_tokens_are_pieces() -> None:
    pieces = PieceIds()
    cut = [pieces.bytes_of([one]).decode() for one in pieces.ids_of_text(CHAT + "It's  14:00, é.")]
    assert cut[:6] == ["<|im_start|>", "user", "\n", "Move", " it", "."]
    assert cut[-10:] == ["It", "'", "s", "  ", "14", ":", "00", ",", " é", "."]


def test_a_continued_text_keeps_the_ids_of_its_beginning() -> None:
    pieces = PieceIds()
    first = pieces.ids_of_text(CHAT)
    assert pieces.ids_of_text(CHAT + "Done.<|im_end|>\n")[: len(first) - 1] == first[:-1]


def test_ids_are_the_same_in_another_process() -> None:
    code = f"from app.engine.piece_ids import PieceIds; print(PieceIds().ids_of_text({CHAT!r}))"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == str(PieceIds().ids_of_text(CHAT))


def test_a_second_piece_with_the_same_id_is_refused_and_both_are_named() -> None:
    pieces = PieceIds()
    met: dict[int, bytes] = {}
    with pytest.raises(EngineError) as caught:  # 31 bits: by the birthday rule after some 60,000 pieces
        for number in range(2_000_000):
            piece = f"piece {number}".encode()
            met[pieces.id_of(piece)] = piece
    named = [piece for piece in met.values() if repr(piece) in str(caught.value)]
    assert len(named) == 1
    assert str(next(token_id for token_id, piece in met.items() if piece == named[0])) in str(caught.value)


def test_an_id_that_was_never_given_out_is_refused() -> None:
    with pytest.raises(EngineError, match="Nothing is known of the id 7"):
        PieceIds().bytes_of([7])


def test_a_servers_own_ids_go_along_with_made_up_ones() -> None:
    pieces = PieceIds()
    ids = [*pieces.ids_of_text("Say it: "), pieces.learn(17, b"\xf0\x9f"), pieces.learn(18, b"\xa6\x8a")]
    assert pieces.bytes_of(ids).decode() == "Say it: 🦊"


@pytest.mark.parametrize(("token_id", "piece"), [(17, b"another"), (-1, b"x"), (OWN_IDS, b"x")])
def test_an_id_that_cannot_be_the_servers_is_refused(token_id: int, piece: bytes) -> None:
    pieces = PieceIds()
    pieces.learn(17, b"one")
    with pytest.raises(EngineError, match="no id or was another"):
        pieces.learn(token_id, piece)
