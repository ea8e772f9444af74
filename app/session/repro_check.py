"""Verify before export: the scripts that were just made for a bundle are run once, as their reader would run them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path as FilePath

from app.bundle.format import BundleContents
from app.bundle.repro import EMBEDDED, SERVER, SHELL
from app.engine.default_model import default_model
from app.engine.gguf import sha256_of
from app.errors import AppError, EngineError
from app.experiment.replay_environment import replay_server
from app.session.replay import server_binary

Tell = Callable[[str], None]

_LOOK_AT_STOP_S = 0.1
_STARTED_HERE = ("embedded", "llama-server")
"""How the names of engines begin whose scripts can be run: a llama-server is started for them."""


class ScriptRunner:
    """Runs freshly made scripts of an export; nothing of a bundle that was received.

    The embedded form runs under this Python with `model` (None: the default model), whose SHA-256 must be the recorded;
    the server forms against a llama-server that is started from `binary`, or one at hand, with the recorded settings.
    Where something is missing its script is not run, and `tell` hears why.
    """

    def __init__(self, model: FilePath | None = None, binary: FilePath | None = None) -> None:
        self._model = model
        self._binary = binary

    def __call__(
        self, contents: BundleContents, scripts: Mapping[str, str], tell: Tell, stop: threading.Event
    ) -> Mapping[str, str]:
        """What each script printed, with its exit code in the last line, by its name; {} where `stop` was set."""
        engine = str(contents.environment.get("engine"))
        if not engine.startswith(_STARTED_HERE):
            tell(f"The repro scripts were not run: no {engine} is started here. Run {SERVER} against one, with --url.")
            return {}
        try:
            model = self._find_model(contents)
        except AppError as error:
            tell(f"The repro scripts were not run. {error}")
            return {}
        printed = {}
        with (
            tempfile.TemporaryDirectory(prefix="forkpoint-repro-") as folder,
            self._server(contents, model, tell, stop) as url,
        ):
            for name, text in scripts.items():
                script = FilePath(folder) / FilePath(name).name
                script.write_text(text, encoding="utf-8")
                words = _command(script, model, url)
                if words and not stop.is_set():
                    tell(f"Running {name}…")
                    printed[name] = _run(words, folder, stop)
                    tell("  " + printed[name].splitlines()[-1])
        return {} if stop.is_set() else printed

    def _find_model(self, contents: BundleContents) -> FilePath:
        """The model file with the recorded hash. Raises EngineError or ModelFileError where there is none."""
        model = self._model or default_model()
        recorded = contents.environment.get("model", {}).get("sha256")
        if not model.is_file() or sha256_of(model) != recorded:
            raise EngineError(f"{model.name} is not the recorded model, or not there.", "Name its file with --model.")
        return model

    @contextmanager
    def _server(self, contents: BundleContents, model: FilePath, tell: Tell, stop: threading.Event) -> Iterator[str]:
        """The URL of a llama-server with the recorded settings, "" where none can be started."""
        from app.engine.llama_server.managed import ManagedServer

        server: ManagedServer | None = None
        plan = contents.experiment.plan
        try:
            settings = replay_server(contents.environment, plan, self._binary or server_binary())
            server = ManagedServer(model, settings, stop=stop, say=tell)
        except AppError as error:
            tell(f"The server forms were not run. {error}")
        try:
            yield server.url if server else ""
        finally:
            if server:
                server.close()


def _command(script: FilePath, model: FilePath, url: str) -> list[str]:
    """How the script is run; [] where it cannot be here."""
    if script.name == EMBEDDED:
        return [sys.executable, "-I", str(script), "--model", str(model)]
    if script.name == SERVER and url:
        return [sys.executable, "-I", str(script), "--url", url]
    if script.name == SHELL and url and (shell := shutil.which("sh")) and shutil.which("curl"):
        return [shell, str(script), url]
    return []


def _run(words: list[str], folder: str, stop: threading.Event) -> str:
    """What it printed, then "exit code N"; a `stop` ends it."""
    with subprocess.Popen(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        while True:
            try:
                output, _ = process.communicate(timeout=_LOOK_AT_STOP_S)
            except subprocess.TimeoutExpired:
                if stop.is_set():
                    process.kill()
            else:
                return f"{output.strip()}\nexit code {process.returncode}"
