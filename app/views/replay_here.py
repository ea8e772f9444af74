"""*Replay here*: what was reported beside what this machine's engine answers, and the answer in words."""

from __future__ import annotations

import textwrap
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QFileDialog, QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.trajectory.events import Replayed, RunEnded, RunFailed
from app.trajectory.pair import Pair
from app.trajectory.piece_text import inert
from app.trajectory.reproducer import ReplayResult
from app.views.replay_table import ReplayTable
from app.views.run_control import Kind, RunControl
from app.views.text_label import set_role, text_label
from app.views.theme import EQUAL_MARK, FORK_MARK, Theme

ANSWERS = {
    "reproduced": (FORK_MARK, "fork", "Reproduced"),
    "forks elsewhere": ("◇", "near_tie_text", "Forks elsewhere"),
    "does not fork": (EQUAL_MARK, "equal", "Does not fork"),
    "cannot be compared": ("?", "near_tie_text", "Cannot be compared"),
}
"""Verdict -> glyph, colour of the theme, and words: shape and colour together."""

LONGEST_VALUE = 90
MOST_LINES = 6


class ReplayHere(QDialog):
    """Follows a replay that the control runs. `again_requested(model file or None)` asks for another one."""

    again_requested = Signal(object)

    def __init__(self, pair: Pair, control: RunControl, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.pair, self._control, self._theme = pair, control, theme
        self.setWindowTitle(f"Replay here: {inert(pair.cached.episode_id)}")
        self.glyph = QLabel()
        self.headline = text_label("title", wrap=True)
        self.because = text_label(wrap=True)
        self.differences = text_label(wrap=True)
        self.served = text_label("muted", wrap=True)
        self.table = ReplayTable(theme)
        self.said = text_label("muted", wrap=True)
        self.progress = QProgressBar(textVisible=False, minimum=0, maximum=0)
        self.progress.setFixedWidth(120)
        self.progress.setAccessibleName("Progress of the replay")
        self.stop, self.again = QPushButton("&Stop"), QPushButton("Replay &again")
        self.other, self.shut = QPushButton("With another &model…"), QPushButton("Close")
        self._lay_out()
        self.stop.clicked.connect(control.stop)
        self.again.clicked.connect(lambda: self.again_requested.emit(None))
        self.other.clicked.connect(self._choose_model)
        self.shut.clicked.connect(self.reject)
        control.said.connect(self._say)
        control.replayed.connect(self._replayed)
        control.ended.connect(self._ended)
        control.failed.connect(self._failed)
        control.state_changed.connect(self._show_state)
        self.begun()

    def _lay_out(self) -> None:
        font = self.headline.font()
        font.setPointSizeF(font.pointSizeF() * 1.35)
        self.headline.setFont(font)
        self.glyph.setFont(font)
        top = QHBoxLayout()
        top.addWidget(self.glyph)
        top.addWidget(self.headline, 1)
        foot = QHBoxLayout()
        foot.addWidget(self.progress)
        foot.addWidget(self.said, 1)
        for button in (self.stop, self.other, self.again, self.shut):
            foot.addWidget(button)
        column = QVBoxLayout(self)
        column.setSpacing(8)
        column.addLayout(top)
        for widget in (self.because, self.differences, self.served):
            column.addWidget(widget)
        column.addWidget(self.table, 1)
        column.addLayout(foot)
        self.resize(1000, 660)

    def begun(self) -> None:
        """A replay has just begun."""
        fork = self.pair.comparison.fork
        place = f" at {fork.place}" if fork is not None else ""
        self._answer("…", "muted", f"{inert(self.pair.cached.episode_id)} is reported to fork{place}. Replaying…")
        self.because.setText("Its history is served again, then the request on both paths.")
        for label in (self.differences, self.served):
            label.hide()
        self.table.show_answers(self.pair, None)
        self._say("")
        self._show_state()

    def _replayed(self, event: Replayed) -> None:
        if self._control.kind is Kind.REPRODUCE:
            self.show_result(event.result)

    def show_result(self, result: ReplayResult) -> None:
        """The answer in words, then how the environments differ, what was served, and the answers."""
        glyph, colour, words = ANSWERS[result.verdict]
        self._answer(glyph, colour, words)
        self.because.setText(inert(result.because))
        for label, text in ((self.differences, _differences(result)), (self.served, _served(result))):
            label.setText(text)
            label.setVisible(bool(text))
        self.table.show_answers(self.pair, result)

    def _answer(self, glyph: str, colour: str, words: str) -> None:
        self.glyph.setText(glyph)
        self.glyph.setStyleSheet(f"color: {getattr(self._theme, colour)}")
        self.headline.setText(words)

    def _say(self, sentence: str) -> None:
        if self._control.kind is Kind.REPRODUCE:
            self.said.setText(sentence)
            set_role(self.said, "muted")

    def _ended(self, event: RunEnded) -> None:
        self.said.clear()
        if event.reason == "stopped" and self._control.kind is Kind.REPRODUCE:
            self._answer("…", "muted", "Stopped")
            self.because.setText("Replay again to see what this machine answers.")

    def _failed(self, event: RunFailed) -> None:
        if self._control.kind is Kind.REPRODUCE:
            self._answer("?", "near_tie_text", "Cannot be compared")
            self.because.setText(f"{event.message} {event.hint}".strip())

    def _show_state(self) -> None:
        running = self._control.running
        self.progress.setVisible(running and self._control.kind is Kind.REPRODUCE)
        self.stop.setVisible(running and self._control.kind is Kind.REPRODUCE)
        self.stop.setEnabled(not self._control.stopping)
        for button in (self.again, self.other):
            button.setEnabled(not running)

    def _choose_model(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, "The recorded model", "", "GGUF models (*.gguf);;All files (*)")
        if name:
            self.again_requested.emit(Path(name))

    def done(self, result: int) -> None:
        """Nobody waits for the replay any more."""
        if self._control.running and self._control.kind is Kind.REPRODUCE:
            self._control.stop()
        super().done(result)


def _differences(result: ReplayResult) -> str:
    if not result.differences:  # of a replay that was refused nothing was looked at
        return "Engine, build, model and settings are as recorded." if result.served else ""
    lines = [f"{each.name}: recorded {_short(each.recorded)}, here {_short(each.here)}" for each in result.differences]
    more = len(lines) - MOST_LINES
    return "\n".join(["Other than recorded:", *lines[:MOST_LINES], *([f"… and {more} more"] if more > 0 else [])])


def _served(result: ReplayResult) -> str:
    """How many requests were served, and which of them did not go as recorded."""
    if not result.served:
        return ""
    lines = []
    for one in result.served:
        if one.recorded_cached is not None and one.cached != one.recorded_cached:
            here = "not reported" if one.cached is None else f"{one.cached:,}"
            lines.append(f"{inert(one.name)}: {here} tokens from the cache, recorded {one.recorded_cached:,}.")
        if one.deviates_at is not None:
            lines.append(f"{inert(one.name)}: another answer than recorded from token {one.deviates_at + 1} on.")
    if not lines:
        return f"{len(result.served)} requests were served, each with as much from the cache as recorded."
    return "\n".join([*lines[:MOST_LINES], *(["…"] if len(lines) > MOST_LINES else [])])


def _short(value: str) -> str:
    return inert(textwrap.shorten(value, LONGEST_VALUE, placeholder=" …")) or "nothing"
