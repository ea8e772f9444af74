"""The engine's settings and the sampling, under llama.cpp's own names."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QSpinBox,
    QWidget,
)

from app.session import KV_TYPES, EmbeddedSettings, Sampling

TEXT_MARGIN = 5
"""Pixels before a number, as style.py pads the other fields."""


def number(value: int, low: int, high: int, name: str, step: int = 1, zero: str = "") -> QSpinBox:
    """A whole number; `zero` is what the lowest value is called."""
    box = QSpinBox(minimum=low, maximum=high, value=value, singleStep=step)
    box.setSpecialValueText(zero)
    box.setAccessibleName(name)
    box.setMinimumWidth(96)
    box.lineEdit().setTextMargins(TEXT_MARGIN, 0, 0, 0)  # a style sheet's padding does not reach it
    return box


def fraction(value: float, high: float, name: str) -> QDoubleSpinBox:
    """A number from 0 to `high` with two decimals."""
    box = QDoubleSpinBox(minimum=0.0, maximum=high, value=value, singleStep=0.05, decimals=2)
    box.setAccessibleName(name)
    box.lineEdit().setTextMargins(TEXT_MARGIN, 0, 0, 0)
    return box


class EngineFields(QWidget):
    """Everything of `EmbeddedSettings`."""

    changed = Signal()

    def __init__(self, settings: EmbeddedSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._from = settings
        self.n_ctx = number(settings.n_ctx, 256, 1 << 20, "n_ctx", 256)
        self.n_batch = number(settings.n_batch, 1, 1 << 16, "n_batch", 64)
        self.n_ubatch = number(settings.n_ubatch, 1, 1 << 16, "n_ubatch", 64)
        self.threads = number(settings.threads, 0, 256, "Threads", zero="automatic")
        self.gpu_layers = number(settings.gpu_layers, -1, 1000, "GPU layers", zero="all")
        self.type_k, self.type_v = self._types(settings.type_k, "K cache"), self._types(settings.type_v, "V cache")
        self.flash_attention, self.swa_full = QCheckBox("flash attention"), QCheckBox("swa_full")
        self.flash_attention.setChecked(settings.flash_attention)
        self.swa_full.setChecked(settings.swa_full)
        self.swa_full.setToolTip("Keep the whole KV history of sliding-window models (llama-server's default is off).")
        left, right = QFormLayout(), QFormLayout()
        for form in (left, right):
            form.setVerticalSpacing(8)
        for name, box in (("n_ctx", self.n_ctx), ("n_batch", self.n_batch), ("n_ubatch", self.n_ubatch)):
            left.addRow(name, box)
        left.addRow("", self.flash_attention)
        for name, box in (("threads", self.threads), ("GPU layers", self.gpu_layers)):
            right.addRow(name, box)
        kv = QHBoxLayout()
        kv.setSpacing(8)
        kv.addWidget(self.type_k)
        kv.addWidget(self.type_v)
        right.addRow("KV types (K, V)", kv)
        right.addRow("", self.swa_full)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(24)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        row.addLayout(left, 1)
        row.addLayout(right, 1)
        for box in (self.n_ctx, self.n_batch, self.n_ubatch, self.threads, self.gpu_layers):
            box.valueChanged.connect(self.changed)
        for types in (self.type_k, self.type_v):
            types.currentIndexChanged.connect(self.changed)
        for switch in (self.flash_attention, self.swa_full):
            switch.toggled.connect(self.changed)

    def value(self) -> EmbeddedSettings:
        """What is set now."""
        return replace(
            self._from,
            n_ctx=self.n_ctx.value(),
            n_batch=self.n_batch.value(),
            n_ubatch=self.n_ubatch.value(),
            threads=self.threads.value(),
            gpu_layers=self.gpu_layers.value(),
            type_k=self.type_k.currentText(),
            type_v=self.type_v.currentText(),
            flash_attention=self.flash_attention.isChecked(),
            swa_full=self.swa_full.isChecked(),
        )

    @property
    def problem(self) -> str:
        """Why llama.cpp would refuse this, "" where it would not."""
        if self.n_ubatch.value() > self.n_batch.value():
            return "n_ubatch is larger than n_batch; llama.cpp takes at most n_batch tokens in one chunk."
        if self.n_batch.value() > self.n_ctx.value():
            return "n_batch is larger than n_ctx; a batch has to fit the context."
        if self.type_v.currentText().startswith("q") and not self.flash_attention.isChecked():
            return "A quantised V cache needs flash attention in llama.cpp."
        return ""

    @staticmethod
    def _types(chosen: str, name: str) -> QComboBox:
        box = QComboBox()
        box.setAccessibleName(name)
        box.addItems(list(KV_TYPES))
        box.setCurrentText(chosen)
        return box


class SamplingFields(QWidget):
    """Greedy, or llama.cpp's own chain of top-k, top-p and temperature with a seed."""

    def __init__(self, sampling: Sampling, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kind = QComboBox()
        self.kind.setAccessibleName("Sampling")
        self.kind.addItems(["Greedy", "Sampled, with a seed"])
        self.temperature = fraction(sampling.temperature or 0.8, 5.0, "Temperature")
        self.top_k = number(sampling.top_k, 0, 100000, "Top-k", zero="off")
        self.top_p = fraction(sampling.top_p, 1.0, "Top-p")
        self.seed = number(sampling.seed, 0, 2**31 - 1, "Seed")
        self._chain = QWidget()
        grid = QGridLayout(self._chain)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setColumnStretch(4, 1)
        for place, (name, box) in enumerate(
            (("temperature", self.temperature), ("top-k", self.top_k), ("top-p", self.top_p), ("seed", self.seed))
        ):
            grid.addWidget(QLabel(name), place // 2, 2 * (place % 2))
            grid.addWidget(box, place // 2, 2 * (place % 2) + 1)
        whole = QFormLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addRow(self.kind)
        whole.addRow(self._chain)
        self.kind.currentIndexChanged.connect(lambda index: self._chain.setVisible(index == 1))
        self.kind.setCurrentIndex(1 if sampling.temperature > 0 else 0)
        self._chain.setVisible(self.kind.currentIndex() == 1)

    def value(self) -> Sampling:
        """What is set now."""
        greedy = self.kind.currentIndex() == 0
        return Sampling(
            0.0 if greedy else self.temperature.value(), self.top_k.value(), self.top_p.value(), self.seed.value()
        )
