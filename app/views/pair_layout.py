"""Where every block of a pair lies in both panes, and what is folded. Arithmetic only, no Qt.

Both panes show the same rows at the same heights: a row is as high as the taller of its two sides, and within it
messages, tokens and remarks start at the same height, so that equal things stand side by side. Folded rows never
touch their tokens; bodies of finished requests are laid out once and kept as long as the request is the same object.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from app.trajectory.pair import Fork, ForkKind
from app.trajectory.trajectory import Path, Request, Status, Trajectory
from app.views import block_text
from app.views.token_layout import Advances, Body, Metrics, Paragraph, Remark, flow, fold, paragraphs_height

Position = tuple[int, int]
"""Request and step, both from 0."""
SHORTEST_RUN = 4
"""So many equal requests before the fork become one row."""


class Kind(StrEnum):
    """What a row shows."""

    OPENING = "opening"
    RUN = "run"
    REQUEST = "request"
    OUTCOME = "outcome"


Key = tuple[Kind, int]
"""Names a row across changes: its kind and its first request."""
ParagraphKey = tuple[Key, bool, int]
"""A paragraph of a row: above (True) or below the tokens, and its number there."""


@dataclass(frozen=True, slots=True)
class Row:
    """A foldable block of both panes: requests `first` to `last`, both included."""

    kind: Kind
    first: int
    last: int
    is_open: bool
    after_fork: bool

    @property
    def key(self) -> Key:
        """What names this row."""
        return self.kind, self.first


@dataclass(frozen=True, slots=True)
class Sections:
    """Where the parts of an open row begin, from the row's top; the same on both sides."""

    before: float
    tokens: float
    after: float
    end: float


class PairLayout:
    """Rows of a pair with their folds and places. `tops` float64 [rows + 1] ends with the height of everything."""

    def __init__(self, metrics: Metrics, text: Advances, tokens: Advances) -> None:
        self.metrics = metrics
        self._text = text
        self._tokens = tokens
        self.sides: dict[Path, Trajectory | None] = dict.fromkeys(Path)
        self.fork: Fork | None = None
        self.rows: list[Row] = []
        self.tops = np.zeros(1)
        self._row_of_request = np.empty(0, dtype=np.int32)
        self._open: set[Key] = set()
        self._whole: frozenset[ParagraphKey] = frozenset()
        self._bodies: dict[tuple[Path, Key], tuple[tuple[object, ...], Body]] = {}
        self._sections: dict[Key, tuple[Body, Body, Sections]] = {}
        self._paragraphs: dict[tuple[Remark, bool], Paragraph] = {}
        self._seen_requests = 0

    # what is shown

    @property
    def height(self) -> float:
        """Height of everything."""
        return float(self.tops[-1])

    @property
    def request_count(self) -> int:
        """The larger number of requests of the two sides."""
        return max(len(side.requests) if side else 0 for side in self.sides.values())

    @property
    def is_running(self) -> bool:
        """Whether a side is still growing."""
        return any(side is not None and side.status is Status.RUNNING for side in self.sides.values())

    def request(self, path: Path, index: int) -> Request | None:
        """A request of one side, None where that path has none."""
        side = self.sides[path]
        return side.requests[index] if side and 0 <= index < len(side.requests) else None

    def step_count(self, index: int) -> int:
        """The larger number of steps of a request on the two sides."""
        return max((len(own.steps) for path in Path if (own := self.request(path, index))), default=0)

    def grey_from(self, request: int) -> int:
        """The first step of a request that lies after the fork, where the two paths answer different contexts;
        one past the last step of any request where none does."""
        if self.fork is None or request < self.fork.request:
            return sys.maxsize
        step = self.fork_step(request)
        return 0 if step is None else step + 1

    def fork_step(self, request: int) -> int | None:
        """The step that the fork stands on, where it is in this request's answer."""
        fork = self.fork
        if fork is None or fork.request != request or fork.kind in (ForkKind.PROMPT, ForkKind.REQUESTS):
            return None
        return fork.step

    # changes

    def show(self, cached: Trajectory | None, recompute: Trajectory | None, fork: Fork | None) -> None:
        """Lay out a pair that has grown; what is folded stays folded, requests that arrive live are open."""
        self.sides = {Path.CACHED: cached, Path.RECOMPUTE: recompute}
        if fork is not None and self.fork is None and self.rows:
            self.fork = fork
            self.fold_as_opened()
            return
        self.fork = fork
        if self.is_running and fork is None:
            self._open.update((Kind.REQUEST, index) for index in range(self._seen_requests, self.request_count))
        self._seen_requests = self.request_count
        self._place()

    def open_pair(self, cached: Trajectory | None, recompute: Trajectory | None, fork: Fork | None) -> None:
        """Lay out another pair: open on its fork."""
        self.sides = {Path.CACHED: cached, Path.RECOMPUTE: recompute}
        self.fork = fork
        self._bodies.clear()
        self._sections.clear()
        self._paragraphs.clear()
        self._whole = frozenset()
        self.fold_as_opened()

    def fold_as_opened(self) -> None:
        """The folds that a pair opens with: the forked request open; without a fork the first one; live, all."""
        count = self._seen_requests = self.request_count
        if self.fork is not None:
            self._open = {(Kind.REQUEST, self.fork.request)}
        elif self.is_running:
            self._open = {(Kind.REQUEST, index) for index in range(count)}
        else:
            self._open = {(Kind.REQUEST, 0)}
        self._place()

    def set_metrics(self, metrics: Metrics, text: Advances, tokens: Advances) -> None:
        """Lay out again for another width or another font."""
        self.metrics, self._text, self._tokens = metrics, text, tokens
        self._bodies.clear()
        self._sections.clear()
        self._paragraphs.clear()
        self._place()

    def toggle(self, row: int) -> None:
        """Fold or unfold a row."""
        self._open ^= {self.rows[row].key}
        self._place()

    def fold_all(self) -> None:
        """Fold every row."""
        self._open.clear()
        self._place()

    def unfold_all(self) -> None:
        """Unfold every row, runs included."""
        self._open = {(Kind.OPENING, 0), (Kind.RUN, 0), (Kind.OUTCOME, 0)}
        self._open.update((Kind.REQUEST, index) for index in range(self.request_count))
        self._place()

    def reveal(self, request: int) -> bool:
        """Unfold whatever hides a request's tokens; whether anything did."""
        needed = {(Kind.REQUEST, request)}
        if request < self._run_length():
            needed.add((Kind.RUN, 0))
        if needed <= self._open:
            return False
        self._open |= needed
        self._place()
        return True

    def unfold_message(self, key: ParagraphKey) -> None:
        """Show a long message whole, on both sides; or cut it again."""
        self._whole ^= {key}
        self._place()

    def _run_length(self) -> int:
        equal = self.fork.request if self.fork else 0
        return equal if equal >= SHORTEST_RUN else 0

    def _place(self) -> None:
        self.rows = list(self._rows())
        heights = np.array([self._height(row) for row in self.rows])
        self.tops = np.concatenate(([self.metrics.gap], self.metrics.gap + np.cumsum(heights)))
        self._row_of_request = np.zeros(self.request_count, dtype=np.int32)
        for index, row in enumerate(self.rows):
            if row.kind in (Kind.RUN, Kind.REQUEST):
                self._row_of_request[row.first : row.last + 1] = index

    def _rows(self) -> Iterator[Row]:
        count, run = self.request_count, self._run_length()
        if count and any(block_text.split_opening(side)[0] for side in self.sides.values()):
            yield Row(Kind.OPENING, 0, 0, (Kind.OPENING, 0) in self._open, False)
        if run:
            yield Row(Kind.RUN, 0, run - 1, (Kind.RUN, 0) in self._open, False)
        for index in range(run if run and (Kind.RUN, 0) not in self._open else 0, count):
            after = self.fork is not None and index > self.fork.request
            yield Row(Kind.REQUEST, index, index, (Kind.REQUEST, index) in self._open, after)
        if any(side is not None and side.status is not Status.RUNNING for side in self.sides.values()) and count:
            yield Row(Kind.OUTCOME, 0, count - 1, (Kind.OUTCOME, 0) in self._open, self.fork is not None)

    def _height(self, row: Row) -> float:
        if not row.is_open or row.kind is Kind.RUN:
            return self.metrics.header + self.metrics.gap
        return self.sections(row).end

    # places

    def rows_between(self, top: float, bottom: float) -> range:
        """Indices of the rows that are at least partly between two heights."""
        first = int(np.searchsorted(self.tops, top, side="right")) - 1
        last = int(np.searchsorted(self.tops, bottom, side="left"))
        return range(max(0, first), min(len(self.rows), last))

    def row_of(self, request: int) -> int:
        """The row that shows a request: its own, or the folded run that it is in."""
        return int(self._row_of_request[request])

    def row_with(self, key: Key) -> int | None:
        """The row that has this key."""
        return next((index for index, row in enumerate(self.rows) if row.key == key), None)

    def sections(self, row: Row) -> Sections:
        """Where the parts of an open row begin."""
        left, right = (self.body(path, row) for path in Path)
        known = self._sections.get(row.key)
        if known and known[0] is left and known[1] is right:
            return known[2]
        size = self.metrics
        before = max(paragraphs_height(body.before, size) for body in (left, right))
        after = max(paragraphs_height(body.after, size) for body in (left, right))
        lines = max(body.line_count for body in (left, right)) * size.token_line
        tokens = size.header + before
        parts = Sections(size.header, tokens, tokens + lines + size.gap, tokens + lines + 2 * size.gap + after)
        self._sections[row.key] = (left, right, parts)
        return parts

    def body(self, path: Path, row: Row) -> Body:
        """One side of an open row, laid out at most once for every request object."""
        side = self.sides[path]
        request = self.request(path, row.first)
        whole = frozenset(key for key in self._whole if key[0] == row.key)
        is_last = side is not None and row.first == len(side.requests) - 1
        mark = (request, side.outcome if side else None, is_last, self.fork, self.fork_step(row.first), whole)
        known = self._bodies.get((path, row.key))
        if known and known[0] == mark:
            return known[1]
        body = self._build(side, request, row)
        self._bodies[path, row.key] = (mark, body)
        return body

    def _build(self, side: Trajectory | None, request: Request | None, row: Row) -> Body:
        if side is None:
            return Body()
        if row.kind is Kind.OPENING:
            messages = block_text.split_opening(side)[0]
            remarks = [Remark(block_text.one_line(one.role, 12), one.content) for one in messages]
            return Body(before=self._fold(remarks, row, True))
        if row.kind is Kind.OUTCOME:
            detail = side.outcome.detail
            return Body(before=self._fold([Remark("", detail)] if detail else [], row, True))
        if request is None:
            return Body()
        body = self._twin(side.path, request, row) or self._flow(request)
        before = self._fold(block_text.remarks_before(side, request, self.fork), row, True)
        after = self._fold(block_text.remarks_after(side, request), row, False)
        return Body(before, body.lefts, body.widths, body.starts, after, body.marker)

    def _flow(self, request: Request) -> Body:
        return flow(request.steps, self._tokens, self.metrics, self.fork_step(request.index), block_text.END_OF_ANSWER)

    def _twin(self, path: Path, request: Request, row: Row) -> Body | None:
        """The other side's body where its answer is the same, so that equal answers are broken into lines once."""
        other = Path.RECOMPUTE if path is Path.CACHED else Path.CACHED
        twin, known = self.request(other, row.first), self._bodies.get((other, row.key))
        if twin is None or known is None or known[0][0] is not twin or known[0][4] != self.fork_step(row.first):
            return None
        equal = twin.steps.piece_bytes == request.steps.piece_bytes
        return known[1] if equal and np.array_equal(twin.steps.piece_ends, request.steps.piece_ends) else None

    def _fold(self, remarks: Iterable[Remark], row: Row, above: bool) -> tuple[Paragraph, ...]:
        return tuple(
            self._paragraph(remark, (row.key, above, number) in self._whole) for number, remark in enumerate(remarks)
        )

    def _paragraph(self, remark: Remark, whole: bool) -> Paragraph:
        """A wrapped remark; both sides mostly show the same ones."""
        known = self._paragraphs.get((remark, whole))
        if known is None:
            known = self._paragraphs[remark, whole] = fold(remark, self._text, self.metrics.available, whole)
        return known

    def paragraphs(self, path: Path, row: Row) -> Iterator[tuple[ParagraphKey, Paragraph, float]]:
        """Every paragraph of an open row on one side, with its top from the row's top."""
        body, parts = self.body(path, row), self.sections(row)
        for above, top, paragraphs in ((True, parts.before, body.before), (False, parts.after, body.after)):
            for number, paragraph in enumerate(paragraphs):
                yield (row.key, above, number), paragraph, top
                top += paragraph.line_count * self.metrics.line + self.metrics.gap

    def token_place(self, path: Path, request: int, step: int) -> tuple[float, float, float] | None:
        """Left edge, top and width of a token, in the pane's content; None where it is folded or does not exist."""
        if not 0 <= request < self.request_count:
            return None
        index = self.row_of(request)
        row = self.rows[index]
        if row.kind is not Kind.REQUEST or not row.is_open:
            return None
        body = self.body(path, row)
        if not 0 <= step < len(body.widths):
            return None
        top = float(self.tops[index]) + self.sections(row).tokens + body.line_of(step) * self.metrics.token_line
        return self.metrics.margin + self.metrics.indent + float(body.lefts[step]), top, float(body.widths[step])

    def y_of(self, request: int, step: int) -> float:
        """Top of a step's line on either side, or of the row that hides it."""
        for path in Path:
            place = self.token_place(path, request, step)
            if place:
                return place[1]
        return float(self.tops[self.row_of(request)]) if 0 <= request < self.request_count else 0.0
