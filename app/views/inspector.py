"""The inspector: both paths' step at the cursor, what the engine reported of its request, and what to ask next."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QStyle, QVBoxLayout, QWidget

from app.trajectory.pair import PATH_NAMES, Fork, ForkKind, Names
from app.trajectory.telemetry import remarks
from app.trajectory.trajectory import Path, Request, Trajectory
from app.views.ask_panel import AskPanel
from app.views.step_panel import StepPanel
from app.views.telemetry_table import TelemetryTable
from app.views.text_label import text_label
from app.views.theme import Theme


class Inspector(QWidget):
    """Right side of the window. Emits `run_again_requested` where a person wants both paths run again."""

    run_again_requested = Signal()
    try_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sides: dict[Path, Trajectory | None] = dict.fromkeys(Path)
        self._fork: Fork | None = None
        self._pieces: Mapping[int, bytes] = {}
        self._names = PATH_NAMES
        self._cursor = (0, 0)
        self._shown: object = None
        self._title, self._place = text_label("title"), text_label("muted")
        self._panels = {path: StepPanel(path, theme) for path in Path}
        self._telemetry = TelemetryTable(theme)
        self._remarks = text_label("problem", wrap=True)
        self._ask = AskPanel(theme)
        self._ask.run_again_requested.connect(self.run_again_requested)
        self._ask.try_requested.connect(self.try_requested)
        self._lines = [QFrame(), QFrame()]
        self._lay_out()
        self.setAccessibleName("Inspector")
        self.set_theme(theme)
        self._refresh()

    def _lay_out(self) -> None:
        heading = QHBoxLayout()
        heading.addWidget(self._title)
        heading.addStretch(1)
        heading.addWidget(self._place)
        self._content = QWidget()
        layout = QVBoxLayout(self._content)
        layout.setContentsMargins(14, 12, 14, 14)
        layout.setSpacing(10)
        layout.addLayout(heading)
        for widget in (*self._panels.values(), self._lines[0], self._telemetry, self._remarks, self._lines[1]):
            layout.addWidget(widget)
        layout.addWidget(self._ask)
        layout.addStretch(1)
        for line in self._lines:
            line.setFixedHeight(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(self._content)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        for panel in self._panels.values():
            panel.set_theme(theme)
        self._telemetry.set_theme(theme)
        self._ask.set_theme(theme)
        for line in self._lines:
            line.setStyleSheet(f"background: {theme.line}")

    def show_pair(
        self,
        cached: Trajectory | None,
        recompute: Trajectory | None,
        fork: Fork | None,
        pieces: Mapping[int, bytes],
    ) -> None:
        """Show a pair, finished or growing; the cursor stays. `pieces` gives the bytes of the rivals' ids."""
        self._sides = {Path.CACHED: cached, Path.RECOMPUTE: recompute}
        self._fork, self._pieces = fork, pieces
        self._ask.set_fork(fork is not None)
        self._refresh()

    def set_names(self, names: Names) -> None:
        """What the two sides are called."""
        self._names = names
        self._telemetry.set_names(names)
        for panel, name in zip(self._panels.values(), names, strict=True):
            panel.set_name(name)

    def set_cursor(self, request: int, step: int) -> None:
        """Show (request, step), both from 0."""
        self._cursor = (request, step)
        self._refresh()

    def set_again_lines(self, lines: list[tuple[str, bool | None]]) -> None:
        """What running both again has said so far: sentence, and whether identical (None: still running)."""
        self._ask.set_lines(lines)

    def set_can_run_again(self, can: bool, why: str) -> None:
        """Offer *Run both again here*; `why` says what it does, or why it cannot be done."""
        self._ask.set_can_run(can, why)

    def set_can_try(self, can: bool, why: str) -> None:
        """Offer *Try on a llama-server*; `why` says what it does, or why it cannot be done."""
        self._ask.set_can_try(can, why)

    def minimumSizeHint(self) -> QSize:
        """Wide enough that nothing is cut off at the present text size; what does not fit in height scrolls."""
        bar = self.style().pixelMetric(QStyle.PixelMetric.PM_ScrollBarExtent)
        return QSize(self._content.minimumSizeHint().width() + bar, 120)

    def sizeHint(self) -> QSize:
        """As wide as the sketch has it, or as it must be."""
        return QSize(max(300, self.minimumSizeHint().width()), 600)

    # -- drawing -----------------------------------------------------------------------------------
    def _refresh(self) -> None:
        """Show the step at the cursor, if it is not what is shown already."""
        index, at = self._cursor
        requests = {path: _request(side, index) for path, side in self._sides.items()}
        now = (index, at, self._fork, *(side is None for side in self._sides.values()), *requests.values())
        if now == self._shown:
            return
        self._shown = now
        some = any(request is not None for request in requests.values())
        self._title.setText(f"Step {index + 1}:{at + 1}" if some else "No step yet")
        self._place.setText(self._place_text(index, at) if some else "")
        for path, panel in self._panels.items():
            request = requests[path]
            here = request is not None and 0 <= at < len(request.steps)
            step = request.steps.step(at, self._pieces) if request is not None and here else None
            panel.show_step(step, self._absence(path, request))
        cached, recompute = requests[Path.CACHED], requests[Path.RECOMPUTE]
        self._telemetry.show_requests(index + 1, cached, recompute)
        named = zip(self._names, requests.values(), strict=True)
        said = [f"{name}: {text}" for name, request in named for text in remarks(request)]
        if self._fork is not None and self._fork.kind is ForkKind.PROMPT and self._fork.request == index:
            position = "" if self._fork.step is None else f" from position {self._fork.step + 1} on"
            two = "paths" if self._names == PATH_NAMES else "runs"
            said.insert(0, f"The prompts of the two {two} differ{position}.")
        self._remarks.setText("\n".join(said))
        self._remarks.setVisible(bool(said))

    def _place_text(self, index: int, at: int) -> str:
        """Which step of the episode it is; on both paths where they number it differently."""
        places = []
        for side in self._sides.values():
            request = _request(side, index)
            if side is not None and request is not None and at < len(request.steps):
                places.append(int(side.step_starts[index]) + at + 1)
        if not places:
            return ""
        return f"step {' | '.join(str(place) for place in dict.fromkeys(places))} of the episode"

    def _absence(self, path: Path, request: Request | None) -> str:
        """Why a path shows no step at the cursor."""
        if self._sides[path] is None:
            return "Not run yet."
        if request is None:
            return "This path has no such request."
        if len(request.steps):
            return f"The answer ends after {len(request.steps)} tokens here."
        return "No token yet." if request.report is None else "The answer is empty."


def _request(side: Trajectory | None, index: int) -> Request | None:
    return side.requests[index] if side is not None and 0 <= index < len(side.requests) else None
