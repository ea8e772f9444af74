"""A llama-server that is started here: which one, with which flags, and the command that they make."""

from __future__ import annotations

import shlex
import threading
from collections import deque
from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.errors import AppError, SettingsError
from app.session import CACHE_TYPES, ManagedSettings
from app.views.engine_fields import number
from app.views.server_fields import FileField
from app.views.text_label import set_role, text_label
from app.views.verbs import Verbs

LOOK_MS = 50
UNSET = "its default"
COMMAND_LINES = 7
NOTE = "Each start takes a free port and a folder of its own for saved slots."


class ManagedFields(QWidget):
    """Everything of `ManagedSettings`. `set_model` says which file the command serves."""

    changed = Signal()

    def __init__(self, verbs: Verbs, threads: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._verbs = verbs
        self._model: Path | None = None
        self._found: Path | None = None
        self._trouble = "Looking for a llama-server…"
        self._answers: deque[tuple[Path | None, Path | AppError]] = deque()
        start = ManagedSettings(threads=threads)
        self.binary = FileField("llama-server program", "the one beside Python or on PATH")
        self.where = text_label("muted", wrap=True)
        self.ctx_size = number(start.ctx_size, 0, 1 << 20, "ctx-size", 256, zero="as trained")
        self.batch_size = number(start.batch_size, 1, 1 << 16, "batch-size", 64)
        self.ubatch_size = number(start.ubatch_size, 1, 1 << 16, "ubatch-size", 64)
        self.threads = number(start.threads, 0, 256, "threads", zero="automatic")
        self.parallel = number(start.parallel, 1, 64, "parallel")
        self.gpu_layers = number(start.gpu_layers, 0, 1000, "n-gpu-layers")
        self.cache_ram = _optional(-2, 1 << 20, "cache-ram", "MiB of the server-level prompt cache: 0 off, -1 no limit")
        self.cache_reuse = _optional(-1, 1 << 16, "cache-reuse", "Shortest chunk that is reused by shifting")
        self.ctx_checkpoints = _optional(-1, 1024, "ctx-checkpoints", "Checkpoints that a slot keeps")
        self.type_k, self.type_v = _types("cache-type-k"), _types("cache-type-v")
        self.flash_attention, self.swa_full = QCheckBox("flash-attn"), QCheckBox("swa-full")
        self.cache_prompt = QCheckBox("cache-prompt")
        self.swa_full.setChecked(start.swa_full)
        self.cache_prompt.setChecked(start.cache_prompt)
        self.arguments = QLineEdit(placeholderText="as one would type them")
        self.arguments.setAccessibleName("Further arguments")
        self.command = QPlainTextEdit(readOnly=True)
        self.command.setAccessibleName("The resulting command")
        self.command.setToolTip(NOTE)
        self.presets = (QPushButton("llama-server's default"), QPushButton("Server-level prompt cache off"))
        self.copy = QPushButton("Copy command")
        self._lay_out()
        self._look = QTimer(self, interval=LOOK_MS)
        self._look.timeout.connect(self._take)
        self._watch()
        self._search()

    def _lay_out(self) -> None:
        left, right = QFormLayout(), QFormLayout()
        kv, switches = QHBoxLayout(), QHBoxLayout()
        kv.setSpacing(6)
        switches.setSpacing(16)
        for types in (self.type_k, self.type_v):
            kv.addWidget(types)
        for switch in (self.flash_attention, self.swa_full, self.cache_prompt):
            switches.addWidget(switch)
        switches.addStretch(1)
        for box in (self.ctx_size, self.batch_size, self.ubatch_size, self.threads, self.gpu_layers):
            left.addRow(box.accessibleName(), box)
        for box in (self.parallel, self.cache_ram, self.cache_reuse, self.ctx_checkpoints):
            right.addRow(box.accessibleName(), box)
        right.addRow("KV types (K, V)", kv)
        for form in (left, right):
            form.setVerticalSpacing(8)
        flags = QHBoxLayout()
        flags.setSpacing(24)
        flags.addLayout(left, 1)
        flags.addLayout(right, 1)
        one_click = QHBoxLayout()
        one_click.addWidget(QLabel("Cache flags"))
        for button in self.presets:
            one_click.addWidget(button)
        one_click.addStretch(1)
        self.presets[1].setToolTip("--cache-ram 0, as in the study's run-to-run experiment")
        self.command.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.command.setFixedHeight(round(self.command.fontMetrics().lineSpacing() * COMMAND_LINES + 14))
        self.command.setTabChangesFocus(True)
        foot = QHBoxLayout()
        note = text_label("muted", wrap=True)
        note.setText(NOTE)
        note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        foot.addWidget(note, 1)
        foot.addWidget(self.copy)
        further = QGridLayout()
        further.addWidget(QLabel("Further arguments"), 0, 0)
        further.addWidget(self.arguments, 0, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self.binary)
        column.addWidget(self.where)
        column.addLayout(one_click)
        column.addLayout(flags)
        column.addLayout(switches)
        column.addLayout(further)
        column.addWidget(self.command)
        column.addLayout(foot)

    def _watch(self) -> None:
        for box in self.findChildren(QSpinBox):
            box.valueChanged.connect(self._show_command)
        for types in (self.type_k, self.type_v):
            types.currentIndexChanged.connect(self._show_command)
        for switch in (self.flash_attention, self.swa_full, self.cache_prompt):
            switch.toggled.connect(self._show_command)
        self.arguments.textChanged.connect(self._show_command)
        self.binary.changed.connect(self._search)
        self.presets[0].clicked.connect(lambda: self._set_caches(None))
        self.presets[1].clicked.connect(lambda: self._set_caches(0))
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.command.toPlainText()))

    def set_model(self, model: Path | None) -> None:
        """Which file is served; None while that is not known."""
        self._model = model
        self._show_command()

    @property
    def is_searching(self) -> bool:
        """Whether it is not known yet which program would be started."""
        return self._look.isActive()

    @property
    def problem(self) -> str:
        """Why this cannot be started, "" where it can be tried."""
        if self._found is None:
            return self._trouble
        if self.type_v.currentText() in QUANTISED and not self.flash_attention.isChecked():
            return "A quantised V cache needs flash attention in llama.cpp."
        try:
            self.value()
        except AppError as error:
            return str(error)
        return ""

    def value(self) -> ManagedSettings:
        """What is set now. Raises SettingsError for what the server would refuse."""
        try:
            arguments = tuple(shlex.split(self.arguments.text()))
        except ValueError as error:
            raise SettingsError(
                f"The further arguments cannot be read: {error}.", "Quote them as a shell would."
            ) from error
        return ManagedSettings(
            binary=self._found,
            ctx_size=self.ctx_size.value(),
            batch_size=self.batch_size.value(),
            ubatch_size=self.ubatch_size.value(),
            threads=self.threads.value(),
            parallel=self.parallel.value(),
            cache_ram=_given(self.cache_ram),
            cache_reuse=_given(self.cache_reuse),
            ctx_checkpoints=_given(self.ctx_checkpoints),
            cache_type_k=self.type_k.currentText(),
            cache_type_v=self.type_v.currentText(),
            flash_attention=self.flash_attention.isChecked(),
            swa_full=self.swa_full.isChecked(),
            cache_prompt=self.cache_prompt.isChecked(),
            gpu_layers=self.gpu_layers.value(),
            arguments=arguments,
        )

    def _set_caches(self, cache_ram: int | None) -> None:
        for box in (self.cache_reuse, self.ctx_checkpoints):
            box.setValue(box.minimum())
        self.cache_ram.setValue(self.cache_ram.minimum() if cache_ram is None else cache_ram)
        self.cache_prompt.setChecked(True)

    def _show_command(self) -> None:
        problem = self.problem
        text = "" if problem or self._model is None else self._verbs.server_command(self._model, self.value())
        if self.command.toPlainText() != text:
            self.command.setPlainText(text)
        self.command.setPlaceholderText(problem or "The model file is being read…")
        self.copy.setEnabled(bool(text))
        self.changed.emit()

    # The program, looked for in a thread: that loads the engine's code.

    def _search(self) -> None:
        self._found = None
        self._say("Looking for a llama-server…", "muted")
        chosen = self.binary.file
        threading.Thread(target=self._find, args=(chosen,), name="find llama-server", daemon=True).start()
        self._look.start()
        self._show_command()

    def _find(self, chosen: Path | None) -> None:
        """In the thread."""
        try:
            self._answers.append((chosen, self._verbs.find_server(chosen)))
        except AppError as error:
            self._answers.append((chosen, error))

    def _take(self) -> None:
        while self._answers:
            chosen, answer = self._answers.popleft()
            if chosen != self.binary.file:
                continue
            self._look.stop()
            if isinstance(answer, AppError):
                self._say(str(answer), "problem")
            else:
                self._found = answer
                self._say(f"Starts {answer}", "muted")
            self._show_command()

    def _say(self, sentence: str, role: str) -> None:
        self._trouble = sentence
        self.where.setText(sentence)
        set_role(self.where, role)


QUANTISED = frozenset(name for name in CACHE_TYPES if name not in ("f16", "f32", "bf16"))


def _optional(least: int, most: int, name: str, tip: str) -> QSpinBox:
    """A number that may be left to the server: its lowest value says so."""
    box = number(least, least, most, name, zero=UNSET)
    box.setToolTip(f"{tip}; lowest: the server's default")
    return box


def _given(box: QSpinBox) -> int | None:
    return None if box.value() == box.minimum() else box.value()


def _types(name: str) -> QComboBox:
    box = QComboBox()
    box.setAccessibleName(name)
    box.addItems(list(CACHE_TYPES))
    return box
