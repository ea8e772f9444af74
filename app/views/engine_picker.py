"""Which engine answers: the embedded one, a llama-server that is started here, or a server that runs elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QComboBox, QFormLayout, QHBoxLayout, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app.session import EmbeddedSettings, EngineInfo, ManagedSettings, ServerSettings
from app.settings import Settings
from app.views.engine_fields import EngineFields
from app.views.fold import fold_button
from app.views.help_pages import show_page
from app.views.managed_fields import ManagedFields
from app.views.model_field import ModelField
from app.views.server_fields import ServerFields
from app.views.text_label import text_label
from app.views.verbs import Verbs

KINDS = {
    "embedded": ("Embedded: llama.cpp in this app", "Everything can be proved: ids, counts, every entry of the cache."),
    "managed": (
        "llama-server, started here",
        "A fresh process for each pass, so nothing comes from before. Ends with the app.",
    ),
    "server": (
        "A server that runs elsewhere",
        "llama-server, vLLM, SGLang or OpenAI-compatible: the test says what can be proved.",
    ),
}
"""Name -> what it is called, and what it is good for."""


@dataclass(frozen=True)
class Picked:
    """An engine as RunRequest and Examination take it."""

    engine: str
    model: Path | None
    settings: EmbeddedSettings
    server: ServerSettings
    managed: ManagedSettings


class EnginePicker(QObject):
    """Adds its rows to a form. `changed`: something was set or found out. `unfolded`(widget): it is shown for the first
    time and wants room."""

    changed = Signal()
    unfolded = Signal(QWidget)

    def __init__(self, verbs: Verbs, settings: Settings, parent: QWidget) -> None:
        super().__init__(parent)
        self._settings = settings
        self._form: QFormLayout | None = None
        self._shown: set[QWidget] = set()
        self.kind = QComboBox()
        self.kind.setAccessibleName("Engine")
        for name, (text, _) in KINDS.items():
            self.kind.addItem(text, name)
        self.note = text_label("muted", wrap=True)
        self.note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.model = ModelField(verbs, Path(settings.last_model) if settings.last_model else None)
        self.server = ServerFields(verbs, settings.last_server)
        self.embedded = EngineFields(replace(EmbeddedSettings(), threads=settings.threads))
        self.managed = ManagedFields(verbs, settings.threads)
        self.help = QToolButton()
        self.help.setText("What can be proved?")
        self.help.setToolTip("Help on each engine")
        self.help.clicked.connect(lambda: show_page(parent, "Engines", "engines.md"))
        self.advanced = fold_button("Engine settings", self.embedded)
        self.advanced.toggled.connect(self._unfold)
        self.kind.currentIndexChanged.connect(self._show_kind)
        self.model.model_chosen.connect(self._model_chosen)
        self.embedded.changed.connect(self.changed)
        self.managed.changed.connect(self.changed)
        self.server.changed.connect(self.changed)

    def add_rows(self, form: QFormLayout) -> None:
        """The engine's rows, at the end of `form`; those of another kind of engine are hidden."""
        self._form = form
        row, column = QHBoxLayout(), QVBoxLayout()
        row.setSpacing(6)
        row.addWidget(self.kind, 1)
        row.addWidget(self.help)
        column.setSpacing(4)
        column.addLayout(row)
        column.addWidget(self.note)
        form.addRow("Engine", column)
        form.addRow("Model", self.model)
        form.addRow("", self.advanced)
        form.addRow(self.embedded)
        form.addRow("llama-server", self.managed)
        form.addRow("Server", self.server)
        self._show_kind()

    @property
    def name(self) -> str:
        """ "embedded", "managed" or "server"."""
        return str(self.kind.currentData())

    def choose(self, name: str) -> None:
        """Pick an engine by its name."""
        self.kind.setCurrentIndex(list(KINDS).index(name))

    @property
    def info(self) -> EngineInfo | None:
        """What a tested server can do; None for others, whose abilities are known."""
        return self.server.info if self.name == "server" else None

    @property
    def problem(self) -> str:
        """Why this engine cannot be used, "" where it can be tried."""
        if self.name == "server":
            return self.server.problem or ("The connection is being tested…" if self.server.is_testing else "")
        if self.model.is_reading:
            return "The model file is being read…"
        if not self.model.facts:
            return "Choose a model that can be used."
        return self.embedded.problem if self.name == "embedded" else self.managed.problem

    def value(self) -> Picked:
        """What is picked. Raises SettingsError for a value that cannot be used."""
        name = self.name
        return Picked(
            engine=self.server.url if name == "server" else name,
            model=None if name == "server" else self.model.model,
            settings=self.embedded.value() if name == "embedded" else EmbeddedSettings(),
            server=self.server.value() if name == "server" else ServerSettings(),
            managed=self.managed.value() if name == "managed" else ManagedSettings(),
        )

    def remember(self) -> None:
        """Keep model and address in the settings, for the next time."""
        if self.name == "server":
            self._settings.last_server = self.server.url
        else:
            self._settings.last_model = str(self.model.model) if self.model.model else ""

    def close_down(self) -> None:
        """Stop asking servers."""
        self.server.close_down()

    def _unfold(self, shown: bool) -> None:
        if self._form is not None:
            self._form.setRowVisible(self.embedded, shown)
        if shown:
            self._ask_for_room(self.embedded)

    def _ask_for_room(self, widget: QWidget) -> None:
        if widget not in self._shown:
            self._shown.add(widget)
            self.unfolded.emit(widget)

    def _model_chosen(self) -> None:
        self.managed.set_model(self.model.path)
        self.changed.emit()

    def _show_kind(self) -> None:
        name = self.name
        self.note.setText(KINDS[name][1])
        if self._form is None:
            return
        for widget, shown in (
            (self.model, name != "server"),
            (self.advanced, name == "embedded"),
            (self.embedded, name == "embedded" and self.advanced.isChecked()),
            (self.managed, name == "managed"),
            (self.server, name == "server"),
        ):
            self._form.setRowVisible(widget, shown)
        if name != "embedded":
            self._ask_for_room(self.managed if name == "managed" else self.server)
        self.changed.emit()
