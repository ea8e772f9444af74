"""vLLM over HTTP: ids in and out, logprobs by id, and a cache that a salt divides (seen: 0.32.0)."""

from __future__ import annotations

import uuid

from app.engine.base import EngineInfo, GenerateRequest, Snapshot, StopFlag
from app.engine.block_state import Ask, BlockState, Surroundings
from app.engine.control_tokens import ControlTokens
from app.engine.http.server import Server
from app.engine.served_answer import Asked
from app.engine.server_settings import ServerSettings
from app.engine.vllm.paths import Means
from app.engine.vllm.probe import identity_of, probe
from app.errors import EngineError


class VllmEngine:
    """A vLLM server that runs elsewhere. Owns `server`, and the second one of `settings.control_url`.

    A State is a cache_salt: nothing that another State asked can reach it, so the two paths may go side by side. Salts
    are random, so that no run meets the cache of an earlier one; every request's is in its recorded body. Where the
    server ignores salts, `describe().recompute_by` says what is done instead. Raises at connect what `probe` raises.
    """

    def __init__(
        self,
        server: Server,
        settings: ServerSettings,
        *,
        stop: StopFlag | None = None,
        control: Server | None = None,
    ) -> None:
        self._server = server
        self._control = control
        self.begin_pass()
        try:
            if control is None and settings.control_url:
                self._control = Server(settings.control_url, settings)
            self._found = probe(server, settings, self._salts, self._control, stop)
        except BaseException:
            self.close()
            raise
        self._controls = ControlTokens(self._found.api.tokenize)
        means = self._found.paths.means
        self._around = Surroundings(
            self._found.info,
            self._found.pieces,
            self._found.block,
            first_alone=means is not Means.NONE,
            later_alone=means not in (Means.NONE, Means.CONTROL),
            changed=self._changed,
        )
        self._connections = server.connections
        self._change: str | None = None

    def describe(self) -> EngineInfo:
        """What the server is, as far as it tells and as the probe found."""
        return self._found.info

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of `text`. vLLM always parses control tokens: where not `special` they are sent in two parts."""
        return self._controls.tokenize(text, special)

    def begin_pass(self) -> None:
        """A new family of salts: no block that was filled before can be found under them."""
        self._salts = f"forkpoint-{uuid.uuid4().hex}"
        self._states = 0

    def open_state(self) -> BlockState:
        """A State under a salt that was never used."""
        self._states += 1
        return BlockState(self._around, self._ask_under(f"{self._salts}-{self._states}"))

    def restore(self, snapshot: Snapshot) -> BlockState:  # noqa: ARG002
        """Not possible: vLLM takes no blocks in."""
        raise EngineError("A cache state of vllm cannot be restored.", "Run the pass again from its start.")

    def close(self) -> None:
        """End the connections; closing twice is harmless."""
        self._server.close()
        if self._control is not None:
            self._control.close()

    def _ask_under(self, salt: str) -> Ask:
        found = self._found

        def ask(request: GenerateRequest, fresh: bool, stop: StopFlag) -> Asked:
            if fresh and found.paths.means is Means.RESET:
                found.api.reset(stop)
            return (found.paths.control or found.api if fresh else found.api).complete(
                request.prompt_ids.tolist(),
                request.max_tokens,
                salt=salt,
                rivals=request.rivals,
                sampling=request.sampling,
                stop=stop,
            )

        return ask

    def _changed(self, stop: StopFlag) -> str | None:
        """A sentence where another server answers than was connected to; looked for after a new connection only."""
        if self._change is None and self._server.connections != self._connections:
            api = self._found.api
            self._change = self._found.identity.changed_to(identity_of(api, api.counters(stop), stop))
            self._connections = self._server.connections
        return self._change
