"""Scripts that show the fork without Forkpoint: templates of resources/repro with one pair's token ids in them."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from app import paths
from app.bundle.format import BundleContents, folder_of
from app.trajectory.reproducer import Reproducer, reproducer_of, why_no_reproducer

EMBEDDED, SERVER, SHELL = "repro_embedded.py", "repro_server.py", "repro.sh"

_SERVER_OF = {"embedded": "llama-server", "llama-server": "llama-server", "vllm": "vllm"}
"""Which server's script an engine's pair gets, by the first word of the engine's name."""

_URLS = {"llama-server": "http://127.0.0.1:8080", "vllm": "http://127.0.0.1:8000"}
_SETTINGS = {
    "n_ctx": 4096, "n_batch": 2048, "n_ubatch": 512, "threads": 1, "type_k": "f16", "type_v": "f16",
    "flash_attention": False, "swa_full": True, "gpu_layers": 0,
}  # fmt: skip
"""What a script needs to know of the engine's settings, and what is taken where the record does not say."""

_MODEL_FACTS = ("name", "size_bytes", "sha256")
_DATA_BEGIN, _DATA_END = "# --- data: written by Forkpoint ---\n", "# --- end of data ---\n"


def repro_files(contents: BundleContents) -> dict[str, str]:
    """The scripts of every pair that forked at a token, by their names in the zip; none of a redacted bundle.

    A script says what it printed when it was run before the export, where `contents.replay_log` has that.
    """
    if contents.redaction != "none":
        return {}
    files: dict[str, str] = {}
    for number, part in enumerate(contents.pairs, 1):
        if not why_no_reproducer(part.pair):
            folder = folder_of(number, part.pair.cached.episode_id)
            reproducer = reproducer_of(part.pair, part.history, contents.experiment.plan)
            files |= {f"{folder}/{name}": text for name, text in _scripts(contents, reproducer, folder).items()}
    return files


def _scripts(contents: BundleContents, reproducer: Reproducer, folder: str) -> dict[str, str]:
    engine = str(contents.environment.get("engine", "")).split(" ")[0]
    scripts = {}
    if engine == "embedded":
        scripts[EMBEDDED] = _python(EMBEDDED, _data(contents, reproducer, "", f"{folder}/{EMBEDDED}"))
    if server := _SERVER_OF.get(engine):
        scripts[SERVER] = _python(SERVER, _data(contents, reproducer, server, f"{folder}/{SERVER}"))
        scripts[SHELL] = _shell(server, _data(contents, reproducer, server, f"{folder}/{SHELL}"))
    return scripts


def _data(contents: BundleContents, reproducer: Reproducer, server: str, name: str) -> dict[str, Any]:
    """What a script needs, as JSON values; numbers that a person reads count from 1."""
    environment, fork = contents.environment, reproducer.fork
    assert fork.step is not None and fork.cached is not None and fork.recompute is not None
    settings, build = environment.get("settings", {}), environment.get("build", {})
    facts = " ".join(str(build[key]) for key in ("bindings", "build_info", "version", "ggml_commit") if key in build)
    return {
        "place": f"{plain_line(reproducer.episode_id)}, {fork.place}",
        "engine": plain_line(environment.get("engine", "unknown")),
        "build": plain_line(facts),
        "ran": _ran(contents, server, name),
        "model": {key: plain_line(value) for key, value in environment.get("model", {}).items() if key in _MODEL_FACTS},
        "settings": {key: settings.get(key, default) for key, default in _SETTINGS.items()},
        "server": server,
        "url": _URLS.get(server, ""),
        "launch": plain_line(contents.answers.get("launch") or launch_command(environment, server)),
        "sampling": {
            "temperature": reproducer.temperature, "top_k": reproducer.top_k, "top_p": reproducer.top_p,
            "seed": reproducer.seed,
        },
        "rivals": reproducer.rivals,
        "history": [
            {
                "name": plain_line(one.writer), "cached": one.cached_tokens, "max_tokens": one.max_tokens,
                "prompt": one.prompt_ids.tolist(), "answer": one.answer_ids.tolist(),
            }
            for one in reproducer.history
        ],
        "prompt": reproducer.prompt_ids.tolist(),
        "cached": reproducer.cached_tokens,
        "max_tokens": max(reproducer.max_tokens, fork.step + 1),
        "fork": {
            "step": fork.step + 1, "cached": fork.cached.token_id, "recompute": fork.recompute.token_id,
            "margins": [fork.recompute.margin, fork.cached.margin],
        },
    }  # fmt: skip


def launch_command(environment: Mapping[str, Any], server: str) -> str:
    """How a server with the recorded settings is started; the model is named by its file name only."""
    settings, model = environment.get("settings", {}), environment.get("model", {})
    name = str(model.get("name", "MODEL"))
    if server == "vllm":
        return _vllm_command(name, settings)
    if server != "llama-server":
        return ""
    flags = {
        "-m": name, "-c": settings.get("n_ctx"), "-np": 1, "-b": settings.get("n_batch"),
        "-ub": settings.get("n_ubatch"), "-t": settings.get("threads"), "-ctk": settings.get("type_k"),
        "-ctv": settings.get("type_v"), "-fa": {True: "on", False: "off"}.get(settings.get("flash_attention", "")),
        "-ngl": settings.get("gpu_layers"), "--cache-ram": 0,
    }  # fmt: skip
    command = [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
    return shlex.join(["llama-server", *command, *(["--swa-full"] if settings.get("swa_full") else [])])


def _vllm_command(name: str, settings: Mapping[str, Any]) -> str:
    """The record's model is called `served name (file name)` where both differ."""
    names = re.fullmatch(r"(.+) \((.+)\)", name)
    served, file = names.groups() if names else (None, name)
    flags = {
        "--served-model-name": served, "--dtype": str(settings.get("dtype") or "").removeprefix("torch.") or None,
        "--max-model-len": settings.get("n_ctx"), "--block-size": settings.get("block_size"),
        "--kv-cache-dtype": settings.get("cache_dtype"), "--seed": settings.get("seed"),
        "--max-num-seqs": settings.get("max_num_seqs"),
        "--max-num-batched-tokens": settings.get("max_num_batched_tokens"),
    }  # fmt: skip
    words = ["vllm", "serve", file, "--enable-prefix-caching", "--enable-prompt-tokens-details"]
    words += [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
    return shlex.join([*words, *(["--enforce-eager"] if settings.get("enforce_eager") is True else [])])


def _ran(contents: BundleContents, server: str, name: str) -> str:
    """Where the pair was recorded, and what this very script said before the export, if it was run then."""
    engine = plain_line(contents.environment.get("engine", "an unknown engine"))
    printed = [line for line in contents.replay_log.get(name, "").splitlines() if line.strip()]
    said = f" Run before the export, it printed: {plain_line(' '.join(printed[-2:]))}" if printed else ""
    asked = f" This script asks {server}." if server and not engine.startswith(server) else ""
    return f"Recorded on the engine {engine}.{asked}{said}"


def plain_line(value: object) -> str:
    """Text of unknown origin as one line that a terminal shows and does not obey: no control characters in it."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(value))


def _python(template: str, data: Mapping[str, Any]) -> str:
    """The template with its data block filled: ASCII JSON in a raw string that nothing in it can end."""
    text = json.dumps(data, indent=1)  # three quotes in a row are no JSON
    wrapped = re.sub(r"\[\n[\s\d,-]*\]", lambda match: _wrapped(json.loads(match[0])), text)
    return _filled(template, f'DATA = json.loads(r"""{wrapped}""")\n')


def _wrapped(ids: Sequence[int]) -> str:
    return "[" + "\n".join(textwrap.wrap(", ".join(map(str, ids)), 110)) + "]"


def _shell(server: str, data: Mapping[str, Any]) -> str:
    sampling, fork = data["sampling"], data["fork"]
    asked = {"temperature": sampling["temperature"], "top_p": sampling["top_p"], "seed": sampling["seed"]}
    asked |= {"samplers": ["top_k", "top_p", "temperature"]} if server == "llama-server" else {}
    asked |= {"top_k": sampling["top_k"] if sampling["temperature"] > 0 else 1}
    values = {
        "PLACE": data["place"], "RAN": data["ran"], "LAUNCH": data["launch"], "URL": data["url"],
        "MAX_TOKENS": data["max_tokens"], "SAMPLING": json.dumps(asked)[1:-1],
        "CACHED": "" if data["cached"] is None else data["cached"],
        "STEP": fork["step"], "CACHED_TOKEN": fork["cached"], "RECOMPUTE_TOKEN": fork["recompute"],
        "PROMPT": _commas(data["prompt"]),
    }  # fmt: skip
    lines = [f"{name}={shlex.quote(str(value))}" for name, value in values.items()]
    asks = [
        f"    ask {shlex.quote(one['name'])} $path {one['max_tokens']} '{_commas(one['prompt'])}'; path=cached"
        for one in data["history"]
    ]
    text = _filled(SHELL, "\n".join([*lines, "warm_up() {", *(asks or ["    :"]), "}", ""]))
    head, *bodies, tail = re.split(r"# --- (?:body: \S+|end of bodies) ---\n", text)
    return head + bodies[list(_URLS).index(server)] + tail


def _commas(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _filled(template: str, data: str) -> str:
    text = (paths.resources_dir() / "repro" / template).read_text(encoding="utf-8")
    head, rest = text.split(_DATA_BEGIN)
    return head + _DATA_BEGIN + data + _DATA_END + rest.split(_DATA_END)[1]
