"""Everything that a server and the way to it can do wrong, on real sockets."""

from __future__ import annotations

import re
import socket
import threading

import httpx
import pytest

from app.engine.http.line import MAX_REPLY_BYTES
from app.engine.http.server import Server
from app.engine.server_settings import KEY_VARIABLE, ServerSettings
from app.errors import EngineDied, EngineError, ServerRefused, SettingsError
from tests.unit.engine.broken_server import (
    LOOPBACK_PEM,
    Behaviour,
    BrokenServer,
    answer,
    by_path,
    flood,
    hang,
    raw,
    reset,
)
from tests.unit.engine.serving import HEAD, KEY, clean_environment, serving

__all__ = ["clean_environment"]


# What works


def test_an_answer_comes_back_with_its_status_text_and_time() -> None:
    with serving(answer({"text": "é"})) as (broken, server):
        reply = server.post("/completion", {"prompt": [1, 2]})
        assert (reply.status, reply.json()) == (200, {"text": "é"})
        assert 0 < reply.elapsed_ms < 5000
        assert (broken.received[0].method, broken.received[0].json) == ("POST", {"prompt": [1, 2]})


def test_sequential_requests_share_one_connection_even_after_a_refusal() -> None:
    with serving(by_path(props=answer({}))) as (broken, server):
        for _ in range(30):
            server.get("/props", stop=threading.Event())
            with pytest.raises(ServerRefused):
                server.get("/nothing")
        assert server.connections == 1
        assert len(broken.received) == 60


def test_a_server_that_restarts_shows_in_the_number_of_connections() -> None:
    with serving(answer({}, Connection="close")) as (_, server):
        for expected in (1, 2, 3):
            server.get("/props")
            assert server.connections == expected


@pytest.mark.parametrize(
    "given", ["http://127.0.0.1:{}/base/path/", "127.0.0.1:{}/base/path", " http://127.0.0.1:{}/base/path"]
)
def test_the_base_path_is_kept_and_the_address_normalised(given: str) -> None:
    with BrokenServer(answer({})) as broken:
        server = Server(given.format(broken.port), ServerSettings())
        assert server.url == f"http://127.0.0.1:{broken.port}/base/path"
        server.post("/slots/0?action=save", None)
        server.close()
        assert broken.received[0].target == "/base/path/slots/0?action=save"


@pytest.mark.parametrize(
    "url", ["http://", "ftp://host", "http://host:99999", "http://a b", "http://h?y=1", "http://h#x", ""]
)
def test_what_is_no_address_is_said_to_be_none(url: str) -> None:
    with pytest.raises(SettingsError, match=r"address|query"):
        Server(url, ServerSettings())


def test_a_password_in_the_address_is_refused_and_not_said_back() -> None:
    with pytest.raises(SettingsError, match="password") as caught:
        Server("http://ann:hunter22@127.0.0.1:1", ServerSettings())
    assert "hunter22" not in str(caught.value)


# TLS, proxies


def test_a_certificate_that_the_environment_trusts_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(LOOPBACK_PEM))
    with BrokenServer(answer({"tls": True}), tls=True) as broken:
        server = Server(broken.url, ServerSettings())
        assert server.get("/props").json() == {"tls": True}
        server.close()


def test_an_unknown_certificate_is_refused_in_a_sentence() -> None:
    with BrokenServer(answer({}), tls=True) as broken:
        server = Server(broken.url, ServerSettings())
        with pytest.raises(EngineDied, match=r"No TLS connection.*SSL_CERT_FILE"):
            server.get("/props")
        server.close()


def test_https_to_a_plain_server_says_that_it_may_want_http() -> None:
    with BrokenServer(hang()) as plain:
        server = Server(f"https://127.0.0.1:{plain.port}", ServerSettings(connect_timeout_s=0.3))
        with pytest.raises(EngineDied, match="A server without TLS wants http://"):
            server.get("/props")
        server.close()


def test_an_environment_proxy_is_used_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    with BrokenServer(answer({"by": "proxy"})) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        server = Server("http://engine.example/base", ServerSettings())
        assert server.get("/props").json() == {"by": "proxy"}
        assert proxy.received[0].target == "http://engine.example/base/props"
        assert server.connections == 1
        server.close()


def test_a_loopback_address_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with BrokenServer(answer({"by": "proxy"})) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with serving(answer({"by": "server"})) as (_, server):
            assert server.get("/props").json() == {"by": "server"}
        assert not proxy.received


def test_a_proxy_setting_that_cannot_be_used_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "gopher://proxy:1")
    with pytest.raises(SettingsError, match=r"environment cannot be used.*HTTP_PROXY"):
        Server("http://engine.example", ServerSettings())


# Gone before, during, after


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server(f"http://127.0.0.1:{port}", ServerSettings())
    with pytest.raises(EngineDied, match=rf"Nothing listens at http://127.0.0.1:{port}"):
        server.get("/props")
    server.close()


def test_a_host_that_is_not_known_is_said() -> None:
    server = Server("http://engine.invalid", ServerSettings())
    with pytest.raises(EngineDied, match=r"engine\.invalid is not known"):
        server.get("/props")
    server.close()


@pytest.mark.parametrize("ending", [reset(), raw(b"")])
def test_the_server_is_gone_before_its_answer(ending: Behaviour) -> None:
    with serving(ending) as (_, server), pytest.raises(EngineDied, match="broke before an answer came"):
        server.post("/completion", {})


@pytest.mark.parametrize(
    "ending",
    [
        reset(HEAD + b'Content-Length: 90\r\n\r\n{"text": "half'),
        raw(HEAD + b'Content-Length: 90\r\n\r\n{"text": "half'),
        raw(HEAD + b'Transfer-Encoding: chunked\r\n\r\ne\r\n{"text": "half\r\n'),
    ],
    ids=["reset", "shorter than its length", "no last chunk"],
)
def test_the_server_is_gone_during_its_answer(ending: Behaviour) -> None:
    with serving(ending) as (_, server), pytest.raises(EngineDied, match="broke while the answer came"):
        server.post("/completion", {})


def test_the_server_is_gone_after_its_answer() -> None:
    with BrokenServer(answer({"first": True})) as broken:
        server = Server(broken.url, ServerSettings())
        assert server.get("/props").json() == {"first": True}
        broken.close()
        with pytest.raises(EngineDied, match="Nothing listens"):
            server.get("/props")
        server.close()


# Errors that the server says


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        ("400 Bad Request", {"error": {"message": "id 99999 is beyond"}}, "does not accept it.*id 99999 is beyond"),
        ("404 Not Found", {"detail": "Not Found"}, "404.*It says: Not Found.*base path"),
        ("404 Not Found", {"error": "model 'x' not found"}, "model 'x' not found"),
        ("429 Too Many Requests", {"message": "slow down"}, "too much to do.*slow down"),
        ("500 Internal Server Error", {"error": {"code": 500}}, 'failed at it.*{"code": 500}'),
        ("503 Service Unavailable", {"error": {"message": "Loading model"}}, "Loading model"),
        ("502 Bad Gateway", b"<html><title>502 Bad\n Gateway</title>" + b"x" * 9000, "an HTML page, '502 Bad Gateway'"),
        ("400 Bad Request", b"\xff\xfe broken", "400"),
        ("500 Internal Server Error", b"", "failed at it"),
    ],
)  # fmt: skip
def test_a_refusal_is_a_sentence_with_the_servers_own_words(status: str, body: object, sentence: str) -> None:
    with serving(answer(body, status)) as (broken, server), pytest.raises(ServerRefused) as caught:
        server.post("/completion", {})
    assert caught.value.status == int(status[:3])
    assert len(caught.value.body) <= 2000
    assert len(caught.value.message) < 600
    text = str(caught.value)
    assert f"to POST {broken.url}/completion" in text
    assert re.search(sentence, text, re.DOTALL), text


def test_an_html_page_in_place_of_json_is_named_and_not_dumped() -> None:
    page = b"<!DOCTYPE html><html><head><title>Welcome to nginx!</title></head><body>" + b"<p>filler</p>" * 999
    with serving(answer(page)) as (_, server):
        reply = server.get("/props")
        with pytest.raises(EngineError, match=r"/props is no JSON: it is an HTML page, 'Welcome to nginx!'") as caught:
            reply.json()
    assert "filler" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"tokens": [1, 2], "text": "so f', "breaks off after 32 characters"),
        (b'{"tokens": [1, 2', "breaks off after 16 characters"),
        (b"", "it is empty"),
        (b"data: {}\n\n", "it begins with 'data: {}'"),
        (b"[" * 100_000, "breaks off|begins with"),
    ],
)
def test_an_answer_that_is_cut_or_no_json_is_named(body: bytes, sentence: str) -> None:
    with serving(raw(HEAD + b"Connection: close\r\n\r\n" + body)) as (_, server):
        reply = server.get("/props")
        with pytest.raises(EngineError, match=sentence):
            reply.json()


def test_an_answer_cut_inside_a_character_is_named() -> None:
    body = '{"text": "🦊'.encode()[:-1]
    with (
        serving(raw(HEAD + b"Connection: close\r\n\r\n" + body)) as (_, server),
        pytest.raises(EngineError, match="breaks off inside a UTF-8 character, at byte 10 of 13"),
    ):
        server.get("/props")


def test_an_answer_that_is_no_utf8_is_named() -> None:
    with (
        serving(answer(b'{"text": "\xe9 "}')) as (_, server),
        pytest.raises(EngineError, match="is no UTF-8, at byte 10"),
    ):
        server.get("/props")


@pytest.mark.parametrize("junk", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x00\x01\x02\r\n\r\n"])
def test_something_else_than_http_is_no_crash(junk: bytes) -> None:
    with serving(raw(junk)) as (_, server), pytest.raises(EngineDied, match="broke before an answer"):
        server.get("/props")


def test_a_reply_without_an_end_is_refused_beyond_a_limit() -> None:
    with serving(flood(b"x" * 2**20)) as (broken, server):
        with pytest.raises(EngineError, match=f"larger than {MAX_REPLY_BYTES // 2**20} MiB"):
            server.get("/props", stop=threading.Event())
        assert broken.hung_up.wait(5)


# Redirects


def test_a_redirect_on_the_same_host_is_followed_with_method_and_body() -> None:
    behaviour = by_path(old=answer(b"", "307 Temporary Redirect", Location="/moved/new"), new=answer({"new": True}))
    with serving(behaviour) as (broken, server):
        assert server.post("/old", {"a": 1}).json() == {"new": True}
        assert [(each.method, each.target, each.json) for each in broken.received] == [
            ("POST", "/old", {"a": 1}),
            ("POST", "/moved/new", {"a": 1}),
        ]


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("http://other.example/new", "http://other.example"),
        ("//other.example/x", "http://other.example"),
        ("https://127.0.0.1:{}/new", "https://127.0.0.1:{}"),
        ("http://127.0.0.1:1/new", "http://127.0.0.1:1"),
    ],
)
def test_a_redirect_to_another_host_is_refused_and_both_are_named(
    target: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with BrokenServer(answer({})) as broken:
        broken.behaviour = answer(b"", "302 Found", Location=target.format(broken.port))
        server = Server(broken.url, ServerSettings())
        with pytest.raises(ServerRefused) as caught:
            server.get("/old")
        server.close()
        assert f"{broken.url} sends" in str(caught.value)
        assert f"on to {named.format(broken.port)}, which" in str(caught.value)
        assert len(broken.received) == 1


def test_redirects_in_a_circle_end() -> None:
    with serving(answer(b"", "301 Moved Permanently", Location="/again")) as (broken, server):
        with pytest.raises(ServerRefused, match="redirected more than 3 times"):
            server.get("/again")
        assert len(broken.received) == 4


def test_a_redirect_to_no_address_is_named() -> None:
    with (
        serving(answer(b"", "302 Found", Location="http://127.0.0.1:abc/")) as (_, server),
        pytest.raises(EngineDied, match="broke before an answer came: Invalid URL in location header"),
    ):
        server.get("/old")


def test_a_transport_stands_in_for_the_network() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"path": request.url.path})

    server = Server("https://host/base", ServerSettings(), transport=httpx.MockTransport(respond))
    assert server.get("/props").json() == {"path": "/base/props"}
    assert server.connections == 0
    server.close()
