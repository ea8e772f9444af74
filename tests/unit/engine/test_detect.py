"""Who listens at an address, found out over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping

import pytest

from app.engine.detect import ask_kind, connect, split
from app.engine.http.server import Server
from app.engine.openai.engine import OpenAIEngine
from app.engine.server_settings import ServerSettings
from app.errors import EngineDied, EngineError, ServerRefused, SettingsError
from tests.unit.engine.broken_server import Behaviour, BrokenServer, answer, by_path, hang
from tests.unit.engine.completions import Completions
from tests.unit.engine.real_servers import llama_cpp_python_server

__all__ = ["llama_cpp_python_server"]


@pytest.mark.parametrize(
    ("paths", "kind"),
    [
        ({"props": {"default_generation_settings": {}}, "models": {"data": [{"id": "m"}]}}, "llama-server"),
        ({"get_model_info": {"model_path": "m", "is_generation": True}, "models": {"data": [{"id": "m"}]}}, "sglang"),
        ({"models": {"data": [{"id": "m", "owned_by": "sglang"}]}}, "sglang"),
        ({"models": {"data": [{"id": "m", "owned_by": "vllm"}]}, "version": {"version": "0.32.0"}}, "vllm"),
        ({"models": {"data": [{"id": "m", "owned_by": "me"}]}}, "openai"),
        ({"props": {"error": "Unexpected endpoint"}, "models": {"data": [{"id": "m"}]}}, "openai"),
    ],
)  # fmt: skip
def test_each_kind_is_known_by_what_only_it_has(paths: Mapping[str, object], kind: str) -> None:
    with BrokenServer(by_path(**{name: answer(told) for name, told in paths.items()})) as broken:
        server = Server(broken.url, ServerSettings())
        assert ask_kind(server, None) == kind
        server.close()


@pytest.mark.parametrize("behaviour", [answer(b"<html><title>Hello</title></html>"), answer({}), by_path()])
def test_what_speaks_none_of_the_protocols_is_said_clearly(behaviour: Behaviour) -> None:
    speaks_none = r"is no llama-server, vLLM or SGLang, and no OpenAI-compatible server"
    with BrokenServer(behaviour) as broken, pytest.raises(EngineError, match=speaks_none):
        connect(broken.url, ServerSettings())


def test_a_port_where_nothing_listens_is_said_clearly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(EngineDied, match=f"Nothing listens at http://127.0.0.1:{port}"):
        connect(f"127.0.0.1:{port}", ServerSettings())


@pytest.mark.parametrize("status", ["401 Unauthorized", "503 Service Unavailable", "502 Bad Gateway"])
def test_a_refusal_is_not_taken_for_another_kind_of_server(status: str) -> None:
    refusal = answer({"error": {"message": "not now"}}, status)
    with BrokenServer(refusal) as broken, pytest.raises(ServerRefused, match="not now"):
        connect(broken.url, ServerSettings())


def test_a_stop_ends_the_question_who_is_there() -> None:
    stop = threading.Event()
    with BrokenServer(hang()) as broken:
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(EngineDied, match="was stopped"):
            connect(broken.url, ServerSettings(), stop=stop)
        assert broken.hung_up.wait(1)


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/v1", "{}/v1/", "openai+{}", "openai+{}/v1"])
def test_the_address_may_end_in_v1_and_name_its_kind(form: str) -> None:
    with BrokenServer(Completions()) as broken:
        engine = connect(form.format(broken.url), ServerSettings())
        assert isinstance(engine, OpenAIEngine)
        engine.close()
        assert any(each.target == "/v1/completions" for each in broken.received)
        assert ("/props" in {each.target for each in broken.received}) == (not form.startswith("openai+"))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("vllm+http://host:1/base", ("vllm", "http://host:1/base")),
        ("llama-server+https://host", ("llama-server", "https://host")),
        ("sglang+http://host", ("sglang", "http://host")),
        ("http://host/a+b", (None, "http://host/a+b")),
        ("host:8080", (None, "host:8080")),
    ],
)
def test_a_prefix_forces_the_kind(url: str, expected: tuple[str | None, str]) -> None:
    assert split(url) == expected


def test_an_unknown_prefix_is_refused_with_those_known() -> None:
    with pytest.raises(SettingsError, match=r"no kind of server 'tgi'.*llama-server, vllm, sglang, openai"):
        connect("tgi+http://host", ServerSettings())


@pytest.mark.model
def test_llama_cpp_pythons_own_server_is_known_as_openai_compatible(llama_cpp_python_server: str) -> None:
    engine = connect(f"{llama_cpp_python_server}/v1", ServerSettings())
    assert isinstance(engine, OpenAIEngine)
    engine.close()
