"""Everything that a server and the way to it can do wrong, on real sockets."""

from __future__ import annotations

import logging
import os
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app.engine.http import Server
from app.engine.http_line import MAX_REPLY_BYTES
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

KEY = "sk-test-0123456789abcdef"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KEY_VARIABLE, "SSL_CERT_FILE", *PROXIES, *map(str.lower, PROXIES)):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def serving(behaviour: Behaviour, settings: ServerSettings | None = None) -> Iterator[tuple[BrokenServer, Server]]:
    with BrokenServer(behaviour) as broken:
        server = Server(broken.url, settings or ServerSettings())
        try:
            yield broken, server
        finally:
            server.close()


def key_file(folder: Path, mode: int = 0o600, content: str = f"{KEY}\n") -> Path:
    file = folder / "key"
    file.write_text(content)
    file.chmod(mode)
    return file


def stop_after(seconds: float) -> threading.Event:
    stop = threading.Event()
    threading.Timer(seconds, stop.set).start()
    return stop


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


def test_a_stop_ends_a_hanging_tls_answer_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(LOOPBACK_PEM))
    with BrokenServer(hang(), tls=True) as broken:
        assert_stops(broken, Server(broken.url, ServerSettings()))


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


# Hangs, timeouts, stop


def assert_stops(broken: BrokenServer, server: Server, at_most_s: float = 1.0) -> None:
    stop = stop_after(0.2)
    began = time.monotonic()
    with pytest.raises(EngineDied, match="was stopped"):
        server.post("/completion", {}, stop=stop)
    assert time.monotonic() - began < 0.2 + at_most_s
    assert broken.hung_up.wait(1), "the server did not see the client leave"
    broken.behaviour = answer({"after": "the stop"})
    assert server.post("/completion", {}, stop=threading.Event()).json() == {"after": "the stop"}
    assert server.connections == 2
    server.close()


@pytest.mark.parametrize("data", [b"", HEAD, HEAD + b'Content-Length: 90\r\n\r\n{"text": "half'])
def test_a_stop_ends_a_hanging_answer_within_a_second_and_the_server_sees_it(data: bytes) -> None:
    with BrokenServer(hang(data)) as broken:
        assert_stops(broken, Server(broken.url, ServerSettings()))


def test_a_stop_ends_a_hanging_answer_on_a_kept_connection() -> None:
    with BrokenServer(answer({})) as broken:
        server = Server(broken.url, ServerSettings())
        server.get("/props")
        broken.behaviour = hang()
        assert_stops(broken, server)


def test_a_stop_ends_an_endless_answer() -> None:
    def trickle(connection: socket.socket, _: object) -> None:
        connection.sendall(HEAD + b"Connection: close\r\n\r\n")
        while True:
            connection.sendall(b" ")
            if connection in select.select([connection], [], [], 0.02)[0]:
                raise ConnectionResetError("the client left")

    with BrokenServer(trickle) as broken:
        assert_stops(broken, Server(broken.url, ServerSettings(read_timeout_s=0.5)))


def test_a_stop_that_came_before_asks_nothing() -> None:
    stop = threading.Event()
    stop.set()
    with serving(answer({})) as (broken, server):
        with pytest.raises(EngineDied, match="was stopped"):
            server.get("/props", stop=stop)
        assert not broken.received


@contextmanager
def full_queue() -> Iterator[int]:
    """A port that takes no further connection and refuses none."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        try:
            yield address[1]
        finally:
            for each in waiting:
                each.close()


def test_a_connection_that_nobody_takes_runs_into_its_timeout() -> None:
    with full_queue() as port:
        server = Server(f"http://127.0.0.1:{port}", ServerSettings(connect_timeout_s=0.3))
        with pytest.raises(EngineDied, match=r"did not take the connection within 0\.3 s"):
            server.get("/props")
        server.close()


def test_a_stop_ends_a_connection_that_nobody_takes_within_a_second() -> None:
    with full_queue() as port:
        server = Server(f"http://127.0.0.1:{port}", ServerSettings(connect_timeout_s=3))
        began = time.monotonic()
        with pytest.raises(EngineDied, match="was stopped"):
            server.get("/props", stop=stop_after(0.2))
        assert time.monotonic() - began < 1.2
        server.close()


def test_an_answer_that_does_not_come_runs_into_its_timeout() -> None:
    with serving(hang(), ServerSettings(read_timeout_s=0.3)) as (broken, server):
        with pytest.raises(EngineDied, match=r"sent nothing for 0\.3 s.*--read-timeout-s"):
            server.post("/completion", {})
        assert broken.hung_up.wait(1)


# Keys


def test_a_key_from_the_environment_is_sent_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    caplog.set_level(logging.DEBUG)
    with serving(answer({"you sent": KEY})) as (broken, server):
        reply = server.post("/completion", {})
        assert broken.received[0].headers["authorization"] == f"Bearer {KEY}"
        assert KEY not in repr(reply) + repr(server) + repr(vars(server)["_settings"]) + caplog.text
        broken.behaviour = answer({"error": {"message": f"Incorrect API key provided: {KEY}"}}, "401 Unauthorized")
        with pytest.raises(ServerRefused, match=rf"401.*does not accept the API key from {KEY_VARIABLE}") as caught:
            server.post("/completion", {})
    assert KEY not in f"{caught.value!r} {caught.value} {caught.value.body} {caplog.text}"


def test_a_key_file_goes_before_the_environment_and_is_named_when_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "another-key")
    file = key_file(tmp_path)
    with serving(answer({}, "403 Forbidden"), ServerSettings(key_file=file)) as (broken, server):
        with pytest.raises(ServerRefused, match=re.escape(str(file))):
            server.get("/props")
        assert broken.received[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_server_that_wants_a_key_says_how_to_give_one() -> None:
    with serving(answer({}, "401 Unauthorized")) as (broken, server):
        with pytest.raises(ServerRefused, match=rf"wants an API key.*{KEY_VARIABLE}"):
            server.get("/props")
        assert "authorization" not in broken.received[0].headers


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_that_others_can_read_is_refused_with_the_remedy(mode: int, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="chmod 600") as caught:
        Server("http://127.0.0.1:1", ServerSettings(key_file=key_file(tmp_path, mode)))
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("content", ["", "two words", "a\nb", "x" * 5000, "ключ"])
def test_a_file_that_holds_no_key_is_refused_and_not_quoted(content: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no key") as caught:
        Server("http://127.0.0.1:1", ServerSettings(key_file=key_file(tmp_path, content=content)))
    assert not content or content not in str(caught.value)


def test_a_missing_key_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        Server("http://127.0.0.1:1", ServerSettings(key_file=tmp_path / "none"))
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in (".", "pipe"):
        with pytest.raises(SettingsError, match="no plain file"):
            Server("http://127.0.0.1:1", ServerSettings(key_file=tmp_path / name))


@pytest.mark.parametrize("host", ["8.8.8.8", "[2001:4860:4860::8888]", "[::ffff:8.8.8.8]", "no-such-host.invalid"])
def test_a_key_over_plain_http_to_a_public_address_is_refused_unless_allowed(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with pytest.raises(SettingsError, match=r"public address without TLS while a key is set.*--allow-insecure"):
        Server(f"http://{host}:8080", ServerSettings())
    Server(f"http://{host}:8080", ServerSettings(allow_insecure=True)).close()
    Server(f"https://{host}:8080", ServerSettings()).close()
    monkeypatch.delenv(KEY_VARIABLE)
    Server(f"http://{host}:8080", ServerSettings()).close()


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "[::1]", "10.1.2.3", "192.168.0.9", "100.64.1.1", "[fd00::1]"]
)
def test_a_key_may_go_to_this_machine_and_to_private_networks(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    Server(f"http://{host}:8080", ServerSettings()).close()


def test_a_transport_stands_in_for_the_network() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"path": request.url.path})

    server = Server("https://host/base", ServerSettings(), transport=httpx.MockTransport(respond))
    assert server.get("/props").json() == {"path": "/base/props"}
    assert server.connections == 0
    server.close()
