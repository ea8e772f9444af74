"""Above each pane: how the KV entry of every prompt position was written on that path."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.trajectory.trajectory import Path, Request, Span
from app.views.block_text import plural
from app.views.style import ui_font
from app.views.theme import Theme

LEGENDS = (
    ("prefilled, one shade a chunk", "decoded one by one", "evaluated now"),
    ("prefilled, by chunk", "decoded one by one", "evaluated now"),
    ("prefilled", "decoded", "now"),
)
"""What the strip's marks mean; the longest that fits is shown."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Prompt positions `start` to `stop` that one prefill chunk or one run of decoding wrote. `shade` alternates."""

    start: int
    stop: int
    span: Span
    shade: int


def pieces_of(spans: Sequence[Span]) -> Iterator[Piece]:
    """Spans cut into prefill chunks; neighbouring chunks differ in shade."""
    shade = 0
    for span in spans:
        size = span.chunk if span.kind == "prefill" and 0 < span.chunk < span.length else span.length
        for start in range(span.start, span.start + span.length, max(1, size)):
            yield Piece(start, min(start + size, span.start + span.length), span, shade)
            shade ^= span.kind == "prefill"


def fresh_from(request: Request) -> int | None:
    """First prompt position that this request evaluated itself; None where the engine did not say."""
    evaluated = request.report.evaluated_tokens if request.report else None
    return None if evaluated is None else len(request.prompt.ids) - evaluated


def summary(request: Request) -> str:
    """The strip in one sentence, for those who cannot see it."""
    pieces = list(pieces_of(request.spans))
    if not pieces:
        return "How the prompt's positions were written was not reported."
    prefills = [piece.span.chunk for piece in pieces if piece.span.kind == "prefill"]
    chunks = plural(len(prefills), "chunk") if all(prefills) else "chunks of unreported size"
    counts = {
        kind: sum(span.length for span in request.spans if span.kind == kind)
        for kind in ("prefill", "decode", "unknown")
    }
    parts = [f"{counts['prefill']} prefilled in {chunks}", f"{counts['decode']} decoded one by one"]
    parts += [f"{counts['unknown']} not reported"] if counts["unknown"] else []
    fresh = fresh_from(request)
    parts += [f"{len(request.prompt.ids) - fresh} evaluated by this request"] if fresh is not None else []
    return f"{plural(len(request.prompt.ids), 'prompt position')}: {', '.join(parts)}."


class ProvenanceStrip(QWidget):
    """The strip and its legend for the request at the step cursor; during a prefill, how far it has come."""

    def __init__(self, path: Path, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._theme = theme
        self._request: Request | None = None
        self._pieces: tuple[Piece, ...] = ()
        self._fraction: float | None = None
        self._font = ui_font(0.85)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_name(path.value)

    def set_name(self, name: str) -> None:
        """What the side is called, for those who cannot see the strip."""
        self.setAccessibleName(f"Provenance of the prompt, {name}")

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.update()

    def set_text_scale(self, scale: float) -> None:
        """Change the legend's size."""
        self._font = ui_font(0.85 * scale)
        self.updateGeometry()
        self.update()

    def show_request(self, request: Request | None) -> None:
        """Show a request's prompt; None where the path has none there."""
        if request is not self._request:
            self._request = request
            self._pieces = tuple(pieces_of(request.spans)) if request else ()
            self.setAccessibleDescription(summary(request) if request else "")
            self.update()

    def set_fraction(self, fraction: float | None) -> None:
        """How much of a prompt is prefilled, 0 to 1; None: show where its entries came from."""
        if fraction != self._fraction:
            self._fraction = fraction
            self.update()

    def sizeHint(self) -> QSize:
        """As wide as it gets, high enough for strip and legend."""
        return QSize(200, round(13 + QFontMetricsF(self._font).height()))

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint strip and legend."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if self._fraction is not None:
            self._bar(painter, 0.0, self.width(), "line")
            self._bar(painter, 0.0, self.width() * self._fraction, self._path.value)
        else:
            self._spans(painter)
        self._legend(painter)
        painter.end()

    def _bar(self, painter: QPainter, left: float, right: float, colour: str) -> None:
        painter.setBrush(QColor(getattr(self._theme, colour)))
        painter.drawRoundedRect(QRectF(left, 0, max(1.0, right - left), 7), 1.5, 1.5)

    def _spans(self, painter: QPainter) -> None:
        total = len(self._request.prompt.ids) if self._request else 0
        if self._request is None or not self._pieces or not total:
            self._bar(painter, 0.0, self.width(), "block")
            return
        unit, covered = self.width() / total, 0.0
        for piece in self._pieces:
            left, right = piece.start * unit, piece.stop * unit
            if right > covered:  # of thousands, what would be hidden below a neighbour's pixel is left out
                self._bar(painter, left, right - (1.0 if right - left > 3 else 0.0), self._colour_of(piece))
                covered = left + 1.0
        fresh = fresh_from(self._request)
        if fresh is not None and fresh < total:
            painter.setBrush(QColor(self._theme.text))
            painter.drawRect(QRectF(fresh * unit, 8.5, max(2.0, (total - fresh) * unit), 1.5))

    def _colour_of(self, piece: Piece) -> str:
        if piece.span.kind == "decode":
            return self._path.value
        if piece.span.kind == "prefill":
            return "prefill_alternate" if piece.shade else "prefill"
        return "line"

    def _legend(self, painter: QPainter) -> None:
        metrics = QFontMetricsF(self._font)
        painter.setFont(self._font)
        decodes = any(piece.span.kind == "decode" for piece in self._pieces) or not self._pieces
        none = "" if decodes else " (none)"
        gap = metrics.height()
        choices = [(prefilled, decoded + none, now) for prefilled, decoded, now in LEGENDS] + list(LEGENDS[-1:])
        for texts in choices:
            if sum(map(metrics.horizontalAdvance, texts)) + 30 + 2 * gap <= self.width():
                break
        else:
            gap = metrics.height() / 3  # a narrow pane: closer, and what does not fit is left out whole
        x, y = 0.0, 12.0 + metrics.height() / 2
        for text, colour in zip(texts, ("prefill", self._path.value, ""), strict=True):
            if x + 10 + metrics.horizontalAdvance(text) > self.width():
                break
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(getattr(self._theme, colour or "text")))
            painter.drawRect(QRectF(x, y - 3, 7, 6) if colour else QRectF(x, y, 7, 1.5))
            painter.setPen(QColor(self._theme.muted))
            painter.drawText(QPointF(x + 10, y + (metrics.ascent() - metrics.descent()) / 2), text)
            x += 10 + metrics.horizontalAdvance(text) + gap

    def event(self, event: QEvent) -> bool:
        """Tell who wrote the positions under the mouse."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            text = self.describe(event.pos().x())
            QToolTip.showText(event.globalPos(), html.escape(text), self)
            return True
        return super().event(event)

    def describe(self, x: float) -> str:
        """The sentence about the prompt positions at `x` pixels."""
        if self._request is None or not self._pieces:
            return "How these positions were written was not reported." if self._request else ""
        position = x / max(1, self.width()) * len(self._request.prompt.ids)
        piece = next((one for one in self._pieces if one.start <= position < one.stop), self._pieces[-1])
        where = f"Prompt tokens {piece.start + 1} to {piece.stop}"
        fresh = fresh_from(self._request)
        now = ", evaluated by this request" if fresh is not None and piece.start >= fresh else ""
        if piece.span.kind == "decode":
            return f"{where}: decoded one by one in {piece.span.writer}{now}"
        if piece.span.kind == "prefill":
            size = piece.span.chunk
            chunk = f"a chunk of {plural(size, 'token')}" if size else "chunks whose sizes were not reported"
            return f"{where}: prefilled in {piece.span.writer} in {chunk}{now}"
        return f"{where}: not reported"
