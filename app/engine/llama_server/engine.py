"""A llama-server that runs elsewhere, over its own HTTP interface (ENGINES.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.engine.base import EngineInfo, Snapshot, StopFlag
from app.engine.http.server import Server
from app.engine.llama_server.courtesy import wait_for_slot
from app.engine.llama_server.gaps import SLOT
from app.engine.llama_server.probe import Found, Identity, Probe, hash_of, identity_of
from app.engine.llama_server.shape import as_list, as_mapping, count_of
from app.engine.llama_server.state import LlamaServerState
from app.engine.server_settings import ServerSettings
from app.engine.template_file import read_template
from app.errors import ContextOverflow, EngineError, ServerRefused
from app.trajectory.step import IdArray

_FILE_NAME = re.compile(r"forkpoint-[0-9a-f]{16}\.bin")

RECOMPUTE_BY = "cache_prompt false on each request"


class LlamaServerEngine:
    """One llama-server, one slot of it: one State at a time. Used by one thread at a time.

    Three tiny requests at connect find out what it can do (`EngineInfo.gaps`); they take slot 0 over. `slot_folder` is
    the server's --slot-save-path where this machine has it too: snapshots then hold the file's bytes and outlive the
    server, else only its name there. Raises SettingsError, EngineError, or EngineDied where nothing answers or a `stop`
    came.
    """

    def __init__(
        self,
        server: Server,
        settings: ServerSettings,
        *,
        stop: StopFlag | None = None,
        slot_folder: Path | None = None,
    ) -> None:
        self._server = server
        self._settings = settings
        self._slot_folder = slot_folder
        found = Probe(server, stop).run()
        self._identity = found.identity
        self._pieces = found.pieces
        self._written: dict[int, bytes] = {}
        self._connections = server.connections
        self._named = ""
        self._info = _info(found, settings)
        self.history = 0

    def describe(self) -> EngineInfo:
        """What this engine is; constant while it lives."""
        return self._info

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of `text` by the server, no BOS added; `special` parses control tokens in it."""
        body = {"content": text, "add_special": False, "parse_special": special}
        ids = as_list(as_mapping(self._server.post("/tokenize", body).json()).get("tokens"))
        if any(count_of(token_id) is None for token_id in ids):
            raise EngineError("The server's /tokenize returned something else than ids.")
        return ids

    def begin_pass(self) -> None:
        """Erase the slot where that is allowed. The server's own prompt cache outlives it; see RequestReport.note."""
        if self._info.capabilities.reset:
            self._act("erase", {})

    def open_state(self) -> LlamaServerState:
        """A State whose first request is kept from the cache. It takes the slot over from the one before."""
        return LlamaServerState(self)

    def restore(self, snapshot: Snapshot) -> LlamaServerState:
        """A State that holds what the snapshot's State held; the next request's counts prove it.

        Raises EngineError where the snapshot is another model's, its file is gone or was replaced by a later one.
        """
        if snapshot.meta.get("model") != self._identity.model or snapshot.meta.get("build") != self._identity.build:
            raise EngineError("The saved state belongs to another model or build.")
        name = str(snapshot.meta.get("filename"))
        if not _FILE_NAME.fullmatch(name):  # it may come from a file that somebody sent
            raise EngineError("The saved state does not say where it lies.")
        if self._slot_folder is not None:
            (self._slot_folder / name).write_bytes(snapshot.data)
        try:
            restored = self._act("restore", {"filename": name}).get("n_restored")
        finally:
            if self._slot_folder is not None:
                (self._slot_folder / name).unlink()
        if restored != len(snapshot.ids):
            raise EngineError(f"The server restored {restored} tokens instead of {len(snapshot.ids)}.")
        return LlamaServerState(self, snapshot.ids)

    def close(self) -> None:
        """End the connection; closing twice is harmless."""
        self._server.close()

    # For its States.

    def complete(self, body: Mapping[str, object], stop: StopFlag) -> tuple[Mapping[str, Any], str | None]:
        """One answer as raw JSON, and a sentence where another model or build may have given it.

        A new connection may lead to another server, and so may a kept one, where a gateway holds it: an answer names
        its model.
        """
        if self._slot_folder is None:  # else it is ours, and nobody else asks
            wait_for_slot(self._server, stop)
        raw = as_mapping(self._server.post("/completion", body, stop=stop).json())
        named = str(raw.get("model", ""))
        self._named = self._named or named
        if self._server.connections == self._connections and named == self._named:
            return raw, None
        now = identity_of(as_mapping(self._server.get("/props", stop=stop).json()))
        self._connections = self._server.connections
        renamed = None if named == self._named else f"the answer is another model's: {self._named} -> {named}"
        return raw, self._identity.changed_to(now) or renamed

    def piece(self, token_id: int) -> bytes:
        """The raw bytes of a token, control tokens written out."""
        known = self._pieces.get(token_id)
        if known:
            return known
        if token_id not in self._written:  # control tokens have no bytes in a probability entry
            reply = as_mapping(self._server.post("/detokenize", {"tokens": [token_id]}).json())
            self._written[token_id] = str(reply.get("content", "")).encode()
        return self._written[token_id]

    def check_prompt(self, prompt: IdArray) -> None:
        """Raise what the server would refuse, before it moves anything for it."""
        n_ctx, n_vocab = self._info.n_ctx, self._info.model["n_vocab"]
        if len(prompt) == 0:
            raise EngineError("The prompt is empty.", "A request needs at least one token.")
        if len(prompt) >= n_ctx:
            raise ContextOverflow(
                f"The prompt has {len(prompt):,} tokens; the server's context holds {n_ctx:,}.",
                "Give it a larger context (--ctx-size, here --n-ctx), or use shorter episodes.",
            )
        wrong = prompt[(prompt < 0) | (prompt >= n_vocab)] if isinstance(n_vocab, int) else prompt[prompt < 0]
        if len(wrong):
            raise EngineError(f"The prompt holds id {wrong[0]}, beyond this model's {n_vocab} tokens.")

    def save(self, held: IdArray, name: str) -> Snapshot:
        """Save the slot under `name` on the server."""
        saved = self._act("save", {"filename": name}).get("n_saved")
        if saved != len(held):
            raise EngineError(f"The slot holds {saved} tokens where {len(held)} were expected: other traffic used it.")
        data = name.encode()
        if self._slot_folder is not None:
            data = (self._slot_folder / name).read_bytes()
            (self._slot_folder / name).unlink()
        meta = {"filename": name, "model": self._identity.model, "build": self._identity.build}
        return Snapshot(held, data, meta)

    def _act(self, action: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        if not self._info.capabilities.snapshot:
            raise EngineError(
                "This server does not let its cache be saved or erased.", "Start it with --slot-save-path FOLDER."
            )
        try:
            return as_mapping(self._server.post(f"/slots/{SLOT}?action={action}", body).json())
        except ServerRefused as error:
            raise EngineError(f"The server could not {action} its slot: {error.message}", error.hint) from error

    def _replace(self, server: Server) -> None:
        """Go on with a fresh process of the same server; States of the old one end."""
        now = identity_of(as_mapping(server.get("/props").json()))
        changed = self._identity.changed_to(now)
        if changed:
            server.close()
            raise EngineError(f"The fresh server is another one: {changed}.", "Leave binary and model file alone.")
        self._server.close()
        self._server, self._connections = server, server.connections
        self.history += 1


def _info(found: Found, settings: ServerSettings) -> EngineInfo:
    capabilities = found.capabilities
    reset = None if capabilities.snapshot is None else bool(capabilities.snapshot and settings.allow_reset)
    return EngineInfo(
        name="llama-server",
        build={"build_info": found.identity.build},
        model={**found.model, **_own_template(settings)},
        settings=_settings(found.props, found.identity),
        capabilities=replace(capabilities, reset=reset),
        eog_ids=found.eog_ids,
        n_ctx=found.identity.n_ctx,
        states_at_once=1,
        recompute_by="" if capabilities.recompute is False else RECOMPUTE_BY,
        gaps=tuple(found.gaps),
    )


def _settings(props: Mapping[str, Any], identity: Identity) -> dict[str, object]:
    """What /props tells of the settings in force; it does not tell --cache-ram, batch sizes or threads."""
    return {
        "n_ctx": identity.n_ctx,
        "total_slots": identity.slots,
        "id_slot": SLOT,
        "defaults": dict(as_mapping(as_mapping(props.get("default_generation_settings")).get("params"))),
    }


def _own_template(settings: ServerSettings) -> dict[str, object]:
    """What replaces the server's own template where one is set."""
    text = read_template(settings)
    return {} if text is None else {"chat_template": text, "chat_template_hash": hash_of(text)}
