"""What an OpenAI-compatible server is and can do, found out at connect: tiny requests, every field looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from app.engine.base import Capabilities, Gap, Level, Sampling, StopFlag
from app.engine.gguf import inspect
from app.engine.http.address import is_loopback
from app.engine.llama_server.probe import file_name
from app.engine.llama_server.shape import as_mapping, count_of
from app.engine.openai.api import CompletionsApi
from app.engine.openai.shape import Completion, Entry, best, cut, read_completion
from app.engine.piece_ids import OWN_IDS
from app.errors import EngineError, ModelFileError, ServerRefused

RIVALS: Final = 5
TOKENS: Final = 4

_PROMPT: Final = "Count on: one, two, three,"
_LONG_PROMPT: Final = "Look at this list of words. " + "one two three four five six seven eight nine ten " * 40
"""Longer than three blocks of 128 tokens: servers that cache in blocks have something to keep."""

SENTINELS: Final = ("0 0 0", "# # #")
"""Unrelated prompts: of the two, that which begins in another way than the next prompt."""


@dataclass
class Found:
    """The result of the probe."""

    model: dict[str, object]
    build: dict[str, object]
    level: Level = "text"
    capabilities: Capabilities = field(default_factory=Capabilities)
    gaps: list[Gap] = field(default_factory=list)


def sentinel(prompt: str) -> str:
    """A prompt that shares no beginning with `prompt`."""
    return next(text for text in SENTINELS if text[0] != prompt.lstrip()[:1])


def probe(api: CompletionsApi, url: str, stop: StopFlag | None) -> Found:
    """Ask everything, in a few seconds on a small model.

    Raises EngineError where this is no server of completions, SettingsError where a model must be chosen, EngineDied
    where it is gone or `stop` came.
    """
    api.choose_model(stop)
    gaps: list[Gap] = []
    answer = _first_answer(api, gaps, stop)
    model = _model(api, url)
    n_vocab = model["n_vocab"] if isinstance(model["n_vocab"], int) else OWN_IDS
    found = Found(model, _build(api, answer, stop), _level(answer, n_vocab), gaps=gaps)
    gaps += _shape_gaps(answer, n_vocab, asked=api.asks_logprobs)
    recompute = _recompute(api, answer, gaps, stop)
    entries = answer.entries or ()
    found.capabilities = Capabilities(
        token_ids=False,
        rivals=bool(entries) and all(len(best(entry, RIVALS)) == RIVALS for entry in entries),
        cached_counts=answer.cached is not None,
        snapshot=False,
        recompute=recompute,
        rebuild=False,
        piece_bytes=found.level != "text",
        reset=False,
        slots=False,
        salt=False,
    )
    return found


def _first_answer(api: CompletionsApi, gaps: list[Gap], stop: StopFlag | None) -> Completion:
    """The probe's answer; what the server refuses is left out and noted, one thing after the other."""
    first: ServerRefused | None = None
    for api.asks_logprobs, api.goes_beyond in ((True, True), (True, False), (False, True), (False, False)):
        try:
            answer = _ask(api, _PROMPT, stop)
        except ServerRefused as error:
            if error.status in (401, 403, 404, 429):
                raise
            first = first or error
            continue
        if first and not api.asks_logprobs:
            gaps.append(Gap("logprobs", f"refused: {first.message}", _NO_LOGPROBS))
        if first and not api.goes_beyond:
            gaps.append(Gap("repeat_penalty", f"refused: {first.message}", "sampling without penalties of the server"))
        return answer
    assert first is not None  # else there was an answer
    raise first


def _ask(api: CompletionsApi, prompt: str, stop: StopFlag | None) -> Completion:
    answer = read_completion(api.complete(prompt, TOKENS, Sampling(), RIVALS, stop))
    if answer is None:
        raise EngineError(
            "The server's answer to /v1/completions has no choices with a text.",
            "Forkpoint needs completions of a text, not of a chat alone.",
        )
    return answer


def _level(answer: Completion, n_vocab: int) -> Level:
    entries = answer.entries
    if not entries or cut(answer.text, entries) is None:
        return "text"
    if all(_has_id(entry, n_vocab) and entry.sampled.piece is not None for entry in entries):
        return "ids"
    return "bytes" if answer.tells_bytes else "text"


def _has_id(entry: Entry, n_vocab: int) -> bool:
    return entry.sampled.token_id is not None and entry.sampled.token_id < n_vocab


def _shape_gaps(answer: Completion, n_vocab: int, *, asked: bool) -> Iterator[Gap]:
    """Every field that is relied on and is missing, moved or nonsense."""
    if answer.stop not in ("stop", "length"):
        yield Gap("choices[0].finish_reason", repr(answer.stop), "telling an answer that was cut from one that ended")
    if answer.answer_tokens is None or answer.prompt_tokens is None:
        yield Gap("usage", "absent", "seeing that the server cut a prompt short")
    if answer.cached is None:
        yield Gap(
            "usage.prompt_tokens_details.cached_tokens",
            "absent",
            "proving that the cached path used the cache and the recompute path did not: pairs are unproven",
        )
    yield Gap("prompt", "a text", "making sure that the server reads an earlier answer in the tokens that it sampled")
    if asked:
        yield from _entry_gaps(answer, n_vocab)


def _entry_gaps(answer: Completion, n_vocab: int) -> Iterator[Gap]:
    name, entries = "choices[0].logprobs", answer.entries
    if not entries:
        yield Gap(name, "absent, or lists of unequal length", _NO_LOGPROBS)
        return
    if answer.answer_tokens is not None and len(entries) < answer.answer_tokens:
        yield Gap(name, f"{len(entries)} entries of {answer.answer_tokens} tokens", "a margin at every step")
    if cut(answer.text, entries) is None:
        yield Gap(f"{name}.tokens", "do not rebuild the text", _NO_LOGPROBS)
    if any(entry.sampled.logprob is None for entry in entries):
        yield Gap(f"{name}.token_logprobs", "null, no logprob, or another position's", "a logprob at those steps")
    depth = min(len(entry.rivals) for entry in entries)
    if depth < RIVALS:
        yield Gap(f"{name}.top_logprobs", f"{depth} of {RIVALS}", f"margins where {RIVALS} rivals are asked for")
    if not all(map(_is_greedy, entries)):
        yield Gap(
            f"{name}.top_logprobs",
            "the sampled token is not the most probable one at temperature 0",
            "trusting margins: the server applies penalties, or shows another position's logprobs",
        )
    if not all(_has_id(entry, n_vocab) for entry in entries):
        told = [entry.sampled.token_id for entry in entries if entry.sampled.token_id is not None]
        what = f"{max(told)}, beyond the vocabulary of {n_vocab}" if told and max(told) >= n_vocab else "absent"
        compared = _level(answer, n_vocab)
        yield Gap("choices[0].token_ids", what, f"comparing answers by token ids: they are compared by {compared}")


def _is_greedy(entry: Entry) -> bool:
    logprob = entry.sampled.logprob
    return logprob is None or not entry.rivals or (entry.rivals[0].logprob or 0.0) <= logprob + 1e-3


def _recompute(api: CompletionsApi, answer: Completion, gaps: list[Gap], stop: StopFlag | None) -> bool | None:
    """Whether the sentinel keeps the next request from the cache: by counts, where there are any; None where not."""
    if answer.cached is None:
        return None
    _ask(api, _LONG_PROMPT, stop)
    warm = _ask(api, _LONG_PROMPT, stop).cached
    _ask(api, sentinel(_LONG_PROMPT), stop)
    after = _ask(api, _LONG_PROMPT, stop).cached
    if not warm:
        gaps.append(Gap("cached_tokens", f"{warm} for a repeated prompt", "telling a cache that is off from no cache"))
        return None
    return after == 0


def _build(api: CompletionsApi, answer: Completion, stop: StopFlag | None) -> dict[str, object]:
    """The server's name and version, where it says them (FastAPI's description; Ollama's version)."""
    about = as_mapping(api.told("/openapi.json", stop).get("info"))
    if not about:
        about = api.told("/api/version", stop)
    told = {"title": about.get("title"), "version": about.get("version"), "system_fingerprint": answer.fingerprint}
    return {name: value for name, value in told.items() if value}


def _model(api: CompletionsApi, url: str) -> dict[str, object]:
    """What is known of the model: all that its file says where it lies on this machine, else its name."""
    path = Path(api.model)
    if is_loopback(urlsplit(url).hostname or "") and path.suffix == ".gguf" and path.is_file():
        try:
            # The server puts a BOS before a text by itself; a template that writes one would double it.
            return {**asdict(inspect(path)), "bos_token": ""}
        except ModelFileError:
            pass  # it is the server that can read it; what it tells is all there is
    meta = as_mapping(api.listed.get("meta"))  # llama-server's
    owner: Mapping[str, object] = {"owned_by": api.listed["owned_by"]} if "owned_by" in api.listed else {}
    return {
        "name": file_name(api.model), "size_bytes": count_of(meta.get("size")), "sha256": None, "architecture": None,
        "tensor_types": {}, "tokenizer_hash": None, "chat_template": None, "chat_template_hash": None, "bos_token": "",
        "eos_token": None, "n_vocab": count_of(meta.get("n_vocab")), "n_ctx_train": count_of(meta.get("n_ctx_train")),
        "n_swa": None, "recurrent": None, **owner,
    }  # fmt: skip


_NO_LOGPROBS: Final = "logprobs, margins and drift: answers are compared word by word"
