"""The line under the menus: run, stop, what is open, and how far the run is."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QToolButton, QWidget

from app.views.run_control import Kind, RunControl


class RunBar(QWidget):
    """Shows a `RunControl`; its two buttons are the window's actions."""

    def __init__(self, run: QAction, stop: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("toolbar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._run = _button(run, "▶ Run…", "Run episodes (Ctrl+R)")
        self._stop = _button(stop, "■ Stop", "Stop; what was recorded stays (Ctrl+.)")
        self.title = QLabel(textFormat=Qt.TextFormat.PlainText)
        self.title.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.recorded = QLabel("RECORDED")
        self.recorded.setObjectName("recorded")
        self.recorded.setToolTip("This was recorded earlier; nothing is being computed.")
        self.recorded.hide()
        self.bar = QProgressBar(textVisible=False)
        self.bar.setFixedWidth(200)
        self.bar.setAccessibleName("Progress of the run")
        self.words = QLabel(textFormat=Qt.TextFormat.PlainText)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 14, 8)
        row.setSpacing(8)
        for widget in (self._run, self._stop):
            row.addWidget(widget)
        row.addSpacing(10)
        row.addWidget(self.title)
        row.addWidget(self.recorded)
        row.addStretch(1)
        row.addWidget(self.bar)
        row.addWidget(self.words)
        self.show_state(None)

    def show_state(self, control: RunControl | None, said: str = "") -> None:
        """Follow the control; `said` is the newest sentence while there are no numbers yet."""
        running = control is not None and control.running
        stopping = control is not None and control.stopping
        self._stop.setText("Stopping…" if stopping else "■ Stop")
        self.bar.setVisible(running and control is not None and control.kind is not Kind.REPLAY)
        self.words.setVisible(running)
        if control is None or not running:
            return
        fraction = control.progress.fraction if control.kind is Kind.RUN else None
        self.bar.setRange(0, 0 if fraction is None else 1000)
        if fraction is not None:
            self.bar.setValue(round(1000 * fraction))
        if control.kind is Kind.REPLAY:
            self.words.setText("replaying at reading speed")
        elif stopping:
            self.words.setText("stopping…")
        else:
            self.words.setText((control.progress.text if control.kind is Kind.RUN else "") or said)


def _button(action: QAction, text: str, tip: str) -> QToolButton:
    button = QToolButton(toolButtonStyle=Qt.ToolButtonStyle.ToolButtonTextOnly)
    button.setText(text)
    button.setToolTip(tip)
    button.setAccessibleName(text.strip("▶■ …"))
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.clicked.connect(action.trigger)
    action.enabledChanged.connect(button.setEnabled)
    button.setEnabled(action.isEnabled())
    return button
