"""Where the text and the tokens of one block lie: advances, line breaking, wrapping. Arithmetic only, no Qt.

All lengths are pixels, as float. A token's advance is the sum of its bytes' advances (the painter switches kerning
off), taken from a table in one numpy pass over the block; only tokens that hold other bytes than printable ASCII,
newline or tab are measured one by one, each distinct one once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.trajectory.piece_text import LONGEST, inert, visible
from app.trajectory.step import IdArray, StepBlock

Lengths = NDArray[np.float64]
Tone = Literal["message", "note", "fork"]

_PLAIN = [*range(0x20, 0x7F), 0x0A, 0x09]
FOLDED_LINES = 12
"""A message longer than this is cut, with a line that says how many lines are hidden and unfolds it."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Sizes of one pane's content. `width` is the pane's; `indent` is where text begins, right of the role gutter.

    The forked token has `fork_pad` inside its frame and `fork_room` outside it, for the cursor's frame.
    """

    width: float
    header: float = 26.0
    gap: float = 6.0
    line: float = 18.0
    token_line: float = 26.0
    token_gap: float = 7.0
    fork_pad: float = 4.0
    fork_room: float = 3.0
    margin: float = 9.0
    indent: float = 56.0

    def scaled(self, scale: float, width: float) -> Metrics:
        """Every size times `scale`, at another width."""
        sizes = {name: getattr(self, name) * scale for name in self.__slots__ if name != "width"}
        return Metrics(width=width, **sizes)

    @property
    def available(self) -> float:
        """Width left for text."""
        return max(40.0, self.width - self.indent - 2 * self.margin - self.gap)


class Advances:
    """Advance widths in one font; `measure` gives the width of any string and is called once per distinct one."""

    def __init__(self, measure: Callable[[str], float]) -> None:
        self._measure = measure
        self._table = np.zeros(256)
        self._table[_PLAIN] = [measure(visible(bytes([byte]))) for byte in _PLAIN]
        self._plain = np.zeros(256, dtype=bool)
        self._plain[_PLAIN] = True
        self._known: dict[str | bytes, float] = {}

    def text(self, text: str) -> float:
        """Width of any string as it is drawn."""
        width = self._known.get(text)
        if width is None:
            width = self._known[text] = self._measure(text)
        return width

    def tokens(self, steps: StepBlock) -> Lengths:
        """Width of every token of a block as `visible` shows it, float64 [n]."""
        data = np.frombuffer(steps.piece_bytes, dtype=np.uint8)
        ends = steps.piece_ends.astype(np.int64)
        starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
        along = np.concatenate(([0.0], np.cumsum(self._table[data])))
        odd = np.concatenate(([0], np.cumsum(~self._plain[data])))
        widths = along[ends] - along[starts]
        other = (odd[ends] > odd[starts]) | (ends == starts) | (ends - starts > LONGEST)
        for index in np.flatnonzero(other):
            widths[index] = self._piece(steps.piece_bytes[starts[index] : ends[index]])
        return np.asarray(widths)

    def _piece(self, piece: bytes) -> float:
        width = self._known.get(piece)
        if width is None:
            width = self._known[piece] = self._measure(visible(piece))
        return width

    def characters(self, text: str) -> Lengths:
        """Advance of every character of a message line, float64 [len(text)]."""
        if text.isascii():
            codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
            return np.asarray(np.where(codes == 0x20, self.text(" "), self._table[codes]))
        return np.array([self.text(character) for character in text])


def break_tokens(widths: Lengths, gap: float, available: float, breaks_after: NDArray[np.bool_]) -> IdArray:
    """First token of every line, and n at the end: int32 [lines + 1].

    Greedy; a token is never split, one wider than `available` has a line of its own, and a line ends after a token
    where `breaks_after` is set.
    """
    count = len(widths)
    ends = np.cumsum(widths + gap).tolist()
    forced = (np.flatnonzero(breaks_after) + 1).tolist()
    forced.append(count)
    starts, start, at = [0], 0, 0
    while start < count:
        limit = (ends[start - 1] if start else 0.0) + available + gap
        stop = max(start + 1, bisect_right(ends, limit, lo=start, hi=forced[at]))
        if stop >= forced[at]:
            stop = forced[at]
            at += 1
        starts.append(stop)
        start = stop
    return np.array(starts if count else [0], dtype=np.int32)


def wrap(text: str, advances: Advances, available: float) -> list[str]:
    """Message text as lines no wider than `available`: broken after spaces, inside a word only where it must be."""
    lines: list[str] = []
    for paragraph in inert(text).split("\n"):
        ends = np.cumsum(advances.characters(paragraph)).tolist() if paragraph else []
        start = 0
        while start < len(paragraph):
            limit = (ends[start - 1] if start else 0.0) + available
            stop = max(start + 1, bisect_right(ends, limit, lo=start))
            if stop < len(paragraph) and paragraph[stop] != " ":
                space = paragraph.rfind(" ", start, stop)
                stop = space + 1 if space > start else stop
            lines.append(paragraph[start:stop].rstrip(" "))
            start = stop
            while start < len(paragraph) and paragraph[start] == " " and stop < len(paragraph):
                start += 1
        if not paragraph:
            lines.append("")
    return lines


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A message, or a remark of the window (`tone` says which), wrapped. `hidden` lines are folded away."""

    role: str
    text: str
    lines: tuple[str, ...]
    hidden: int = 0
    tone: Tone = "message"

    @property
    def line_count(self) -> int:
        """Lines on screen: those shown and the one that says how many are hidden."""
        return len(self.lines) + (self.hidden > 0)


@dataclass(frozen=True, slots=True)
class Remark:
    """A paragraph that is not wrapped yet."""

    role: str
    text: str
    tone: Tone = "message"


def fold(remark: Remark, advances: Advances, available: float, whole: bool) -> Paragraph:
    """Wrap a remark; cut it to FOLDED_LINES unless it is to be shown `whole`."""
    lines = wrap(remark.text, advances, available)
    shown = lines if whole or len(lines) <= FOLDED_LINES + 1 else lines[:FOLDED_LINES]
    return Paragraph(remark.role, remark.text, tuple(shown), len(lines) - len(shown), remark.tone)


@dataclass(frozen=True, eq=False)
class Body:
    """One side of an unfolded block: paragraphs, then tokens in lines, then paragraphs.

    `lefts` and `widths` float64 [n] are the tokens' places in their lines, from the indent; `starts` int32 [lines + 1].
    Where the path has no token at the fork, `marker` is the extra entry at the end that says so (else None).
    """

    before: tuple[Paragraph, ...] = ()
    lefts: Lengths = field(default_factory=lambda: np.empty(0))
    widths: Lengths = field(default_factory=lambda: np.empty(0))
    starts: IdArray = field(default_factory=lambda: np.zeros(1, dtype=np.int32))
    after: tuple[Paragraph, ...] = ()
    marker: int | None = None

    @property
    def line_count(self) -> int:
        """Number of token lines."""
        return len(self.starts) - 1

    def line_of(self, index: int) -> int:
        """Which token line holds token `index`."""
        return int(np.searchsorted(self.starts, index, side="right")) - 1

    def nearest(self, line: int, x: float) -> int:
        """The token of a line whose place is nearest to `x` (from the indent)."""
        first, stop = int(self.starts[line]), int(self.starts[line + 1])
        right = self.lefts[first:stop] + self.widths[first:stop]
        left = self.lefts[first:stop]
        return first + int(np.argmin(np.maximum(np.maximum(left - x, x - right), 0.0)))


def flow(steps: StepBlock, advances: Advances, metrics: Metrics, fork_step: int | None, marker_text: str) -> Body:
    """The tokens of a request in lines. The token at `fork_step` gets room for its frame; where that is one past the
    last token, an entry as wide as `marker_text` stands for the missing token."""
    widths = advances.tokens(steps)
    ends = steps.piece_ends.astype(np.int64)
    data = np.frombuffer(steps.piece_bytes, dtype=np.uint8)
    filled = ends > np.concatenate(([0], ends[:-1])) if len(ends) else np.empty(0, bool)
    newline = np.zeros(len(widths), dtype=bool)
    newline[filled] = data[ends[filled] - 1] == 0x0A
    marker = len(widths) if fork_step == len(widths) else None
    if marker is not None:
        widths, newline = np.append(widths, advances.text(marker_text)), np.append(newline, False)
    places = np.minimum(widths, metrics.available)
    if fork_step is not None and fork_step < len(places):
        places[fork_step] += 2 * (metrics.fork_pad + metrics.fork_room)
    starts = break_tokens(places, metrics.token_gap, metrics.available, newline)
    along = np.cumsum(places + metrics.token_gap) - (places + metrics.token_gap)
    lefts = along - np.repeat(along[starts[:-1]], np.diff(starts)) if len(places) else along
    return Body(lefts=lefts, widths=places, starts=starts, marker=marker)


def paragraphs_height(paragraphs: Sequence[Paragraph], metrics: Metrics) -> float:
    """Height of paragraphs under each other, each followed by a gap."""
    return sum(paragraph.line_count * metrics.line + metrics.gap for paragraph in paragraphs)
