from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from app.bundle.format import BundleContents
from app.bundle.scrub import Machine, scrubbed
from app.bundle.verify import verify_bundle
from app.bundle.write import parts_of
from app.trajectory.episode import Message, Outcome
from tests.unit.bundle.made_bundles import bundle_in, contents_of_two_pairs

MACHINE = Machine("marlene", ("gpubox.lab.example", "gpubox"), "/srv/people/marlene")


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("/home/anna/models/m.gguf", "~/models/m.gguf"),
        ("/Users/anna/m.gguf", "~/m.gguf"),
        ("C:\\Users\\Anna\\m.gguf", "~\\m.gguf"),
        ("/" + "root/m.gguf", "~/m.gguf"),
        ("/srv/people/marlene/m.gguf", "~/m.gguf"),
        ("run by marlene on gpubox", "run by <user> on <host>"),
        ("marlenes gpuboxes", "marlenes gpuboxes"),
        ("gpubox.lab.example:8080", "<host>:8080"),
        ("http://10.1.2.3:8080/v1", "http://<host>:8080/v1"),
        ("https://me:pw@models.corp/x", "https://<host>/x"),
        ("http://127.0.0.1:8080 http://localhost/ http://[::1]:80/", "http://127.0.0.1:8080 http://localhost/ http://[::1]:80/"),
        ("llama-server --host 10.1.2.3 --port 80", "llama-server --host <host> --port 80"),
        ("llama-server --host 127.0.0.1", "llama-server --host 127.0.0.1"),
        ("llama-server --api-key s3cret-value -c 4096", "llama-server --api-key [hidden] -c 4096"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: [hidden]"),
        ("key sk-abcdefghijklmnop", "key [hidden]"),
        ("/opt/models/m.gguf -t 1", "/opt/models/m.gguf -t 1"),
        ("rooted in /rootless", "rooted in /rootless"),
    ],
)  # fmt: skip
def test_a_text_about_the_machine_loses_what_is_private_and_nothing_else(said: str, left: str) -> None:
    assert MACHINE.scrub(said) == left


def test_names_that_are_words_stay() -> None:
    assert Machine("root", ("localhost",), "/root").scrub("the root of localhost") == "the root of localhost"
    assert Machine("", ("",), "").scrub("a b") == "a b"


def test_values_lose_secrets_by_their_keys_and_paths_but_for_the_name() -> None:
    values = {"api_key": "x1", "max_tokens": 64, "model": "/data/m.gguf", "args": ["-m", "D:\\m\\m.gguf"], "none": None}
    assert MACHINE.scrub_value(values) == {
        "api_key": "[hidden]", "max_tokens": 64, "model": "m.gguf", "args": ["-m", "m.gguf"], "none": None,
    }  # fmt: skip


def test_the_words_of_a_command_line_lose_what_stands_after_a_key_or_a_host() -> None:
    words = ["--api-key", "abc", "--host", "10.1.2.3", "--n-tokens", "64", "--hf-token=abc", "--api-key-file", "/k/f"]
    left = "--api-key [hidden] --host <host> --n-tokens 64 --hf-token=[hidden] --api-key-file f"
    assert MACHINE.scrub_value(words) == left.split(" ")


def test_a_body_stays_json_and_keeps_what_was_asked() -> None:
    body = json.dumps({"prompt": "/help me", "api_key": "abc", "n": [1, 2], "at": "/home/anna/x"})
    assert json.loads(MACHINE.scrub_body(body) or "") == {
        "prompt": "/help me",
        "api_key": "[hidden]",
        "n": [1, 2],
        "at": "~/x",
    }
    assert MACHINE.scrub_body("data: {cut /home/anna/x") == "data: {cut ~/x"
    assert MACHINE.scrub_body(None) is None


def private() -> BundleContents:
    """Contents with something private in every place where it can stand."""
    contents = contents_of_two_pairs()
    part = contents.pairs[0]
    secret = "/home/anna/x marlene gpubox sk-abcdefghijklmnop"
    first, *others = part.pair.cached.requests
    assert first.report is not None
    report = replace(first.report, raw_request=f'{{"at": "{secret}"}}', raw_response=secret, note=secret, problem=None)
    asked = replace(first.prompt, added=(Message("user", "What is in /home/anna/x?"),))
    run = replace(
        part.pair.cached,
        requests=(replace(first, report=report, prompt=asked), *others),
        outcome=Outcome("reached", secret),
    )
    part = replace(
        part,
        pair=replace(part.pair, cached=run),
        cached_pass=replace(part.cached_pass, settings={"launch": secret}, invalid_reasons=(secret,)),
        note=secret,
        log_excerpt=secret,
    )
    info = contents.experiment
    info = replace(
        info,
        title=secret,
        plan=dict(info.plan) | {"out": "/home/anna/a.forkpoint", "settings": {"arguments": [secret]}},
        environment=dict(info.environment) | {"url": f"http://gpubox:8080/ {secret}"},
    )
    answers = {"launch": secret}
    return replace(contents, experiment=info, pairs=(part,), answers=answers, replay_log={"repro.sh": secret})


def test_nothing_private_is_left_in_any_part_but_in_what_was_asked(tmp_path: FilePath) -> None:
    made = scrubbed(private(), MACHINE)
    for name, data in parts_of(made).items():
        text = data.decode().replace("What is in /home/anna/x?", "")
        assert not [word for word in ("anna", "marlene", "gpubox", "sk-abc") if word in text], name
    assert made.pairs[0].pair.cached.requests[0].prompt.added[0].content == "What is in /home/anna/x?"
    assert made.environment["model"]["chat_template"] == "{{ messages }}"
    assert verify_bundle(bundle_in(tmp_path, made)).state == "whole"


def test_this_machine_is_known() -> None:
    here = Machine.here()
    assert here.home == str(FilePath.home())
    assert any(here.hosts)
