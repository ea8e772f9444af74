"""Which engine speaks at an address; its adapter is imported when it is found."""

from __future__ import annotations

from typing import Final, Literal, get_args

import httpx

from app.engine.base import Engine, StopFlag
from app.engine.http.server import Server
from app.engine.llama_server.shape import as_list, as_mapping
from app.engine.server_settings import ServerSettings
from app.errors import EngineDied, EngineError, ServerRefused, SettingsError

Kind = Literal["llama-server", "vllm", "sglang", "openai"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""What may stand before an address, as in vllm+http://127.0.0.1:8000."""


def connect(
    url: str,
    settings: ServerSettings,
    *,
    stop: StopFlag | None = None,
    transport: httpx.BaseTransport | None = None,
) -> Engine:
    """The engine at `url`, which may be forced by a prefix: llama-server+, vllm+, sglang+ or openai+.

    Else the server is asked who it is. A trailing /v1, as OpenAI's clients want it, may stand there or not. Raises
    SettingsError for an address or a key that cannot be used, EngineDied where nothing listens or `stop` came,
    ServerRefused where the key is wrong, EngineError where what listens speaks none of the four protocols.
    """
    forced, address = split(url)
    server = Server(address.rstrip("/").removesuffix("/v1"), settings, transport=transport)
    try:
        return _adapter(forced or ask_kind(server, stop), server, settings, stop)
    except BaseException:
        server.close()
        raise


def split(url: str) -> tuple[Kind | None, str]:
    """The forced kind and the address. Raises SettingsError for an unknown kind."""
    scheme, separator, rest = url.strip().partition("://")
    name, plus, scheme = scheme.rpartition("+")
    if not separator or not plus:
        return None, url
    for kind in KINDS:
        if kind == name:
            return kind, f"{scheme}{separator}{rest}"
    raise SettingsError(f"There is no kind of server {name!r}.", f"Known are: {', '.join(KINDS)}.")


def ask_kind(server: Server, stop: StopFlag | None) -> Kind:
    """Who answers, by what only one of them has: the most particular first."""
    if "default_generation_settings" in _told(server, "/props", stop):
        return "llama-server"
    if "model_path" in _told(server, "/get_model_info", stop):
        return "sglang"
    models = [as_mapping(each) for each in as_list(_told(server, "/v1/models", stop).get("data"))]
    owners = {str(each.get("owned_by")) for each in models}
    if "vllm" in owners:
        return "vllm"
    if owners == {"sglang"}:
        return "sglang"
    if models:
        return "openai"
    raise EngineError(
        f"What listens at {server.url} is no llama-server, vLLM or SGLang, and no OpenAI-compatible server: it has no "
        "list of models.",
        "Look at port and base path, or say what it is, as in openai+http://host:port with --served-model.",
    )


def _told(server: Server, path: str, stop: StopFlag | None) -> dict[str, object]:
    """What a path tells as a JSON object; empty where the server has no such path, or something else there."""
    try:
        return dict(as_mapping(server.get(path, stop=stop).json()))
    except EngineDied:
        raise
    except ServerRefused as error:
        if error.status in (401, 403, 429) or (error.status >= 500 and error.status != 501):
            raise
        return {}
    except EngineError:  # a page, or a text
        return {}


def _adapter(kind: Kind, server: Server, settings: ServerSettings, stop: StopFlag | None) -> Engine:
    if kind == "llama-server":
        from app.engine.llama_server.engine import LlamaServerEngine

        return LlamaServerEngine(server, settings, stop=stop)
    if kind == "vllm":
        from app.engine.vllm.engine import VllmEngine

        return VllmEngine(server, settings, stop=stop)
    if kind == "sglang":
        from app.engine.sglang.engine import SglangEngine

        return SglangEngine(server, settings, stop=stop)
    from app.engine.openai.engine import OpenAIEngine

    return OpenAIEngine(server, settings, stop=stop)
