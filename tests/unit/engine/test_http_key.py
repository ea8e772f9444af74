"""The API key: where it comes from, where it may go, and that nothing shows it."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import pytest

from app.engine.http.server import Server
from app.engine.server_settings import KEY_VARIABLE, ServerSettings
from app.errors import ServerRefused, SettingsError
from tests.unit.engine.broken_server import (
    answer,
)
from tests.unit.engine.serving import KEY, clean_environment, serving

__all__ = ["clean_environment"]


def key_file(folder: Path, mode: int = 0o600, content: str = f"{KEY}\n") -> Path:
    file = folder / "key"
    file.write_text(content)
    file.chmod(mode)
    return file


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
