"""A llama-server that Forkpoint starts: its command, its process, its log; and the engine over it."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from app.engine.base import EngineInfo, StopFlag
from app.engine.embedded.build import cpu_name
from app.engine.http.server import Reply, Server
from app.engine.llama_server.engine import LlamaServerEngine
from app.engine.llama_server.guard import guard
from app.engine.process import ChildProcess
from app.engine.server_settings import ManagedSettings, ServerSettings
from app.engine.settings import default_threads
from app.errors import EngineDied, EngineError, ServerRefused, SettingsError

BINARY = "llama-server"

_LOOK_S = 0.2
"""How often a server that loads is asked whether it is ready: five times a second."""

_DEATH_S = 1.0
"""How long a broken connection waits for the news that the process ended."""

Say = Callable[[str], None]


def find_binary(settings: ManagedSettings) -> Path:
    """The llama-server to start: the chosen one, the one beside Python, the one on PATH. Raises SettingsError."""
    beside = Path(sys.executable).with_name(BINARY)
    found = settings.binary or (beside if beside.is_file() else shutil.which(BINARY))
    if found is None:
        raise SettingsError("No llama-server was found.", "Choose one, put it on PATH, or `make server` builds one.")
    if not Path(found).is_file():
        raise SettingsError(f"There is no llama-server at {found}.", "Choose another one; `make server` builds one.")
    return Path(found)


def command(
    model: Path, settings: ManagedSettings, port: int, *, binary: Path | None = None, slots: Path = Path("slots")
) -> list[str]:
    """What is started, word by word. `slots` is the folder for saved slots."""
    words: list[object] = [binary or settings.binary or BINARY, "--model", model, "--alias", model.name]
    words += ["--host", "127.0.0.1", "--port", port, "--ctx-size", settings.ctx_size, "--parallel", settings.parallel]
    words += ["--batch-size", settings.batch_size, "--ubatch-size", settings.ubatch_size]
    threads = settings.threads or default_threads()
    words += ["--threads", threads, "--threads-batch", threads, "--n-gpu-layers", settings.gpu_layers]
    words += ["--flash-attn", "on" if settings.flash_attention else "off"]
    words += ["--cache-type-k", settings.cache_type_k, "--cache-type-v", settings.cache_type_v]
    for flag, value in (
        ("--cache-ram", settings.cache_ram),
        ("--cache-reuse", settings.cache_reuse),
        ("--ctx-checkpoints", settings.ctx_checkpoints),
    ):
        words += [] if value is None else [flag, value]
    words += ["--swa-full"] if settings.swa_full else []
    words += [] if settings.cache_prompt else ["--no-cache-prompt"]
    words += ["--slot-save-path", f"{slots}/"] if settings.slot_save else []
    return [str(word) for word in (*words, *settings.arguments)]


class ManagedServer:
    """One llama-server process on a loopback port (0: a free one), ready when this returns; `close` ends it.

    It also ends when this process does, killed or not. `say` is told how long it has been loading. Raises SettingsError
    without a binary, EngineError with the last lines of its log where it ends while it loads, EngineDied at a `stop`.
    """

    def __init__(
        self,
        model: Path,
        settings: ManagedSettings,
        *,
        port: int = 0,
        stop: StopFlag | None = None,
        say: Say | None = None,
    ) -> None:
        binary = find_binary(settings)
        if not model.is_file():
            raise EngineError(f"There is no model file {model.name}.", "Check the path.")
        self._folder = tempfile.TemporaryDirectory(prefix="forkpoint-slots-")
        self.slot_folder = Path(self._folder.name)
        port = port or _free_port()
        self.command = command(model.resolve(), settings, port, binary=binary, slots=self.slot_folder)
        self.url = f"http://127.0.0.1:{port}"
        self._process = ChildProcess("forkpoint-llama-server", guard, self.command)
        self._end: EngineDied | None = None
        try:
            started = self._process.receive()
            if isinstance(started, str):
                raise SettingsError(f"{binary.name} cannot be started: {started}.", "Choose another llama-server.")
            self.pid: int = started
            self._await_health(stop, say)
        except BaseException:
            self.close()
            raise

    def connect(self) -> Server:
        """A connection that knows why the process ended."""
        return _Connection(self)

    def log(self) -> str:
        """The last 64 KiB of what the process printed."""
        return self._process.output()

    def ended(self, within_s: float) -> EngineDied | None:
        """Why the process is gone, or None where it still runs after `within_s` seconds."""
        if self._end is None:
            try:
                if not self._process.poll(within_s):
                    return None
                code = self._process.receive()
            except EngineDied as error:
                self._end = error
            else:
                how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                lines = [line for line in self.log().splitlines() if line.strip()][-6:]
                hint = " ".join(["What was recorded stays. Its last lines:", " | ".join(lines)])
                self._end = EngineDied(f"llama-server ended {how}.", hint)
        return self._end

    def close(self) -> None:
        """End the process; closing twice is harmless."""
        self._process.close()
        self._folder.cleanup()

    def _await_health(self, stop: StopFlag | None, say: Say | None) -> None:
        server = Server(self.url, ServerSettings(connect_timeout_s=1, read_timeout_s=5))
        began = time.monotonic()
        try:
            while True:
                if stop is not None and stop.is_set():  # first, so that it is heard however fast the model loads
                    raise EngineDied("The server was stopped while it loaded the model.", "Nothing new was recorded.")
                if _is_ready(server):
                    return
                if (end := self.ended(_LOOK_S)) is not None:
                    raise EngineError("llama-server did not start with these settings.", f"{end.message} {end.hint}")
                if say is not None:
                    say(f"llama-server loads the model ({time.monotonic() - began:.1f} s)…")
        finally:
            server.close()


class ManagedEngine(LlamaServerEngine):
    """A llama-server of our own: each pass begins with a fresh process, so with an empty cache of every kind.

    Raises what ManagedServer and LlamaServerEngine do; EngineDied carries the last lines of the server's log.
    """

    def __init__(
        self, model: Path, settings: ManagedSettings, *, stop: StopFlag | None = None, say: Say | None = None
    ) -> None:
        self._model = model
        self._flags = settings
        self._stop = stop
        self._say = say
        self._managed = ManagedServer(model, settings, stop=stop, say=say)
        try:
            folder = self._managed.slot_folder if settings.slot_save else None
            super().__init__(self._managed.connect(), ServerSettings(allow_reset=True), stop=stop, slot_folder=folder)
        except BaseException:
            self._managed.close()
            raise
        self._info = _managed_info(self._info, model, settings)

    @property
    def server(self) -> ManagedServer:
        """The process of the current pass."""
        return self._managed

    def begin_pass(self) -> None:
        """A fresh process with the same flags. States of the one before end."""
        self._managed.close()
        self._managed = ManagedServer(self._model, self._flags, stop=self._stop, say=self._say)
        if self._slot_folder is not None:
            self._slot_folder = self._managed.slot_folder
        self._replace(self._managed.connect())

    def close(self) -> None:
        """End the process; closing twice is harmless."""
        super().close()
        self._managed.close()


class _Connection(Server):
    """A connection to a process of our own: where it breaks, the process's end says why."""

    def __init__(self, managed: ManagedServer) -> None:
        super().__init__(managed.url, ServerSettings())
        self._managed = managed

    def get(self, path: str, *, stop: StopFlag | None = None) -> Reply:
        """See Server."""
        with self._explained(stop):
            return super().get(path, stop=stop)

    def post(self, path: str, body: Mapping[str, object] | None, *, stop: StopFlag | None = None) -> Reply:
        """See Server."""
        with self._explained(stop):
            return super().post(path, body, stop=stop)

    @contextlib.contextmanager
    def _explained(self, stop: StopFlag | None) -> Iterator[None]:
        try:
            yield
        except EngineDied as error:
            if stop is not None and stop.is_set():
                raise
            raise self._managed.ended(_DEATH_S) or error from error


def _managed_info(info: EngineInfo, model: Path, settings: ManagedSettings) -> EngineInfo:
    """With the flags as one would type them; neither paths nor the port of this one process are kept."""
    typed = command(Path(model.name), replace(settings, binary=None), 8080)
    return replace(
        info,
        name="llama-server (managed)",
        build={**info.build, "cpu": cpu_name()},
        settings={**info.settings, "command": shlex.join(typed), "threads": settings.threads or default_threads()},
        recompute_by=info.recompute_by and f"{info.recompute_by}; each pass in a fresh process",
    )


def _is_ready(server: Server) -> bool:
    try:
        server.get("/health")
    except (EngineDied, ServerRefused):  # nothing listens yet; or 503 while the model loads
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
