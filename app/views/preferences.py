"""Preferences: few, and all of them visible at once."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QDialog, QDialogButtonBox, QDoubleSpinBox, QFormLayout, QLabel, QWidget

from app import paths
from app.settings import Settings
from app.views.engine_fields import TEXT_MARGIN, number
from app.views.style import TEXT_SCALES

THEMES = (("auto", "The system's"), ("light", "Light"), ("dark", "Dark"))


class Preferences(QDialog):
    """Writes into the settings object when accepted; whoever opened it saves and applies them."""

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self.setWindowTitle("Preferences")
        self.theme = QComboBox()
        for key, text in THEMES:
            self.theme.addItem(text, key)
        self.theme.setCurrentIndex([key for key, _ in THEMES].index(settings.theme))
        self.text_scale = QComboBox()
        for scale in TEXT_SCALES:
            self.text_scale.addItem(f"{scale:.0%}", scale)
        nearest = min(TEXT_SCALES, key=lambda scale: abs(scale - settings.text_scale))
        self.text_scale.setCurrentIndex(TEXT_SCALES.index(nearest))
        self.near_tie = QDoubleSpinBox(
            minimum=0.001, maximum=5.0, decimals=3, singleStep=0.01, suffix=" nat", value=settings.near_tie
        )
        self.near_tie.lineEdit().setTextMargins(TEXT_MARGIN, 0, 0, 0)
        self.threads = number(settings.threads, 0, 256, "Threads", zero="automatic")
        folder = QLabel(str(paths.data_dir()), textFormat=Qt.TextFormat.PlainText, wordWrap=True)
        folder.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        form = QFormLayout(self)
        form.setVerticalSpacing(12)
        form.addRow("&Colours", self.theme)
        form.addRow("&Text size", self.text_scale)
        form.addRow("&Near tie: recompute margin below", self.near_tie)
        form.addRow("T&hreads of the embedded engine", self.threads)
        form.addRow("Unnamed runs are kept in", folder)
        form.addRow(buttons)
        self.setMinimumWidth(460)

    def accept(self) -> None:
        """Take what is set."""
        self._settings.theme = self.theme.currentData()
        self._settings.text_scale = self.text_scale.currentData()
        self._settings.near_tie = round(self.near_tie.value(), 3)
        self._settings.threads = self.threads.value()
        super().accept()
