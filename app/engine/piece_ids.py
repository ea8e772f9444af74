"""Ids for the pieces of a text, where an engine gives and takes no token ids.

Such an engine is asked by text and answers in pieces of text or bytes. The rest of the house speaks in ids, so each
piece gets one, made of 31 bits of its BLAKE2b hash: the same in every process and on every machine. **Equal ids mean
equal bytes, and no more**: not that the model took the same tokens. The other way round, a text that was cut in other
places has other ids; so all text that is not an answer is cut in one way, into words with the space before them, marks,
white space and control tokens.

Two different pieces of one hash would break the promise: the second one that is met is refused. Of 2,000 different
pieces that befalls one run in 1,000, of 10,000 one in 43. Another id for it would depend on which piece was met first,
and two runs of one conversation could differ in their ids alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from app.errors import EngineError

OWN_IDS: Final = 2**20
"""Made-up ids begin here; a server's own ones lie below, no vocabulary being that large."""

_PIECE: Final = re.compile(r" ?<\|[^|<>\s]{1,40}\|>| ?\w+| ?[^\w\s]|\s+")


class PieceIds:
    """The pieces met so far, by id; it grows with the number of different pieces, not of requests."""

    def __init__(self) -> None:
        self._pieces: dict[int, bytes] = {}

    def ids_of_text(self, text: str) -> list[int]:
        """Ids of a text that is no answer, cut into words and the like; their bytes are the text's UTF-8."""
        return [self.id_of(piece.encode("utf-8")) for piece in _PIECE.findall(text)]

    def id_of(self, piece: bytes) -> int:
        """The piece's id, OWN_IDS <= id < 2**31. Raises EngineError where another piece has the same."""
        token_id = OWN_IDS + int.from_bytes(hashlib.blake2b(piece, digest_size=8).digest()) % (2**31 - OWN_IDS)
        if self._pieces.setdefault(token_id, piece) != piece:
            raise EngineError(
                f"The pieces {piece!r} and {self._pieces[token_id]!r} would get the same id, {token_id}.",
                "This engine reports no token ids; run the two episodes apart, or use an engine that reports them.",
            )
        return token_id

    def learn(self, token_id: int, piece: bytes) -> int:
        """Make the piece of a server's own id known; returns the id. Raises EngineError for one that cannot be its."""
        if not 0 <= token_id < OWN_IDS or self._pieces.setdefault(token_id, piece) != piece:
            raise EngineError(f"The server gave {piece!r} the id {token_id}, which is no id or was another piece's.")
        return token_id

    def bytes_of(self, ids: Iterable[int]) -> bytes:
        """The pieces of the ids, end to end. Raises EngineError for an id that was never given out."""
        try:
            return b"".join([self._pieces[int(token_id)] for token_id in ids])
        except KeyError as error:
            raise EngineError(
                f"Nothing is known of the id {error.args[0]}: this engine takes text, not the ids of another run.",
                "Choose an episode that comes with its messages.",
            ) from error
