"""What a llama-server is and can do, found out at connect by reading what it tells and asking three tiny requests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

from app.engine.base import Capabilities, Gap, StopFlag
from app.engine.gguf import inspect
from app.engine.http.address import is_loopback
from app.engine.http.server import Server
from app.engine.llama_server.courtesy import wait_for_slot
from app.engine.llama_server.gaps import FIXED, GREEDY, SLOT, cache_gaps, props_gaps, settings_gaps, shape_gaps
from app.engine.llama_server.shape import Completion, as_list, as_mapping, count_of, read_completion
from app.errors import EngineDied, EngineError, ModelFileError, ServerRefused

_PROBE = "Every word of this is a probe."
_ALL = 1_000_000  # more tokens than any vocabulary has: the probe reads the bytes of all of them
_TOLD = ("sha256", "architecture", "tokenizer_hash", "n_swa", "recurrent")
"""What only the model's file tells."""


@dataclass(frozen=True)
class Identity:
    """What must stay the same while a pass runs; `props` of another server process can be held against it."""

    build: str
    model: str
    n_ctx: int
    slots: int | None
    template_hash: str

    def changed_to(self, other: Identity) -> str | None:
        """A sentence where `other` is another server; None where it is the same again."""
        mine, theirs = asdict(self), asdict(other)
        changes = [f"{name} {mine[name]} -> {theirs[name]}" for name in mine if mine[name] != theirs[name]]
        return f"the server restarted with another model, build or setting: {', '.join(changes)}" if changes else None


def identity_of(props: Mapping[str, Any]) -> Identity:
    """Who answers GET /props."""
    return Identity(
        build=str(props.get("build_info", "unknown")),
        model=file_name(str(props.get("model_path", "unknown"))),
        n_ctx=count_of(as_mapping(props.get("default_generation_settings")).get("n_ctx")) or 0,
        slots=count_of(props.get("total_slots")),
        template_hash=hash_of(str(props.get("chat_template", "")))[:12],
    )


@dataclass
class Found:
    """The result of the probe. `pieces` are the raw bytes by id, b"" where the server writes none (control tokens)."""

    props: Mapping[str, Any]
    identity: Identity
    model: dict[str, object]
    eog_ids: frozenset[int] = frozenset()
    pieces: dict[int, bytes] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    capabilities: Capabilities = field(default_factory=Capabilities)


class Probe:
    """Asks one server. Raises EngineError where it is no llama-server or not ready, EngineDied where it is gone."""

    def __init__(self, server: Server, stop: StopFlag | None) -> None:
        self._server = server
        self._stop = stop

    def run(self) -> Found:
        """All questions, in a second or so on a small model. The requests take slot 0 over."""
        self._check_health()
        props = self._get("/props")
        if "default_generation_settings" not in props:
            raise EngineError(f"What answers at {self._server.url} is no llama-server.", "Its /props says nothing.")
        found = Found(props, identity_of(props), self._model(props))
        prompt = self._tokenize(_PROBE)
        raw = self._complete(prompt, n_probs=_ALL, n_predict=1, cache_prompt=False)
        cold = read_completion(raw)
        found.pieces = dict(cold.entries[0].pieces) if cold.entries and cold.entries[0] else {}
        if found.model["n_vocab"] is None:
            found.model["n_vocab"] = len(found.pieces) or None
        found.eog_ids = self._eog_ids(raw, props)
        raw = self._complete(prompt, n_probs=5, n_predict=3, cache_prompt=True)
        warm = read_completion(raw)
        shapes = shape_gaps(warm, found.model["n_vocab"], len(found.pieces), found.eog_ids)
        found.gaps = [*props_gaps(props), *shapes, *cache_gaps(cold, warm, len(prompt))]
        found.gaps += settings_gaps(raw)
        found.capabilities = _capabilities(cold, warm, found)
        plain = read_completion(self._complete(prompt, n_probs=1, n_predict=1))  # says nothing of the cache
        found.capabilities = replace(
            found.capabilities,
            snapshot=self._slots_can_be_saved(found.gaps),
            caching=None if plain.cached is None else plain.cached > 0,
        )
        return found

    def _check_health(self) -> None:
        try:
            self._server.get("/health", stop=self._stop)
        except ServerRefused as error:
            if error.status == 503:
                raise EngineError("The server is still loading its model.", "Try again in a moment.") from error
            if error.status != 404:
                raise

    def _model(self, props: Mapping[str, Any]) -> dict[str, object]:
        """What the server tells of its model; all of it where the file lies on this machine."""
        told = self._told(props)
        path = Path(str(props.get("model_path", "")))
        if is_loopback(urlsplit(self._server.url).hostname or "") and path.is_file():
            try:
                file = asdict(inspect(path))
            except ModelFileError:
                return told
            if told["n_vocab"] in (None, file["n_vocab"]):
                own = {name: told[name] for name in ("chat_template", "chat_template_hash", "eos_token", "bos_token")}
                return {**file, **{name: value for name, value in own.items() if value}}
        return told

    def _told(self, props: Mapping[str, Any]) -> dict[str, object]:
        listed = as_list(self._get("/v1/models", optional=True).get("data"))
        meta = as_mapping(as_mapping(listed[0] if listed else None).get("meta"))
        template = str(props.get("chat_template") or "") or None
        return {
            "name": file_name(str(props.get("model_path", "unknown"))),
            "size_bytes": count_of(meta.get("size")),
            "n_vocab": count_of(meta.get("n_vocab")),
            "n_ctx_train": count_of(meta.get("n_ctx_train")),
            "ftype": str(props.get("model_ftype") or meta.get("ftype") or ""),
            "chat_template": template,
            "chat_template_hash": None if template is None else hash_of(template),
            "bos_token": str(props.get("bos_token") or "") or None,
            "eos_token": str(props.get("eos_token") or "") or None,
            "tensor_types": {},
            **dict.fromkeys(_TOLD),
        }

    def _eog_ids(self, raw: Mapping[str, Any], props: Mapping[str, Any]) -> frozenset[int]:
        """The ids that end an answer: `ignore_eos` makes the server list all of them, each with a bias of -infinity.

        Where it does not, the one end token that /props names.
        """
        settings = as_mapping(raw.get("generation_settings"))
        listed = [count_of(as_mapping(item).get("token")) for item in as_list(settings.get("logit_bias"))]
        ids = frozenset(token_id for token_id in listed if token_id is not None)
        if ids or not props.get("eos_token"):
            return ids
        parsed = self._tokenize(str(props["eos_token"]))
        return frozenset(parsed) if len(parsed) == 1 else frozenset()

    def _slots_can_be_saved(self, gaps: list[Gap]) -> bool | None:
        """Ask for a save under a name that no server takes: the refusal tells whether slots can be saved at all."""
        try:
            self._server.post(f"/slots/{SLOT}?action=save", {"filename": "/"}, stop=self._stop)
        except EngineDied:
            raise
        except ServerRefused as error:
            if error.status == 400:
                return True
            found = "not allowed by this server (--slot-save-path is missing)" if error.status == 501 else str(error)
            gaps.append(Gap(f"POST /slots/{SLOT}", found, "saving, restoring and erasing the cache's state"))
            return False if error.status in (404, 501) else None
        return None

    def _complete(self, prompt: list[int], **asked: object) -> Mapping[str, Any]:
        body = {"prompt": prompt, "ignore_eos": True, **FIXED, **GREEDY, "seed": 42, **asked}
        wait_for_slot(self._server, self._stop)
        return as_mapping(self._server.post("/completion", body, stop=self._stop).json())

    def _tokenize(self, text: str) -> list[int]:
        body = {"content": text, "add_special": False, "parse_special": True}
        reply = as_mapping(self._server.post("/tokenize", body, stop=self._stop).json())
        return [token_id for value in as_list(reply.get("tokens")) if (token_id := count_of(value)) is not None]

    def _get(self, path: str, *, optional: bool = False) -> Mapping[str, Any]:
        try:
            return as_mapping(self._server.get(path, stop=self._stop).json())
        except ServerRefused:
            if optional:
                return {}
            raise


def file_name(path: str) -> str:
    """The last part of a path of whatever system the server runs on."""
    return PureWindowsPath(path).name if "\\" in path else PurePosixPath(path).name


def hash_of(text: str) -> str:
    """SHA-256 of a text as hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _capabilities(cold: Completion, warm: Completion, found: Found) -> Capabilities:
    missing = {gap.field.split("[")[0].split(".")[0] for gap in found.gaps}
    counted = cold.cached is not None and warm.cached is not None
    return Capabilities(
        token_ids="tokens" not in missing,
        rivals=not any(gap.field.startswith("completion_probabilities") and "margins" in gap.impossible
                       for gap in found.gaps),
        cached_counts=counted,
        recompute=cold.cached == 0 if counted else None,
        rebuild=False,
        piece_bytes=bool(found.pieces),
        slots=warm.slot == SLOT,
        salt=False,
    )  # fmt: skip
