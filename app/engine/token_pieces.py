"""The raw bytes of tokens, from servers that tell texts only: a token that is no whole character shows as U+FFFD there.

Tokenizers spell such a token out in a byte alphabet of their own: GPT-2's (each byte a letter, see
https://github.com/openai/gpt-2/blob/master/src/encoder.py) or SentencePiece's byte fallback, "<0xE2>".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from app.engine.base import StopFlag

TextsOf = Callable[[Sequence[int], StopFlag | None], Sequence[str]]
"""texts(ids, stop) -> the text of each token; bytes that are no whole character as U+FFFD."""

SpellingsOf = Callable[[str, StopFlag | None], Mapping[int, str]]
"""spellings(text, stop) -> how the tokenizer spells the tokens of `text`, by id; empty where that is not told."""

REPLACEMENT: Final = "\ufffd"

_PRINTABLE: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS: Final = [byte for byte in range(256) if byte not in _PRINTABLE]
_BYTE_OF: Final = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + n): byte for n, byte in enumerate(_OTHERS)}
_FALLBACK: Final = re.compile(r"<0x([0-9A-F]{2})>")

_SAMPLED: Final = (
    *range(0xA1, 0x800),
    *(start + offset for start in range(0x800, 0x10000, 0x40) for offset in (0x01, 0x13, 0x2B)),
    *range(0x2010, 0x2C00),
    *range(0x1D400, 0x1D800),
    *range(0x1F000, 0x1FB00),
    *range(0x10000, 0x110000, 0x4000),
)
"""Code points whose UTF-8 has every first and later byte in use, and the parts of characters that tokenizers know."""


def bytes_of_spelling(spelling: str, text: str) -> bytes | None:
    """The bytes that `spelling` stands for; None where it is in neither alphabet or contradicts the token's `text`."""
    fallback = _FALLBACK.fullmatch(spelling)
    if fallback:
        piece = bytes.fromhex(fallback[1])
    elif all(letter in _BYTE_OF for letter in spelling):
        piece = bytes(_BYTE_OF[letter] for letter in spelling)
    else:
        return None
    return piece if piece.decode("utf-8", errors="replace") == text else None


class TokenPieces:
    """The bytes of tokens by id, asked for once each.

    Where a token's spelling cannot be had its piece is what the server shows: U+FFFD in place of the bytes.
    """

    def __init__(self, texts: TextsOf, spellings: SpellingsOf) -> None:
        self._texts = texts
        self._spellings = spellings
        self._pieces: dict[int, bytes] = {}
        self._spelled: dict[int, str] | None = None

    def learn(self, ids: Iterable[int], text: str = "", stop: StopFlag | None = None) -> None:
        """Make the pieces of `ids` known, in one request; `text` is an answer in which some of them stand."""
        new = sorted(set(ids) - self._pieces.keys())
        if not new:
            return
        shown = dict(zip(new, self._texts(new, stop), strict=True))
        broken = [token_id for token_id, seen in shown.items() if REPLACEMENT in seen]
        if broken:
            self._spell(broken, text, stop)
        for token_id, seen in shown.items():
            exact = bytes_of_spelling((self._spelled or {}).get(token_id, ""), seen) if REPLACEMENT in seen else None
            self._pieces[token_id] = seen.encode() if exact is None else exact

    def piece(self, token_id: int) -> bytes:
        """The bytes of a token that was learnt."""
        return self._pieces[token_id]

    def _spell(self, ids: Sequence[int], text: str, stop: StopFlag | None) -> None:
        if self._spelled is None:
            self._spelled = dict(self._spellings(_sampler(), stop))
        if text and not self._spelled.keys() >= set(ids):
            self._spelled |= self._spellings(text, stop)


def _sampler() -> str:
    """A text in which byte tokens and parts of characters stand, at the start of words and inside them."""
    letters = [chr(point) for point in _SAMPLED if not 0xD800 <= point < 0xE000]  # surrogates are no characters
    return "".join(letters) + " " + " ".join(letters)
