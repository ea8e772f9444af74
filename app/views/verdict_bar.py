"""The verdict: one plain sentence over the pair, the rule that gave it on demand."""

from __future__ import annotations

import re

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app.trajectory.pair import Comparison, Verdict
from app.views.marks import OPEN, Mark, mark_of_code
from app.views.text_label import text_label
from app.views.theme import Theme

HEADLINE_SCALE = 1.25


def _label() -> QLabel:
    """Wrapped, so never cut off; selectable by keyboard too."""
    label = text_label(wrap=True)
    label.setTextInteractionFlags(label.textInteractionFlags() | Qt.TextInteractionFlag.TextSelectableByKeyboard)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
    return label


def _unbroken(headline: str) -> str:
    """No line break inside a quoted token: a token's space at a line's end would not be seen.

    A token may hold a closing quote itself; the one that ends it is followed as `wording` goes on after a token.
    """
    return re.sub(r"‘.*?’(?= against | \(id |\.|$)", lambda quoted: quoted[0].replace(" ", "\u00a0"), headline)


class VerdictBar(QWidget):
    """Mark, headline, detail, and a *Why?* that unfolds the rule with its numbers."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._mark = OPEN
        self._glyph = QLabel()
        self._headline, self._detail, self._rule = _label(), _label(), _label()
        self._why = QToolButton()
        self._why.setText("Why?")
        self._why.setCheckable(True)
        self._why.setToolTip("Show the rule that gave this verdict, with its numbers")
        self._why.toggled.connect(self._rule.setVisible)
        lines = QVBoxLayout()
        lines.setSpacing(3)
        for label in (self._headline, self._detail, self._rule):
            lines.addWidget(label)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(18, 10, 12, 8)
        layout.setSpacing(10)
        layout.addWidget(self._glyph, 0, Qt.AlignmentFlag.AlignTop)
        layout.addLayout(lines, 1)
        layout.addWidget(self._why, 0, Qt.AlignmentFlag.AlignTop)
        self.setAccessibleName("Verdict")
        self._rule.hide()
        self._scale_fonts()
        self.set_theme(theme)
        self.show_message("", "")

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        self._headline.setStyleSheet(f"font-weight: bold; color: {theme.text}")
        self._detail.setStyleSheet(f"color: {theme.muted}")
        self._rule.setStyleSheet(f"color: {theme.text}; background: {theme.block}; border-radius: 4px; padding: 6px")
        self._show_mark(self._mark)

    def show_verdict(self, verdict: Verdict | None, comparison: Comparison | None = None) -> None:
        """Show a verdict; an invalid or unproven pair's reasons stand with the rule. None clears the bar."""
        if verdict is None:
            self.show_message("", "")
            return
        reasons = () if comparison is None else (*comparison.problems, *comparison.unproven)
        rule = "\n".join(text for text in (verdict.rule, *(r for r in reasons if r not in verdict.rule)) if text)
        self._show(mark_of_code(verdict.code), verdict.headline, verdict.detail, rule)

    def show_message(self, headline: str, detail: str = "", mark: Mark = OPEN) -> None:
        """Show the state of something that has no verdict yet, e.g. a run that goes on."""
        self._show(mark, headline, detail, "")

    def text(self) -> str:
        """Headline, detail and the rule where it is unfolded, a line each: what a person copies."""
        shown = self._texts if self._why.isChecked() else self._texts[:2]
        return "\n".join(text for text in shown if text)

    def _show(self, mark: Mark, headline: str, detail: str, rule: str) -> None:
        self._show_mark(mark)
        self._texts = headline, detail, rule
        for label, text in ((self._headline, _unbroken(headline)), (self._detail, detail), (self._rule, rule)):
            if label.text() != text:  # a selection survives where nothing changed
                label.setText(text)
        self._glyph.setVisible(bool(headline))
        self._detail.setVisible(bool(detail))
        self._why.setVisible(bool(rule))
        self._rule.setVisible(bool(rule) and self._why.isChecked())
        self._headline.setToolTip(rule)
        self.setAccessibleDescription(f"{mark.meaning}. {headline} {detail}".strip())

    def _show_mark(self, mark: Mark) -> None:
        self._mark = mark
        self._glyph.setText(mark.glyph)
        self._glyph.setToolTip(mark.meaning)
        self._glyph.setStyleSheet(f"color: {mark.colour_in(self._theme)}")

    def _scale_fonts(self) -> None:
        font = self.font()
        font.setPointSizeF(font.pointSizeF() * HEADLINE_SCALE)
        font.setBold(True)
        for label in (self._glyph, self._headline):
            label.setFont(font)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the text size."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_headline"):
            self._scale_fonts()

    def sizeHint(self) -> QSize:
        """As high as the sentences need; a layout asks again for the width that it really gives."""
        return QSize(600, self.heightForWidth(max(self.width(), 600)))
