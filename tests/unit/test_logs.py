"""The log holds what happened and no secret."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import logs

log = logging.getLogger("app.somewhere")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "logs" / "forkpoint.log"
    started = logs.start(path)
    yield path
    started.close()


def test_what_the_app_logs_is_in_the_file_with_its_room_and_thread(file: Path) -> None:
    log.info("a run began: %s", "files-00")
    assert "INFO app.somewhere [MainThread] a run began: files-00" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer SECRET123456", "authorization: SECRET123456", "{'api_key': 'SECRET123456'}",
        '{"api-key": "SECRET 123456"}', "OPENAI_API_KEY=SECRET123456 run", "password=SECRET123456&x=1",
        "sent bearer SECRET123456", "key sk-SECRET123456", "hf_SECRET123456", "HF_TOKEN=SECRET123456",
        "GET http://user:SECRET123456@127.0.0.1/v1", "Cookie: a=1; session=SECRET123456",
    ],
)  # fmt: skip
def test_a_secret_is_hidden_in_message_and_arguments_and_trace(file: Path, text: str) -> None:
    log.warning(text)
    log.warning("%s", text)
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("it broke")
    written = file.read_text(encoding="utf-8")
    assert "SECRET" not in written and "123456" not in written
    assert written.count(logs.HIDDEN) >= 3


@pytest.mark.parametrize(
    "text", ["token 17 of request 3", "eos_token: <|im_end|>", "n_tokens=40, http://127.0.0.1:8080/v1"]
)
def test_the_fields_own_words_are_not_taken_for_secrets(text: str) -> None:
    assert logs.without_secrets(text) == text


def test_model_text_cannot_act_in_the_log() -> None:
    assert logs.without_secrets("a\x1b[31m\u202eb\nc") == r"a\x1b[31m\x202eb" + "\nc"


def test_hiding_secrets_in_a_long_line_takes_no_time() -> None:
    started = time.perf_counter()
    for line in ("a" * 200_000, "api_key" * 30_000, "://" * 60_000, "a:" * 100_000, "sk-" * 60_000):
        logs.without_secrets(line)
    assert time.perf_counter() - started < 5.0


def test_the_file_rotates_before_it_grows_without_end(file: Path) -> None:
    for _ in range(60):
        log.info("x" * 100_000)
    sizes = sorted(entry.stat().st_size for entry in file.parent.iterdir())
    assert len(sizes) == 1 + logs.OLDER_FILES and sizes[-1] <= logs.LARGEST_BYTES


def test_starting_again_does_not_write_twice_and_closing_twice_is_harmless(file: Path) -> None:
    again = logs.start(file)
    log.info("once")
    assert file.read_text(encoding="utf-8").count("once") == 1
    again.close()
    again.close()
    log.info("after the end")
    assert "after the end" not in file.read_text(encoding="utf-8")


def test_a_log_that_cannot_be_written_is_said_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    started = logs.start(tmp_path / "file" / "forkpoint.log")
    log.info("still here")
    started.close()
    assert "cannot be written" in caplog.text
