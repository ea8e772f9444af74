"""The embedded engine: llama.cpp in a child process, so that its end is an event and not the application's."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from app.engine.base import Capabilities, EngineInfo, GenerateRequest, Progress, Snapshot, StopFlag
from app.engine.embedded.child import serve
from app.engine.gguf import inspect
from app.engine.process import ChildProcess
from app.engine.settings import EmbeddedSettings, default_threads
from app.errors import EngineDied, EngineError
from app.trajectory.step import IdArray, Rival, Step
from app.trajectory.trajectory import RequestReport, Span

T = TypeVar("T")

_LOOK_AT_STOP_S = 0.05
_STOP_GRACE_S = 0.5
"""How long a stop waits for the evaluation under way; together well under the second that a person is promised."""


class EmbeddedEngine:
    """One GGUF in one child process. Raises ModelFileError or EngineError where it cannot be opened.

    Used by one thread at a time. `close` ends the process. A `stop` while the model loads raises EngineDied.
    """

    def __init__(self, model: Path, settings: EmbeddedSettings | None = None, *, stop: StopFlag | None = None) -> None:
        settings = settings or EmbeddedSettings()
        settings = replace(settings, threads=settings.threads or default_threads())
        self._process = ChildProcess("forkpoint-engine", serve, model, settings)
        try:
            inspection = _in_thread(inspect, model)  # while the child loads
            while not (self._process.poll(_LOOK_AT_STOP_S) and inspection.done()):
                if stop is not None and stop.is_set():
                    self._process.kill("It was stopped.")
                    raise EngineDied("The engine was stopped while it loaded the model.", "Nothing new was recorded.")
                wait([inspection], _LOOK_AT_STOP_S)
            file, facts = inspection.result(), self._process.receive()
        except BaseException:
            self._process.close()
            raise
        self._pieces: dict[int, bytes] = {}
        self._info = EngineInfo(
            name="embedded",
            build=facts["build"],
            model={**asdict(file), "n_swa": facts["n_swa"], "recurrent": facts["recurrent"]},
            settings={**asdict(settings), **{name: facts[name] for name in ("n_ctx", "n_batch", "n_ubatch")}},
            capabilities=Capabilities(
                token_ids=True,
                rivals=True,
                cached_counts=True,
                snapshot=True,
                recompute=True,
                rebuild=True,
                piece_bytes=True,
                reset=True,
            ),
            recompute_by="a new, empty llama_context for each request",
            eog_ids=facts["eog_ids"],
            n_ctx=facts["n_ctx"],
        )

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._process.pid

    def describe(self) -> EngineInfo:
        """What this engine is; constant while it lives."""
        return self._info

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of `text`, no BOS added; `special` parses control tokens in it."""
        ids: list[int] = self.ask("tokenize", text, special)
        return ids

    def begin_pass(self) -> None:
        """Nothing to do: States share nothing."""

    def open_state(self) -> EmbeddedState:
        """A State that holds nothing; it may get a context that another one gave back, cleared."""
        return EmbeddedState(self, self.ask("open_state"))

    def restore(self, snapshot: Snapshot) -> EmbeddedState:
        """A State that holds exactly what the snapshot's State held."""
        own = self._identity()
        if any(snapshot.meta.get(key, value) != value for key, value in own.items()):
            raise EngineError("The saved state belongs to another model or to other cache settings.")
        return EmbeddedState(self, self.ask("restore", snapshot))

    def close(self) -> None:
        """End the process; closing twice is harmless."""
        self._process.close()

    def ask(self, command: str, *args: object) -> Any:
        """One command of the child that has one answer."""
        self._process.send((command, *args))
        return self._process.receive()

    def forget(self, number: int) -> None:
        """Give the context of the state `number` back; nothing to do where the process is gone."""
        with contextlib.suppress(EngineDied):
            self.ask("close_state", number)

    def snapshot(self, number: int) -> Snapshot:
        """The content of the state `number`, named by model and cache types."""
        content: Snapshot = self.ask("snapshot", number)
        return replace(content, meta=self._identity())

    def generate(
        self, number: int, request: GenerateRequest, stop: StopFlag
    ) -> Iterator[Progress | Step | RequestReport]:
        """Let the state `number` answer; see `State.generate`. Left half-way, the answer is stopped and thrown away."""
        self._process.send(("generate", number, request))
        answering = True
        try:
            for message in self._messages(stop):
                if isinstance(message, RequestReport):
                    answering = False
                yield message if isinstance(message, Progress | RequestReport) else self._step(message)
        except EngineError:
            answering = False
            raise
        finally:
            if answering:
                with contextlib.suppress(EngineError):  # nobody waits for it; the next command will say so
                    for _ in self._messages(_Stopped()):
                        pass

    def _messages(self, stop: StopFlag) -> Iterator[Any]:
        """What the child sends until its report. After a stop it has a moment to report, then it is killed."""
        deadline: float | None = None
        while True:
            if deadline is None and stop.is_set():
                self._process.send(("stop",))
                deadline = time.monotonic() + _STOP_GRACE_S
            if not self._process.poll(_LOOK_AT_STOP_S):
                if deadline is not None and time.monotonic() > deadline:
                    self._process.kill("The engine was stopped in the middle of an evaluation.")
                    self._process.receive()
                continue
            message = self._process.receive()
            yield message
            if isinstance(message, RequestReport):
                return

    def _step(self, message: tuple[int, float, list[int], list[float], dict[int, bytes]]) -> Step:
        token_id, logprob, ids, logprobs, new_pieces = message
        pieces = self._pieces
        pieces.update(new_pieces)
        rivals = tuple(Rival(rival, value, pieces[rival]) for rival, value in zip(ids, logprobs, strict=True))
        return Step(token_id, logprob, pieces[token_id], rivals)

    def _identity(self) -> dict[str, object]:
        """What must agree for a saved state to mean the same."""
        settings = self._info.settings
        return {
            "model_sha256": self._info.model["sha256"],
            **{name: settings[name] for name in ("type_k", "type_v", "flash_attention", "swa_full")},
        }


class EmbeddedState:
    """A llama_context in the engine's child process; see `State`."""

    def __init__(self, engine: EmbeddedEngine, number: int) -> None:
        self._engine = engine
        self._number = number
        self._closed = False

    def generate(self, request: GenerateRequest, stop: StopFlag) -> Iterator[Progress | Step | RequestReport]:
        """Answer one request; the report comes last."""
        return self._engine.generate(self._number, request, stop)

    def rebuild(self, ids: IdArray, spans: Sequence[Span]) -> None:
        """Fill this empty State with `ids` the way another one was filled."""
        self._engine.ask("rebuild", self._number, ids, list(spans))

    def snapshot(self) -> Snapshot:
        """The exact content."""
        return self._engine.snapshot(self._number)

    def close(self) -> None:
        """Give the context back; harmless twice, and after the engine's end."""
        if not self._closed:
            self._closed = True
            self._engine.forget(self._number)


def _in_thread(work: Callable[[Path], T], model: Path) -> Future[T]:
    """`work(model)` in a thread that nobody has to wait for: hashing a large file takes many seconds."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work(model))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="inspect-model", daemon=True).start()
    return future


class _Stopped:
    """A stop flag that is set."""

    def is_set(self) -> bool:
        return True
