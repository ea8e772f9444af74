"""What a server said of itself when it was asked, and whether it is there now."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.session import Capabilities, EngineInfo
from app.views.text_label import set_role, text_label

CAPABILITIES = {
    "token_ids": "token ids in and out",
    "rivals": "logprobs of rivals",
    "piece_bytes": "raw bytes of tokens",
    "cached_counts": "cached-token counts",
    "recompute": "recompute path",
    "reset": "cache can be reset",
    "slots": "pinned slot",
    "salt": "cache of its own (salt)",
    "snapshot": "state saved, restored",
    "rebuild": "state refilled by entry",
    "caching": "caches unasked",
}
"""Fields of Capabilities in the order of the card, in a person's words."""

ANSWERS = {True: ("✓", "good", "yes"), False: ("✗", "muted", "no"), None: ("?", "doubt", "unknown")}
"""Mark, role of the style sheet and word; shape and colour say the same."""

LEVELS = {"ids": "token ids", "bytes": "the bytes of tokens", "text": "the words of the text only"}

BUILDS = ("build_info", "version", "commit", "llama_cpp_commit", "ggml_commit")
"""Where the engines keep what tells one build from another, the plainest first."""

MOST_GAPS = 4
COLUMNS = 3


def facts(info: EngineInfo) -> Iterator[str]:
    """Kind and build, model and context, what is compared, how the recompute path comes about."""
    build = next((info.build[name] for name in BUILDS if info.build.get(name)), None)
    yield f"{info.name}" + (f", build {build}" if build else ", build not told")
    name = str(info.model.get("name") or "not told")
    yield f"Model {name}, {info.n_ctx:,} tokens of context" if info.n_ctx else f"Model {name}"
    yield f"Answers are compared by {LEVELS[info.level]}."
    if info.recompute_by:
        yield f"Recompute path: {info.recompute_by}."
    elif info.capabilities.recompute is False:
        yield "No request can be kept from its cache: it can only be served twice and compared with itself."


def gaps(info: EngineInfo) -> list[str]:
    """What the tiny requests found missing, in words; the first few."""
    lines = [f"▲ {gap.field}: {gap.found}. Impossible: {gap.impossible}." for gap in info.gaps]
    return [*lines[:MOST_GAPS], *([f"and {len(lines) - MOST_GAPS} more"] if len(lines) > MOST_GAPS else [])]


class ServerCard(QWidget):
    """Empty until `show_info`; `show_pulse` keeps its first line true."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.state = text_label("muted", wrap=True)
        self.about = text_label(wrap=True)
        self.missing = text_label("doubt", wrap=True)
        self.answers: dict[str, QLabel] = {}
        grid = QGridLayout()
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(2)
        for place, (name, words) in enumerate(CAPABILITIES.items()):
            label = self.answers[name] = text_label()
            label.setObjectName(name)
            label.setToolTip(words)
            grid.addWidget(label, place // COLUMNS, place % COLUMNS)
        for place in range(COLUMNS):
            grid.setColumnStretch(place, 1)
        self._grid = QWidget()
        self._grid.setLayout(grid)
        grid.setContentsMargins(0, 2, 0, 2)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        for widget in (self.state, self.about, self._grid, self.missing):
            column.addWidget(widget)
        for label in (self.state, self.about, self.missing):
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
            label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.setAccessibleName("What the server said of itself")
        self.say("")

    def say(self, sentence: str, role: str = "muted") -> None:
        """A sentence in place of what a server said."""
        for widget in (self.about, self._grid, self.missing):
            widget.hide()
        self._state(sentence, role)

    def show_info(self, info: EngineInfo) -> None:
        """Show what was found out; it was there a moment ago."""
        self.show_pulse(True)
        self.about.setText("\n".join(facts(info)))
        self._show_capabilities(info.capabilities)
        lines = gaps(info)
        self.missing.setText("\n".join(lines))
        self.missing.setVisible(bool(lines))
        self.about.show()
        self._grid.show()

    def show_pulse(self, is_there: bool) -> None:
        """Whether the server answers now."""
        self._state("● reachable" if is_there else "✗ does not answer", "good" if is_there else "problem")

    def _state(self, sentence: str, role: str) -> None:
        self.state.setText(sentence)
        self.state.setVisible(bool(sentence))
        set_role(self.state, role)

    def _show_capabilities(self, capabilities: Capabilities) -> None:
        for name, label in self.answers.items():
            mark, role, word = ANSWERS[getattr(capabilities, name)]
            label.setText(f"{mark} {CAPABILITIES[name]}")
            label.setToolTip(f"{CAPABILITIES[name]}: {word}")
            label.setAccessibleName(f"{CAPABILITIES[name]}: {word}")
            set_role(label, role)
