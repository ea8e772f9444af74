"""The head of a token pane: which path, what came from the cache, and the provenance strip."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.trajectory.trajectory import Path, Request
from app.views.provenance_strip import ProvenanceStrip
from app.views.theme import CACHED_MARK, RECOMPUTE_MARK, Theme

MARKS = {Path.CACHED: CACHED_MARK, Path.RECOMPUTE: RECOMPUTE_MARK}

_MARGIN = 12


def counts_text(request: Request | None) -> str:
    """ "412 cached · 38 evaluated" as the engine reported it; what it did not report is said to be so."""
    if request is None:
        return ""
    if request.report is None:
        return f"{len(request.prompt.ids)} prompt tokens"
    cached, evaluated = request.report.cached_tokens, request.report.evaluated_tokens
    if cached is None and evaluated is None:
        return "cached: not reported"
    parts = ((cached, "cached"), (evaluated, "evaluated"))
    return " · ".join(f"{word}: not reported" if count is None else f"{count} {word}" for count, word in parts)


class PaneHeader(QWidget):
    """Follows the step cursor: shows the request that it is in. A prefill under way takes the counts' place."""

    def __init__(self, path: Path, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._request: Request | None = None
        self._progress = ""
        self._focused = False
        self.title = QLabel(f"{MARKS[path]}  {path.value.capitalize()}", textFormat=Qt.TextFormat.PlainText)
        self.title.setProperty("role", "title")
        self.counts = QLabel(textFormat=Qt.TextFormat.PlainText)
        self.strip = ProvenanceStrip(path, theme)
        row = self._row = QHBoxLayout()
        self.counts.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.counts.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)  # a narrow pane cuts it
        row.addWidget(self.title)
        row.addWidget(self.counts, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(_MARGIN, 8, _MARGIN, 6)
        column.setSpacing(6)
        column.addLayout(row)
        column.addWidget(self.strip)
        self.set_text_scale(1.0)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        for label, colour in ((self.title, getattr(theme, self._path.value)), (self.counts, theme.muted)):
            palette = label.palette()
            palette.setColor(QPalette.ColorRole.WindowText, QColor(colour))
            label.setPalette(palette)
        self.strip.set_theme(theme)
        self._theme = theme
        self.update()

    def set_name(self, name: str) -> None:
        """What this side is called, e.g. "cached" or "second run"."""
        self.title.setText(f"{MARKS[self._path]}  {name.capitalize()}")
        self.strip.set_name(name)
        self._say()

    def set_focused(self, focused: bool) -> None:
        """Show whether the pane below has the keyboard."""
        self._focused = focused
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paint the line to the pane: in the path's colour, and thicker, where that has the keyboard."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.panel))
        height = 2 if self._focused else 1
        colour = getattr(self._theme, self._path.value if self._focused else "line")
        painter.fillRect(0, self.height() - height, self.width(), height, QColor(colour))
        painter.end()

    def set_text_scale(self, scale: float) -> None:
        """Change the size of the strip's legend; the labels follow the application's font."""
        self.strip.set_text_scale(scale)

    def show_request(self, request: Request | None) -> None:
        """Show the counts and the provenance of a request."""
        self._request = request
        self.strip.show_request(request)
        self._say()

    def set_progress(self, text: str, fraction: float | None) -> None:
        """Show how far a prefill has come; None ends it."""
        self._progress = "" if fraction is None else text
        self.strip.set_fraction(fraction)
        self._say()

    def _say(self) -> None:
        text = self._progress or counts_text(self._request)
        room = self.contentsRect().width() - 2 * _MARGIN - self.title.sizeHint().width() - self._row.spacing()
        self.counts.setText(self.counts.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room))
        self.counts.setToolTip(text)
        self.counts.setAccessibleName(text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Cut the counts to the room there is."""
        super().resizeEvent(event)
        self._say()
