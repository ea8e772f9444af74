"""What a token or a message looks like on screen: nothing invisible, nothing that acts. No Qt.

Model text is inert: control, format and bidirectional characters, lone surrogates and bytes that are no UTF-8 are
written out as escapes; spaces and line ends inside tokens get a sign.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

SPACE, NEWLINE, TAB, EMPTY = "·", "⏎", "⇥", "∅"
SIGNS = {" ": SPACE, "\n": NEWLINE, "\t": TAB}
LONGEST = 48
"""Characters of one token that are shown; the rest is counted."""

LONGEST_QUOTE = 32
"""Characters of one token that a sentence shows."""

_LOOSE_SPACE = re.compile(r" (?=\s|\Z)|(?<=\s) ")

# Cc, Cf (bidirectional marks, zero width), Cs, Co, Cn; line and paragraph separators; spaces that look like ' '.
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_COMBINING = frozenset({"Mn", "Me"})


def escape(character: str) -> str:
    r"""A character as itself, or written out (\x1B, \u202E, \U000E0001) where it is invisible or acts on its line."""
    if unicodedata.category(character) not in _ESCAPED_CATEGORIES or character == " ":
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02X}"
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


@lru_cache(maxsize=1 << 16)
def visible(piece: bytes, longest: int = LONGEST) -> str:
    """A token's bytes as one line: signs for space, newline and tab, escapes for partial UTF-8 and what is invisible.

    A piece of no bytes is shown as the empty sign; more than `longest` characters are cut and counted.
    """
    if not piece:
        return EMPTY
    text = piece.decode("utf-8", errors="surrogateescape")
    shown = "".join(SIGNS.get(character) or escape(character) for character in text[:longest])
    if unicodedata.category(shown[0]) in _COMBINING:
        shown = "◌" + shown  # an accent alone would sit on its neighbour
    return shown if len(text) <= longest else f"{shown}…+{len(text) - longest:,}"


def inert(text: str) -> str:
    """Message text whose line ends and tabs work and whose other control, format and bidi characters are escaped."""
    if text.isascii() and text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return "\n".join(line if line.isascii() and line.isprintable() else "".join(map(escape, line)) for line in lines)


def quoted(piece: bytes) -> str:
    r"""A token as a sentence names it, e.g. ‘ 14’.

    A space before or between words stays one; other spaces, line ends and tabs get a sign (· ⏎ ⇥). Bytes that are no
    UTF-8 and characters that are invisible or act on the line (control, bidirectional) are written out (\xE2, \u202E).
    """
    text = piece.decode("utf-8", errors="surrogateescape")
    spaced = _LOOSE_SPACE.sub(SPACE, text[:LONGEST_QUOTE])
    shown = "".join(
        character if character == " " else SIGNS.get(character) or escape(character) for character in spaced
    )
    return f"‘{shown}…’" if len(text) > LONGEST_QUOTE else f"‘{shown}’"


def hex_bytes(piece: bytes) -> str:
    """Bytes as people write them in a report: "20 31 34"."""
    return piece.hex(" ").upper()
