"""An engine that plays what it is given: for tests of views and of failures. It measures nothing.

Its tokenizer takes the UTF-8 bytes of a text as ids 0 to 255, and two control tokens: 256 is <|im_start|>, 257 is
<|im_end|>, which ends an answer.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from app.engine.base import Capabilities, EngineInfo, GenerateRequest, Progress, Snapshot, StopFlag
from app.errors import ContextOverflow, EngineDied, EngineError
from app.trajectory.step import IdArray, Rival, Step, as_ids, shared_length
from app.trajectory.trajectory import RequestReport, Span

IM_START, IM_END = 256, 257
CONTROL = {"<|im_start|>": IM_START, "<|im_end|>": IM_END}
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_N_UBATCH = 512

Answers = Sequence[Sequence[Step]] | Callable[[IdArray, int], Sequence[Step]]
"""What is played: answers in the order of the requests, over again at the end; or a function of the prompt ids and of
how many of them are cached, so that the two paths can be made to fork."""


@dataclass(frozen=True, slots=True)
class Mishap:
    """At request `request` (of the engine's life, from 0), after `step` steps, something goes wrong.

    "die": the engine is dead from then on. "hang": nothing more comes until a stop. "error": this request fails.
    """

    request: int
    step: int
    kind: Literal["die", "hang", "error"]


def tokenize(text: str, special: bool) -> list[int]:
    """Ids of `text`; `special` parses the two control tokens."""
    if not special:
        return list(text.encode())
    parts = re.split("(" + "|".join(map(re.escape, CONTROL)) + ")", text)
    return [token_id for part in parts for token_id in ([CONTROL[part]] if part in CONTROL else part.encode())]


def piece(token_id: int) -> bytes:
    """The bytes of a token, control tokens written out; b"" beyond the vocabulary."""
    if 0 <= token_id < IM_START:
        return bytes([token_id])
    return next((text.encode() for text, own in CONTROL.items() if own == token_id), b"")


def steps_of(text: str, margins: Sequence[float] = (), *, end: bool = True, k: int = 5) -> list[Step]:
    """An answer that says `text`, with k rivals at each step and the given margins in nats (2.0 beyond their end)."""
    ids = [*tokenize(text, False), *([IM_END] if end else [])]
    steps = []
    for index, token_id in enumerate(ids):
        margin = margins[index] if index < len(margins) else 2.0
        others = [other for other in range(ord("a"), ord("a") + k) if other != token_id][: k - 1]
        values = [-0.25, *(-0.25 - margin - 0.5 * rank for rank in range(k - 1))]
        rivals = [Rival(rival, value, piece(rival)) for rival, value in zip([token_id, *others], values, strict=True)]
        steps.append(Step(token_id, -0.25, piece(token_id), tuple(rivals)))
    return steps


class ScriptedEngine:
    """Plays `answers`; `counts` False reports no cached and evaluated tokens, as some servers do."""

    def __init__(
        self,
        answers: Answers | None = None,
        *,
        mishaps: Sequence[Mishap] = (),
        counts: bool = True,
        n_ctx: int = 4096,
        eog_ids: frozenset[int] = frozenset({IM_END}),
    ) -> None:
        self._answers: Answers = answers or [steps_of("Done.")]
        self._mishaps = {mishap.request: mishap for mishap in mishaps}
        self._requests = 0
        self._dead = False
        self._closed = threading.Event()
        self.counts = counts
        self._info = EngineInfo(
            name="scripted",
            build={"bindings": "none"},
            model={
                "name": "scripted",
                "size_bytes": 0,
                "sha256": "",
                "architecture": "scripted",
                "tensor_types": {},
                "tokenizer_hash": hashlib.sha256(repr(CONTROL).encode()).hexdigest(),
                "chat_template": CHAT_TEMPLATE,
                "chat_template_hash": hashlib.sha256(CHAT_TEMPLATE.encode()).hexdigest(),
                "bos_token": "",
                "eos_token": "<|im_end|>",
                "n_vocab": IM_START + len(CONTROL),
                "n_ctx_train": n_ctx,
                "n_swa": 0,
                "recurrent": False,
            },
            settings={"n_ctx": n_ctx, "n_ubatch": _N_UBATCH},
            capabilities=Capabilities(True, True, counts, True, True, True),
            eog_ids=eog_ids,
            n_ctx=n_ctx,
        )

    def describe(self) -> EngineInfo:
        """What this engine is; its model holds no more than a chat template."""
        return self._info

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of `text`: its bytes, and the control tokens where `special`."""
        return tokenize(text, special)

    def begin_pass(self) -> None:
        """Nothing to do: States share nothing."""

    def open_state(self) -> ScriptedState:
        """A State that holds nothing."""
        self.check_alive()
        return ScriptedState(self, as_ids(()))

    def restore(self, snapshot: Snapshot) -> ScriptedState:
        """A State that holds what the snapshot's State held."""
        self.check_alive()
        return ScriptedState(self, snapshot.ids)

    def close(self) -> None:
        """End whatever hangs; closing twice is harmless."""
        self._closed.set()

    def check_alive(self) -> None:
        """Raise EngineDied after a mishap "die", or after close."""
        if self._dead or self._closed.is_set():
            raise EngineDied("The scripted engine has ended.", "What was recorded stays.")

    def next_answer(self, prompt: IdArray, cached: int) -> tuple[Sequence[Step], Mishap | None]:
        """What is played for this prompt, and what goes wrong with it."""
        number, self._requests = self._requests, self._requests + 1
        answers = self._answers
        answer = answers(prompt, cached) if callable(answers) else answers[number % len(answers)]
        return answer, self._mishaps.get(number)

    def befall(self, mishap: Mishap, stop: StopFlag) -> None:
        """Let it happen; returns where a stop ends a hang."""
        if mishap.kind == "error":
            raise EngineError("The scripted engine failed at this request.", "It was told to.")
        while mishap.kind == "hang" and not stop.is_set() and not self._closed.wait(0.01):
            pass
        self._dead = mishap.kind == "die"
        self.check_alive()


class ScriptedState:
    """Holds ids only; keeps the longest common prefix as every engine does."""

    def __init__(self, engine: ScriptedEngine, held: IdArray) -> None:
        self._engine = engine
        self._held = held

    def generate(self, request: GenerateRequest, stop: StopFlag) -> Iterator[Progress | Step | RequestReport]:
        """Play the next answer."""
        engine, prompt = self._engine, as_ids(request.prompt_ids)
        engine.check_alive()
        if len(prompt) == 0:
            raise EngineError("The prompt is empty.", "A request needs at least one token.")
        if len(prompt) >= engine.describe().n_ctx:
            raise ContextOverflow(f"The prompt has {len(prompt):,} tokens; the context holds fewer.")
        held_before, cached = len(self._held), min(shared_length(self._held, prompt), len(prompt) - 1)
        answer, mishap = engine.next_answer(prompt, cached)
        yield Progress(cached, len(prompt), cached)
        self._held = prompt
        yield Progress(len(prompt), len(prompt), cached)
        taken: list[int] = []
        room = min(request.max_tokens, engine.describe().n_ctx - len(prompt) + 1)
        reason = "length"
        for step in [*answer[:room], None]:
            if mishap and mishap.step == len(taken):
                engine.befall(mishap, stop)
            if stop.is_set():
                reason = "cancelled"
                break
            if step is None:
                break
            yield Step(step.token_id, step.logprob, step.piece, step.rivals[: request.rivals])
            self._held = as_ids([*prompt.tolist(), *taken])
            taken.append(step.token_id)
            if step.token_id in engine.describe().eog_ids:
                reason = "stop"
                break
        yield self._report(len(prompt), cached, held_before, reason)

    def rebuild(self, ids: IdArray, spans: Sequence[Span]) -> None:
        """Hold `ids`, whatever the spans say."""
        if len(self._held):
            raise EngineError("Only an empty state can be rebuilt.")
        if sum(span.length for span in spans) != len(ids):
            raise EngineError("The state cannot be rebuilt: the record does not say how each entry was written.")
        self._held = as_ids(ids)

    def snapshot(self) -> Snapshot:
        """The ids held."""
        return Snapshot(self._held, b"")

    def close(self) -> None:
        """Nothing to give back."""

    def _report(self, total: int, cached: int, held_before: int, reason: str) -> RequestReport:
        evaluated = total - cached
        chunks = tuple(min(_N_UBATCH, evaluated - start) for start in range(0, evaluated, _N_UBATCH))
        counts = self._engine.counts
        return RequestReport(
            cached_tokens=cached if counts else None,
            evaluated_tokens=evaluated if counts else None,
            chunks=chunks if counts else (),
            finish_reason=reason,
            held_before=held_before if counts else None,
            first_token_ms=1.0,
            prefill_ms=1.0,
            decode_ms=1.0,
        )
