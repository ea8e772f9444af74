"""A server that runs elsewhere: its address, how it is reached, and a test of the connection."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.errors import AppError
from app.session import KEY_VARIABLE, ConnectionTest, EngineInfo, Pulse, ServerSettings
from app.views.engine_fields import number
from app.views.fold import fold_button
from app.views.server_card import ServerCard
from app.views.verbs import Verbs

LOOK_MS = 100
TEST_TIP = "Asks the server what it is and what it can do: a few tiny requests, which take one cache slot over."
DEFAULTS = ServerSettings()


class FileField(QWidget):
    """A file, or none."""

    changed = Signal()

    def __init__(self, name: str, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self.line = QLineEdit(placeholderText=empty, clearButtonEnabled=True)
        self.line.setAccessibleName(name)
        self.line.textChanged.connect(self.changed)
        browse = QPushButton("Choose…")
        browse.setAccessibleName(f"Choose: {name}")
        browse.clicked.connect(self._browse)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.line, 1)
        row.addWidget(browse)

    @property
    def file(self) -> Path | None:
        """What is chosen."""
        text = self.line.text().strip()
        return Path(text).expanduser() if text else None

    def _browse(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, self._name, str(self.file or ""))
        if name:
            self.line.setText(name)


class ServerFields(QWidget):
    """Everything of `ServerSettings`, and what the server said when it was tested.

    `info` is that, None before a test and after any change. `close_down` ends what asks the server; the widget does
    not end it by itself.
    """

    changed = Signal()

    def __init__(self, verbs: Verbs, last_url: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._verbs = verbs
        self.info: EngineInfo | None = None
        self._asked: ConnectionTest | None = None
        self._pulse: Pulse | None = None
        self.address = QLineEdit(last_url, placeholderText="http://127.0.0.1:8080", clearButtonEnabled=True)
        self.address.setAccessibleName("Address of the server")
        self.address.setToolTip("llama-server+, vllm+, sglang+ or openai+ before it says what kind of server it is.")
        self.test = QPushButton("Test connection")
        self.test.setToolTip(TEST_TIP)
        self.key_file = FileField("Key file", f"none: ${KEY_VARIABLE}, where it is set")
        self.template = FileField("Chat template file", "none: the server's own")
        self.model = QLineEdit(placeholderText="only where it serves several")
        self.model.setAccessibleName("Served model")
        self.control = QLineEdit(placeholderText="a second server without prefix caching, for its recompute path")
        self.control.setAccessibleName("Control server")
        self.silence = number(round(DEFAULTS.read_timeout_s), 1, 100_000, "Longest silence in seconds")
        self.allow_reset = QCheckBox("May evict what others have in its cache (erase, flush, reset)")
        self.allow_insecure = QCheckBox("May send the key to a public address without TLS")
        self.card = ServerCard()
        self._options = QWidget()
        self.more: QToolButton = fold_button("Key, chat template, permissions", self._options)
        self._lay_out()
        self._look = QTimer(self, interval=LOOK_MS)
        self._look.timeout.connect(self._take)
        self.test.clicked.connect(self._test_or_cancel)
        for line in (self.address, self.model, self.control):
            line.textChanged.connect(self._forget)
        for field in (self.key_file, self.template):
            field.changed.connect(self._forget)
        for box in (self.allow_reset, self.allow_insecure):
            box.toggled.connect(self._forget)
        self._forget()

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.addWidget(self.address, 1)
        line.addWidget(self.test)
        form = QFormLayout(self._options)
        form.setContentsMargins(0, 4, 0, 4)
        silence = QHBoxLayout()
        silence.addWidget(self.silence)
        silence.addWidget(QLabel("seconds"))
        silence.addStretch(1)
        for name, field in (
            ("API key", self.key_file),
            ("Served model", self.model),
            ("Chat template", self.template),
            ("Control server", self.control),
        ):
            form.addRow(name, field)
        form.addRow("Longest silence", silence)
        form.addRow("", self.allow_reset)
        form.addRow("", self.allow_insecure)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(line)
        for widget in (self.card, self.more, self._options):
            column.addWidget(widget)

    @property
    def url(self) -> str:
        """The address as a run takes it: "host:port" means http."""
        text = self.address.text().strip()
        return text if not text or "://" in text else f"http://{text}"

    @property
    def problem(self) -> str:
        """Why this cannot be used, "" where it can be tried."""
        if not self.url:
            return "Give the address of the server."
        try:
            parts = urlsplit(self.url)
            usable = bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            return "This is no address of a server; write it like http://127.0.0.1:8080."
        if "@" in parts.netloc:
            return "Leave name and password out of the address, and give the key in a key file."
        return ""

    def value(self) -> ServerSettings:
        """What is set now."""
        return ServerSettings(
            key_file=self.key_file.file,
            allow_reset=self.allow_reset.isChecked(),
            allow_insecure=self.allow_insecure.isChecked(),
            model=self.model.text().strip(),
            template=self.template.file,
            read_timeout_s=self.silence.value(),
            control_url=self.control.text().strip(),
        )

    @property
    def is_testing(self) -> bool:
        """Whether an answer is still to come."""
        return self._asked is not None

    def close_down(self) -> None:
        """Stop asking the server; harmless where nothing asks it."""
        if self._asked is not None:
            self._asked.stop()
        if self._pulse is not None:
            self._pulse.close()
        self._asked = self._pulse = None
        self._look.stop()

    # The test, and what keeps its answer true.

    def _forget(self) -> None:
        """What a server said holds for what was set then."""
        self.close_down()
        self.info = None
        self.test.setText("Test connection")
        self.test.setEnabled(not self.problem)
        self.card.say("Not tested yet: what can be proved on it is found out first." if self.url else "")
        self.changed.emit()

    def _test_or_cancel(self) -> None:
        if self._asked is not None:
            self._forget()
            return
        if self.problem:
            return
        self.close_down()
        self.info = None
        self._asked = self._verbs.test_connection(self.url, self.value())
        self.test.setText("Cancel")
        self.card.say("Connecting, and asking what it can do…")
        self._look.start()
        self.changed.emit()

    def _take(self) -> None:
        if self._asked is None:
            if self._pulse is not None and self._pulse.is_there is not None:
                self.card.show_pulse(self._pulse.is_there)
            return
        if self._asked.is_running:
            return
        asked, self._asked = self._asked, None
        self.test.setText("Test again")
        self.info = asked.info
        if asked.info is not None:
            self.card.show_info(asked.info)
            self._pulse = self._verbs.watch_server(self.url, self.value())
        else:
            self._look.stop()
            failure = asked.failure or AppError("The server said nothing.")
            self.card.say(f"✗ {failure}", "problem")
        self.changed.emit()
