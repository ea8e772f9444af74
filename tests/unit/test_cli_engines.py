"""How the commands choose and set an engine, and whom the doctor asks first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from app.cli import cli
from app.cli.engine_options import engine_options, take_engine
from app.errors import SettingsError
from app.session import ManagedSettings, RunRequest, ServerSettings


def taken(engine: str, *arguments: str) -> dict[str, Any]:
    """What `take_engine` makes of typed options."""
    found: dict[str, Any] = {}

    @click.command()
    @engine_options
    def command(**options: Any) -> None:
        found.update(take_engine(engine, options))
        assert options == {}, "an option is left over"

    command.main(list(arguments), standalone_mode=False)
    return found


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def test_flags_of_the_embedded_engine_mean_the_same_on_a_llama_server_of_our_own() -> None:
    managed = taken("managed", "--n-ctx", "2048", "--n-ubatch", "64", "--type-k", "q8_0", "--no-swa-full")["managed"]
    assert managed == ManagedSettings(ctx_size=2048, ubatch_size=64, cache_type_k="q8_0", swa_full=False)


def test_a_llama_servers_own_flags_are_taken_as_one_types_them() -> None:
    words = ("--cache-ram", "0", "--parallel", "2", "--server-args", '--no-cache-prompt --chat-template "my own"')
    managed = taken("managed", *words)["managed"]
    assert (managed.cache_ram, managed.parallel) == (0, 2)
    assert managed.arguments == ("--no-cache-prompt", "--chat-template", "my own")
    with pytest.raises(SettingsError, match="No closing quotation"):
        taken("managed", "--server-args", '"')


@pytest.mark.parametrize("engine", ["embedded", "http://127.0.0.1:1"])
def test_flags_that_an_engine_would_not_heed_are_refused(engine: str) -> None:
    with pytest.raises(SettingsError, match="that Forkpoint starts"):
        taken(engine, "--cache-ram", "0")
    assert taken(engine)["engine"] == engine


def test_how_a_server_is_reached_is_kept(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("k")
    words = ("--key-file", str(key), "--served-model", "m", "--control-url", "http://h:2", "--read-timeout-s", "9")
    found = taken("http://127.0.0.1:1", *words, "--allow-insecure")
    assert found["server"] == ServerSettings(
        key_file=key, model="m", control_url="http://h:2", read_timeout_s=9.0, allow_insecure=True
    )
    assert RunRequest(**found).engine == "http://127.0.0.1:1"


def test_the_doctor_evicts_nothing_from_a_server_elsewhere_unasked() -> None:
    refused = invoke("doctor", "http://127.0.0.1:1")
    assert refused.exit_code == 2
    assert "evicts what others have" in refused.output and "--allow-reset" in refused.output


@pytest.mark.parametrize("flag", ["--yes", "--allow-reset"])
def test_a_server_that_is_not_there_is_a_sentence(flag: str) -> None:
    gone = invoke("doctor", "http://127.0.0.1:1", flag)
    assert gone.exit_code == 2
    assert "127.0.0.1:1" in gone.output and "Traceback" not in gone.output


def test_a_model_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    missing = invoke("doctor", str(tmp_path / "none.gguf"))
    assert missing.exit_code == 2
    assert "none.gguf" in missing.output and "Traceback" not in missing.output


@pytest.mark.parametrize("typed", ["127.0.0.1:8080", "managd"])
def test_what_is_neither_an_address_nor_a_file_says_how_either_is_given(typed: str) -> None:
    refused = invoke("doctor", typed)
    assert refused.exit_code == 2
    assert "no address of a server" in refused.output and "http://127.0.0.1:8080" in refused.output


def test_a_repeat_with_one_run_is_refused() -> None:
    assert "repeat is 1" in invoke("run", "--kind", "repeat", "--repeat", "1").output
