"""One path's step in the inspector: its margin and its rivals."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.trajectory.step import Step
from app.trajectory.trajectory import Path
from app.views.rival_bars import RivalBars
from app.views.text_label import text_label
from app.views.theme import CACHED_MARK, RECOMPUTE_MARK, Theme

MARKS = {Path.CACHED: CACHED_MARK, Path.RECOMPUTE: RECOMPUTE_MARK}


class StepPanel(QWidget):
    """One path's step: its name, its margin, its rivals, or a sentence why there are none."""

    def __init__(self, path: Path, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._name, self._margin, self._absence = text_label(), text_label(), text_label("muted", wrap=True)
        self.rivals = RivalBars("Rivals", theme, self._colour(theme))
        self.set_name(path.value)
        heading = QHBoxLayout()
        heading.addWidget(self._name)
        heading.addStretch(1)
        heading.addWidget(self._margin)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(6)
        layout.addLayout(heading)
        layout.addWidget(self.rivals)
        layout.addWidget(self._absence)
        self.set_theme(theme)

    def set_name(self, name: str) -> None:
        """What this side is called."""
        self._name.setText(f"{MARKS[self._path]} {name.capitalize()}")
        self.rivals.setAccessibleName(f"Rivals, {name}")

    def _colour(self, theme: Theme) -> str:
        return theme.cached if self._path is Path.CACHED else theme.recompute

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._name.setStyleSheet(f"font-weight: bold; color: {self._colour(theme)}")
        self.rivals.set_theme(theme, self._colour(theme))

    def show_step(self, step: Step | None, absence: str) -> None:
        """Show a step, or `absence` where this path has none."""
        if step is not None and not step.rivals:
            absence = "Rivals were not reported."
        margin = None if step is None else step.margin
        self._margin.setText("" if step is None else _margin_text(margin))
        self.rivals.show_step(step)
        self.rivals.setVisible(step is not None)
        self._absence.setText(absence)
        self._absence.setVisible(step is None or not step.rivals)


def _margin_text(margin: float | None) -> str:
    if margin is None:
        return "margin not reported"
    if margin == 0:
        return "exact tie"
    return f"margin {margin:.2f} nats" if margin >= 0.01 else f"margin {margin:.2g} nats"
