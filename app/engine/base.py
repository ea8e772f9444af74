"""The engine contract: the cache state is an object (DESIGN 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from app.trajectory.step import IdArray, Step
from app.trajectory.trajectory import RequestReport, Span


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen. Greedy where `temperature` is 0; else the engine's own top-k, top-p, temperature chain."""

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    seed: int = 42


@dataclass(frozen=True, eq=False)
class GenerateRequest:
    """One request: prompt ids int32 [n], at most `max_tokens` steps, `rivals` most probable tokens at each."""

    prompt_ids: IdArray
    max_tokens: int
    sampling: Sampling = Sampling()
    rivals: int = 5


@dataclass(frozen=True, slots=True)
class Progress:
    """Prefill progress: `done` of `total` prompt tokens are in the state, `cached` of them were there before."""

    done: int
    total: int
    cached: int


@dataclass(frozen=True)
class Capabilities:
    """What the engine can do: True, False, or None for unknown.

    `token_ids`: ids in and out. `rivals`: logprobs of the k most probable tokens. `piece_bytes`: a token's raw bytes.
    `cached_counts`: how many prompt tokens came from the cache. `recompute`: a request can be kept from the cache.
    `reset`: what the cache holds can be dropped. `slots`: a request can be pinned to one cache slot. `salt`: a request
    can be given a cache of its own. `snapshot` and `rebuild`: see State. `caching`: a request that says nothing of the
    cache, as most clients send it, is served from it.
    """

    token_ids: bool | None = None
    rivals: bool | None = None
    cached_counts: bool | None = None
    snapshot: bool | None = None
    recompute: bool | None = None
    rebuild: bool | None = None
    piece_bytes: bool | None = None
    reset: bool | None = None
    slots: bool | None = None
    salt: bool | None = None
    caching: bool | None = None


Level = Literal["ids", "bytes", "text"]
"""What two answers can be compared by: token ids, the bytes of their tokens, or only the words of their text.

Below "ids" the engine makes up ids for pieces (app/engine/piece_ids.py); equal ids then mean equal bytes, no more.
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """A field that a server's answer lacks, or whose value is nonsense: `field` as the server names it, `found` what
    stood there, `impossible` what cannot be done or proved for want of it."""

    field: str
    found: str
    impossible: str


@dataclass(frozen=True)
class EngineInfo:
    """What the engine is, for the sealed environment record.

    `build`, `model` and `settings` are flat JSON-able mappings; `model` has file name, size_bytes, sha256,
    architecture, tensor_types (type name -> count), tokenizer_hash, chat_template, chat_template_hash, bos_token,
    eos_token, n_vocab, n_ctx_train, n_swa, recurrent; a server's are those that it tells. `eog_ids` are the ids that
    end an answer. `states_at_once` says how many States may be open together (None: as many as memory holds). `level`
    is what answers are compared by; `recompute_by` says in words how a request is kept from the cache, "" where it
    cannot be; `gaps` is what the probe at connect found missing.
    """

    name: str
    build: Mapping[str, object]
    model: Mapping[str, object]
    settings: Mapping[str, object]
    capabilities: Capabilities
    eog_ids: frozenset[int]
    n_ctx: int
    states_at_once: int | None = None
    level: Level = "ids"
    recompute_by: str = ""
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A State's exact content: `ids` int32 [n] of the tokens it holds, `data` the engine's own bytes of it."""

    ids: IdArray
    data: bytes
    meta: Mapping[str, object] = field(default_factory=dict)


class StopFlag(Protocol):
    """What `generate` asks between steps; a `threading.Event` is one."""

    def is_set(self) -> bool:
        """Whether the run shall stop."""
        ...


class State(Protocol):
    """A cache state. The cached path keeps one for a whole pass; the recompute path opens a new one per request."""

    def generate(self, request: GenerateRequest, stop: StopFlag) -> Iterator[Progress | Step | RequestReport]:
        """Answer one request; the report comes last.

        Keeps the longest common prefix of what the state holds and the prompt, always re-evaluates at least the last
        prompt token. Raises ContextOverflow where the prompt does not fit, EngineDied where the process ended,
        EngineError else. A stop ends it with finish reason "cancelled", or kills the engine where a prefill is under
        way (EngineDied).
        """
        ...

    def rebuild(self, ids: IdArray, spans: Sequence[Span]) -> None:
        """Fill this empty State with `ids` the way another one was filled.

        Each span is evaluated in the chunk size that wrote it, or token by token where it was decoded; a span that a
        later prompt cut short is evaluated whole, with filler, and cut. What an entry holds depends only on that and
        on the entries before it, so the bits agree with the original. Raises EngineError where the engine cannot.
        """
        ...

    def snapshot(self) -> Snapshot:
        """The exact content; `Engine.restore` makes an equal State of it, in another process too."""
        ...

    def close(self) -> None:
        """Give the state's memory back; closing twice is harmless."""
        ...


class Engine(Protocol):
    """A source of tokens."""

    def describe(self) -> EngineInfo:
        """What this engine is; constant while it lives."""
        ...

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of `text`, no BOS added; `special` parses control tokens such as <|im_end|> in it."""
        ...

    def begin_pass(self) -> None:
        """A new server history begins: nothing that was served before may reach the States opened from now on.

        A managed server gets a fresh process, a salted one a new salt; where States share nothing, nothing is done.
        """
        ...

    def open_state(self) -> State:
        """A State that holds nothing.

        On a server its first request is kept from the cache by `EngineInfo.recompute_by`, later ones may use it: so
        a pass that keeps one State is the cached path, and one that opens a State per request the recompute path.
        """
        ...

    def restore(self, snapshot: Snapshot) -> State:
        """A State that holds exactly what the snapshot's State held. Raises EngineError where it does not fit."""
        ...

    def close(self) -> None:
        """End the engine's process or connection; closing twice is harmless."""
        ...


Tokenize = Callable[[str, bool], list[int]]
"""tokenize(text, special) -> ids, as the workload takes it."""
