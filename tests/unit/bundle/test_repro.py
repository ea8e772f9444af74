"""The standalone scripts: what is in them, and what they say to servers that do, do not, or cannot show the fork."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import pytest

from app import paths
from app.bundle.format import BundleContents
from app.bundle.repro import EMBEDDED, SERVER, SHELL, launch_command, plain_line, repro_files
from app.trajectory.trajectory import Request
from tests.unit.bundle.made_bundles import ENVIRONMENT, contents_of_two_pairs
from tests.unit.bundle.scripted_servers import Said, serving

FOLDER = "pairs/01-made-00"
RECORD: dict[str, Any] = dict(ENVIRONMENT)
EVIL = "\"\"\"'''\\\" $(touch owned) `touch owned`; \u202e\x1b[31m\n</script> ' END\nEND\n"


def contents(engine: str = "embedded", **changes: Any) -> BundleContents:
    """Two pairs, recorded on `engine`."""
    made = contents_of_two_pairs()
    environment = RECORD | {"engine": engine} | changes
    return replace(made, experiment=replace(made.experiment, environment=environment), replay_log={})


def data_of(script: str) -> dict[str, Any]:
    """What a Python script was given, read without running it."""
    for node in ast.parse(script).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            value = node.value.args[0]
            assert isinstance(value, ast.Constant)
            found: dict[str, Any] = json.loads(str(value.value))
            return found
    raise AssertionError("the script has lost its data")


def forked(made: BundleContents) -> tuple[Request, Request]:
    pair = made.pairs[0].pair
    fork = pair.comparison.fork
    assert fork is not None
    return pair.cached.requests[fork.request], pair.recompute.requests[fork.request]


def recorded(made: BundleContents, *, forks: bool = True, cached: int | None = -1) -> Said:
    """A server that answers as the record says; `cached` is what it reports at the fork (-1: as recorded)."""
    on_cache, recomputed = forked(made)
    assert on_cache.report is not None

    def said(prompt: list[int], may_use_cache: bool) -> tuple[list[int], int | None]:
        for request in made.pairs[0].pair.cached.requests[: on_cache.index]:
            if prompt == request.prompt.ids.tolist():
                return request.steps.token_ids.tolist(), 0
        assert prompt == on_cache.prompt.ids.tolist()
        own = on_cache if forks and may_use_cache else recomputed
        reported = on_cache.report.cached_tokens if on_cache.report else None
        return own.steps.token_ids.tolist(), (reported if cached == -1 else cached) if may_use_cache else 0

    return said


def run(words: list[str], folder: FilePath, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False
    )


def run_script(name: str, made: BundleContents, folder: FilePath, *args: str, **environment: str) -> tuple[int, str]:
    """The script's exit code and output, in a Python that finds neither the app nor this folder."""
    script = folder / name
    script.write_text(repro_files(made)[f"{FOLDER}/{name}"], encoding="utf-8")
    words = ["sh", name, *args] if name == SHELL else [sys.executable, "-I", name, *args]
    done = run(words, folder, **environment)
    return done.returncode, done.stdout + done.stderr


def asked(name: str, url: str) -> list[str]:
    return [url] if name == SHELL else ["--url", url]


def test_an_embedded_pair_has_three_scripts_a_server_s_two_and_others_none() -> None:
    names = {FOLDER, "pairs/02-made-01"}
    assert repro_files(contents()).keys() == {f"{n}/{s}" for n in names for s in (EMBEDDED, SERVER, SHELL)}
    managed = repro_files(contents("llama-server (managed)"))
    assert managed.keys() == {f"{n}/{s}" for n in names for s in (SERVER, SHELL)}
    assert {data_of(text)["server"] for name, text in managed.items() if name.endswith(".py")} == {"llama-server"}
    assert "/v1/completions" in repro_files(contents("vllm"))[f"{FOLDER}/{SHELL}"]
    assert repro_files(contents("sglang")) == {}


def test_a_redacted_bundle_has_none() -> None:
    assert repro_files(replace(contents(), redaction="light")) == {}


def test_a_script_holds_the_history_and_the_request_as_they_were_served() -> None:
    made = contents()
    data = data_of(repro_files(made)[f"{FOLDER}/{EMBEDDED}"])
    on_cache, recomputed = forked(made)
    first = made.pairs[0].pair.cached.requests[0]
    assert [(one["name"], one["prompt"], one["answer"]) for one in data["history"]] == [
        ("made-00 r1", first.prompt.ids.tolist(), first.steps.token_ids.tolist())
    ]
    assert data["prompt"] == on_cache.prompt.ids.tolist()
    ids = [int(request.steps.token_ids[5]) for request in (on_cache, recomputed)]
    assert [data["fork"][key] for key in ("step", "cached", "recompute")] == [6, *ids]
    assert data["model"]["sha256"] == RECORD["model"]["sha256"]
    assert data["settings"]["n_ubatch"] == 512, "what the record does not say is llama.cpp's default"


def test_templates_are_whole_scripts_and_their_lines_are_kept() -> None:
    files = repro_files(contents())
    for name in (EMBEDDED, SERVER):
        template = (paths.resources_dir() / "repro" / name).read_text(encoding="utf-8")
        head, tail = template.split('DATA = json.loads(r"""{}""")\n')
        assert files[f"{FOLDER}/{name}"].startswith(head) and files[f"{FOLDER}/{name}"].endswith(tail)


def test_a_script_says_what_it_printed_before_the_export() -> None:
    name = f"{FOLDER}/{SERVER}"
    ran = data_of(repro_files(contents())[name])["ran"]
    assert ran == "Recorded on the engine embedded. This script asks llama-server."  # no word on a run: this may be one
    printed = {name: "warm-up\nThe fork shows at token 6.\nexit code 0"}
    ran = data_of(repro_files(replace(contents(), replay_log=printed))[name])["ran"]
    assert ran.endswith("Run before the export, it printed: The fork shows at token 6. exit code 0")


@pytest.mark.parametrize("engine", ["embedded", "vllm"])
@pytest.mark.parametrize("name", [SERVER, SHELL])
def test_a_server_that_forks_as_recorded_ends_in_0(engine: str, name: str, tmp_path: FilePath) -> None:
    made = contents(engine)
    with serving(recorded(made)) as server:
        code, output = run_script(name, made, tmp_path, *asked(name, server.url))
    assert code == 0, output
    assert "The fork shows at token 6" in output and "Recorded on the engine" in output
    first, cached, recompute = server.bodies
    if engine == "vllm":
        assert first["cache_salt"] == cached["cache_salt"] != recompute["cache_salt"]
    else:
        assert [one["cache_prompt"] for one in server.bodies] == [False, True, False]
        assert {one["id_slot"] for one in server.bodies} == {0}


@pytest.mark.parametrize("engine", ["embedded", "vllm"])
@pytest.mark.parametrize("name", [SERVER, SHELL])
def test_a_server_that_does_not_fork_ends_in_1(engine: str, name: str, tmp_path: FilePath) -> None:
    made = contents(engine)
    with serving(recorded(made, forks=False)) as server:
        code, output = run_script(name, made, tmp_path, *asked(name, server.url))
    assert code == 1 and "No fork: both paths gave the same" in output


@pytest.mark.parametrize("name", [SERVER, SHELL])
def test_a_fork_at_another_token_ends_in_1(name: str, tmp_path: FilePath) -> None:
    made = contents()

    def said(prompt: list[int], may_use_cache: bool) -> tuple[list[int], int | None]:
        ids, count = recorded(made)(prompt, may_use_cache)
        return ([ids[0] + 900, *ids[1:]] if may_use_cache and count else ids), count

    with serving(said) as server:
        code, output = run_script(name, made, tmp_path, *asked(name, server.url))
    assert code == 1 and "Another fork" in output


@pytest.mark.parametrize("name", [SERVER, SHELL])
def test_a_cache_that_was_not_used_as_recorded_ends_in_2(name: str, tmp_path: FilePath) -> None:
    made = contents()
    with serving(recorded(made, cached=3)) as server:
        code, output = run_script(name, made, tmp_path, *asked(name, server.url))
    assert code == 2 and "The cached path took 3 tokens from the cache; recorded were" in output


@pytest.mark.parametrize("name", [SERVER, SHELL])
def test_counts_that_are_not_reported_are_no_obstacle(name: str, tmp_path: FilePath) -> None:
    made = contents("vllm")
    with serving(lambda *asked: (recorded(made)(*asked)[0], None)) as server:
        code, output = run_script(name, made, tmp_path, *asked(name, server.url))
    assert code == 0, output


@pytest.mark.parametrize("name", [SERVER, SHELL])
def test_a_server_that_is_not_there_or_gives_no_ids_ends_in_2(name: str, tmp_path: FilePath) -> None:
    code, output = run_script(name, contents(), tmp_path, *asked(name, "http://127.0.0.1:9"))
    assert code == 2 and "Could not be tried." in output
    with serving(lambda *_: ([], 0)) as server:
        code, output = run_script(name, contents(), tmp_path, *asked(name, server.url))
    assert code == 2 and "holds no token ids" in output


def test_a_key_comes_from_the_environment_and_is_not_printed(tmp_path: FilePath) -> None:
    made = contents()
    with serving(recorded(made)) as server:
        code, output = run_script(
            SERVER, made, tmp_path, "--url", server.url, "--key-env", "MY_KEY", MY_KEY="sk-12345678"
        )
        assert code == 0 and set(server.keys) == {"Bearer sk-12345678"} and "sk-12345678" not in output
        server.keys.clear()
        code, output = run_script(SHELL, made, tmp_path, server.url, API_KEY="sk-12345678")
        assert code == 0 and set(server.keys) == {"Bearer sk-12345678"} and "sk-12345678" not in output


def test_texts_of_unknown_origin_run_nothing_and_steer_no_terminal(tmp_path: FilePath) -> None:
    model, settings = RECORD["model"] | {"name": EVIL}, RECORD["settings"] | {"type_k": EVIL}
    made = contents(build={"bindings": EVIL}, model=model, settings=settings)
    made = replace(made, answers={"launch": EVIL}, replay_log={f"{FOLDER}/{n}": EVIL for n in (SERVER, SHELL)})
    for name in (SERVER, SHELL):
        with serving(recorded(made)) as server:
            code, output = run_script(name, made, tmp_path, *asked(name, server.url))
        assert code == 0, output
        assert not {"\x1b", "\u202e"} & set(output)
        assert "touch owned" in output, "it is shown, as text"
    assert data_of(repro_files(made)[f"{FOLDER}/{EMBEDDED}"])["build"] == plain_line(EVIL)
    assert sorted(file.name for file in tmp_path.iterdir()) == [SHELL, SERVER]


def test_the_embedded_script_says_why_it_could_not_be_tried(tmp_path: FilePath) -> None:
    code, output = run_script(EMBEDDED, contents(), tmp_path, "--model", "absent.gguf")
    assert code == 2 and "Could not be tried. The model file cannot be read" in output
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    code, output = run_script(EMBEDDED, contents(), tmp_path, "--model", "other.gguf")
    assert code == 2 and "Another model file: SHA-256 is" in output
    code, output = run_script(EMBEDDED, contents(), tmp_path, "--model", "other.gguf", "--any-model")
    assert code == 2 and "cannot be loaded" in output


def test_the_launch_command_names_the_model_by_its_file_name_and_the_recorded_settings() -> None:
    settings = {"n_ctx": 2048, "n_ubatch": 64, "threads": 2, "flash_attention": True, "swa_full": True}
    environment = {"settings": settings, "model": {"name": "a b.gguf"}}
    assert launch_command(environment, "llama-server") == (
        "llama-server -m 'a b.gguf' -c 2048 -np 1 -ub 64 -t 2 -fa on --cache-ram 0 --swa-full"
    )
    assert launch_command(environment, "vllm").startswith("vllm serve 'a b.gguf' ")
    assert launch_command(environment, "") == ""


def test_the_launch_command_of_a_vllm_tells_the_served_name_from_the_models_and_the_recorded_settings() -> None:
    settings = {"n_ctx": 4096, "dtype": "torch.bfloat16", "block_size": 32, "seed": 0, "enforce_eager": True}
    assert launch_command({"settings": settings, "model": {"name": "small (a model)"}}, "vllm") == (
        "vllm serve 'a model' --enable-prefix-caching --enable-prompt-tokens-details --served-model-name small "
        "--dtype bfloat16 --max-model-len 4096 --block-size 32 --seed 0 --enforce-eager"
    )
