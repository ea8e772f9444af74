"""SGLang over its native API: ids in and out, logprobs by id, and one radix cache that everybody shares.

Built from SGLang's documentation and source and tested against answers of those shapes; it has not been run against a
live server.
"""

from __future__ import annotations

from app.engine.base import EngineInfo, GenerateRequest, Snapshot, StopFlag
from app.engine.block_state import BlockState, Surroundings
from app.engine.control_tokens import ControlTokens
from app.engine.http.server import Server
from app.engine.served_answer import Asked
from app.engine.server_settings import ServerSettings
from app.engine.sglang.api import SglangApi
from app.engine.sglang.probe import identity_of, probe
from app.errors import EngineError


class SglangEngine:
    """An SGLang server that runs elsewhere. Owns `server`.

    A State is the radix cache after a flush: its first request follows POST /flush_cache, which evicts everybody's
    cache and so needs `settings.allow_reset`; on a server with --disable-radix-cache nothing needs to be done. There is
    one State at a time. Raises at connect EngineError where this is no SGLang, and what Server raises.
    """

    def __init__(self, server: Server, settings: ServerSettings, *, stop: StopFlag | None = None) -> None:
        self._server = server
        self._api = SglangApi(server)
        try:
            found = self._found = probe(self._api, settings, stop)
        except BaseException:
            self.close()
            raise
        self._controls = ControlTokens(self._api.tokenize)
        alone = bool(found.info.recompute_by)  # one State at a time, after a flush
        self._around = Surroundings(found.info, found.pieces, found.page, alone, alone, self._changed)
        self._connections = server.connections
        self._change: str | None = None

    def describe(self) -> EngineInfo:
        """What the server is, as far as it tells and as the probe found."""
        return self._around.info

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of `text`. SGLang always parses control tokens: where not `special` they are sent in two parts."""
        return self._controls.tokenize(text, special)

    def begin_pass(self) -> None:
        """Nothing to do: the next State's first request follows a flush."""

    def open_state(self) -> BlockState:
        """The radix cache, to be flushed before its first request."""
        return BlockState(self._around, self._ask)

    def restore(self, snapshot: Snapshot) -> BlockState:  # noqa: ARG002
        """Not possible: SGLang takes no cache in."""
        raise EngineError("A cache state of sglang cannot be restored.", "Run the pass again from its start.")

    def close(self) -> None:
        """End the connection; closing twice is harmless."""
        self._server.close()

    def _ask(self, request: GenerateRequest, fresh: bool, stop: StopFlag) -> Asked:
        if fresh and self._found.flushes:
            self._api.flush(stop)
        return self._api.generate(
            request.prompt_ids.tolist(),
            request.max_tokens,
            rivals=request.rivals,
            sampling=request.sampling,
            stop=stop,
        )

    def _changed(self, stop: StopFlag) -> str | None:
        """A sentence where another server answers than was connected to; looked for after a new connection only."""
        if self._change is None and self._server.connections != self._connections:
            now = identity_of(self._api.tell("/get_server_info", stop), self._api.tell("/get_model_info", stop))
            self._connections = self._server.connections
            if now != self._found.identity:
                self._change = f"another server answers: {self._found.identity} became {now}"
        return self._change
