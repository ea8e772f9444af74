"""The faces of a token pane at one text scale."""

from __future__ import annotations

from functools import cached_property

from PySide6.QtGui import QFont, QFontDatabase, QFontMetricsF

from app.views.style import ui_font
from app.views.token_layout import Advances, Metrics


class PaneFonts:
    """The faces of a pane at one text scale, and the sizes that follow from them."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.text = ui_font(scale)
        self.text.setKerning(False)  # advances are sums, see token_layout
        self.bold = QFont(self.text)
        self.bold.setWeight(QFont.Weight.DemiBold)
        self.small = ui_font(scale * 0.85)
        self.token = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        self.token.setFamilies([*self.token.families(), "DejaVu Sans Mono"])
        self.token.setPointSizeF(self.text.pointSizeF())
        self.token.setKerning(False)
        self.token_bold = QFont(self.token)
        self.token_bold.setBold(True)
        self._metrics = {id(font): QFontMetricsF(font) for font in (self.text, self.bold, self.small, self.token)}

    def metrics_of(self, font: QFont) -> QFontMetricsF:
        """Metrics of one of these fonts."""
        return self._metrics[id(font)]

    @cached_property
    def advances(self) -> tuple[Advances, Advances]:
        """Advance widths of messages and of tokens."""
        text, token = self.metrics_of(self.text), self.metrics_of(self.token)
        return Advances(text.horizontalAdvance), Advances(token.horizontalAdvance)

    def pane_metrics(self, width: float) -> Metrics:
        """Sizes of a pane of this width."""
        return Metrics(width).scaled(self.metrics_of(self.text).height() / 14.0, width)
