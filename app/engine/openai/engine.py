"""OpenAI-compatible servers: llama-cpp-python's own, Ollama, LM Studio, TGI and the like (ENGINES.md).

They take a prompt as text, and none has a switch that keeps a request from the cache. What such a server does not tell
is not made up: without ids answers are compared by bytes or text, without logprobs there are no margins, without cached
counts a pair stays unproven.

A stop ends the connection, but a server that answers in one piece may work on until its answer is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from app.engine.base import EngineInfo, GenerateRequest, Sampling, Snapshot, StopFlag
from app.engine.http.server import Server
from app.engine.llama_server.probe import hash_of
from app.engine.openai.api import CompletionsApi
from app.engine.openai.probe import Found, probe, sentinel
from app.engine.openai.shape import UNKNOWN, Candidate, Completion, best, cut
from app.engine.openai.state import OpenAIState
from app.engine.piece_ids import PieceIds
from app.engine.server_settings import ServerSettings
from app.engine.template_file import NO_TEMPLATE, read_template
from app.errors import EngineError
from app.trajectory.step import IdArray, Rival, Step

RECOMPUTE_BY: Final = "an unrelated prompt is served in between (sentinel)"


class OpenAIEngine:
    """One server, one model, one State at a time. Used by one thread at a time.

    Ids of prompts are made up (`PieceIds`), those of answers as well unless the server tells its own. Raises
    SettingsError, EngineError, or EngineDied where nothing answers or a `stop` came.
    """

    def __init__(self, server: Server, settings: ServerSettings, *, stop: StopFlag | None = None) -> None:
        self._api = CompletionsApi(server, settings.model)
        self._pieces = PieceIds()
        found = probe(self._api, server.url, stop)
        self._info = _info(found, settings, self._api)
        self._latest: OpenAIState | None = None

    def describe(self) -> EngineInfo:
        """What this engine is; constant while it lives. `n_ctx` is 0: the server does not tell it."""
        return self._info

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Made-up ids of the words of `text`; control tokens are always parsed, as the server does with a prompt."""
        del special
        return self._pieces.ids_of_text(text)

    def begin_pass(self) -> None:
        """Nothing to do: the first request of each State is kept from the cache."""

    def open_state(self) -> OpenAIState:
        """A State whose first request follows a sentinel."""
        return OpenAIState(self)

    def restore(self, snapshot: Snapshot) -> OpenAIState:
        """Not to be had over this protocol."""
        raise EngineError(
            f"The server's cache of {len(snapshot.ids)} tokens cannot be put back over this protocol.",
            "Run the pass again from its start.",
        )

    def close(self) -> None:
        """End the connection; closing twice is harmless."""
        self._api.close()

    # For its States.

    def text_of(self, ids: IdArray) -> tuple[str, bool]:
        """The text of a prompt, and whether it is exact: an earlier answer may have ended inside a character."""
        content = self._pieces.bytes_of(ids)
        text = content.decode("utf-8", errors="replace")
        return text, text.encode("utf-8") == content

    def serve_sentinel(self, prompt: str, stop: StopFlag) -> None:
        """Serve something else, so that a server that keeps what it served last cannot reuse it for `prompt`."""
        self._api.complete(sentinel(prompt), 1, Sampling(), 1, stop)

    def complete(
        self, state: OpenAIState, text: str, request: GenerateRequest, stop: StopFlag
    ) -> tuple[object, list[str]]:
        """The raw answer, and what happened between this State's requests that must not."""
        problems = []
        if self._latest is not state and state.was_asked:
            problems.append("another state was served in between, so that this one's cache is gone")
        self._latest = state
        raw = self._api.complete(text, request.max_tokens, request.sampling, request.rivals, stop)
        changed = self._api.change(stop)
        return raw, [*problems, *([changed] if changed else [])]

    def body(self, text: str, request: GenerateRequest) -> Mapping[str, object]:
        """The request as it is sent, prompt included: the made-up ids would not bring it back."""
        return {"prompt": text, **self._api.body(request.max_tokens, request.sampling, request.rivals)}

    def steps(self, answer: Completion, rivals: int) -> tuple[list[Step], bool]:
        """The answer's steps, and whether they are its entries; where those do not rebuild the text, they are words."""
        placed = None if answer.entries is None else cut(answer.text, answer.entries)
        if placed is None:
            ids = self._pieces.ids_of_text(answer.text)
            return [Step(token_id, None, self._pieces.bytes_of([token_id])) for token_id in ids], False
        steps = []
        for piece, entry in placed:
            if entry is None:
                steps.append(Step(self._pieces.id_of(piece), None, piece))
                continue
            sampled = replace(entry.sampled, piece=piece)
            named = [sampled if each == entry.sampled else each for each in best(entry, rivals)]
            steps.append(Step(self._id(sampled), sampled.logprob, piece, tuple(map(self._rival, named))))
        return steps, True

    def _rival(self, candidate: Candidate) -> Rival:
        piece = UNKNOWN if candidate.piece is None else candidate.piece
        return Rival(self._id(candidate), candidate.logprob or 0.0, piece)

    def _id(self, candidate: Candidate) -> int:
        if self._info.level == "ids" and candidate.token_id is not None:
            told = candidate.piece is not None
            return self._pieces.learn(candidate.token_id, candidate.piece or b"") if told else candidate.token_id
        return self._pieces.id_of(UNKNOWN if candidate.piece is None else candidate.piece)


def _info(found: Found, settings: ServerSettings, api: CompletionsApi) -> EngineInfo:
    capabilities, template = found.capabilities, read_template(settings)
    model = found.model if template is None else {**found.model, "chat_template": template}
    text = model["chat_template"]
    return EngineInfo(
        name="OpenAI-compatible",
        build=found.build,
        model={**model, "chat_template_hash": hash_of(text) if isinstance(text, str) else None},
        settings={"prompt": "text", **({"repeat_penalty": 1.0} if api.goes_beyond else {})},
        capabilities=capabilities,
        eog_ids=frozenset(),  # an end token is sampled, but not told
        n_ctx=0,
        states_at_once=1,
        level=found.level,
        recompute_by="" if capabilities.recompute is False else RECOMPUTE_BY,
        gaps=(*found.gaps, *([] if text else [NO_TEMPLATE])),
    )
