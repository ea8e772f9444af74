"""Which flags make a server reproducible, as a command to copy."""

from __future__ import annotations

import shlex

from app.engine.base import EngineInfo


def command_for(info: EngineInfo, exit_code: int) -> tuple[str, str]:
    """(command, advice) for an engine after a diagnosis that ended in `exit_code`.

    Sources: `llama-server --help` of the build in ENGINES.md, and the documentation of vLLM and SGLang.
    """
    model = str(info.model.get("name") or "MODEL")
    name = info.name.lower()
    if exit_code == 0:
        return "", "Nothing has to change."
    if name.startswith("llama-server"):
        advice = "Every prompt is then recomputed, whatever was served before; requests must not set cache_prompt."
        return _llama_server(info, model), advice
    if name.startswith("vllm"):
        return (
            f"vllm serve {shlex.quote(model)} --no-enable-prefix-caching --enable-prompt-tokens-details",
            "Or send a new cache_salt with each request. Serve one request at a time, by one build on one machine.",
        )
    if name.startswith("sglang"):
        return (
            f"python -m sglang.launch_server --model-path {shlex.quote(model)} --disable-radix-cache "
            "--enable-deterministic-inference",
            "Every prompt is then recomputed by kernels that do not depend on the batch.",
        )
    if info.capabilities.rebuild:
        return "", "No flag is needed: ask each request on an empty state (the recompute path), or from a kept one."
    return "", "This server has no switch for its prefix reuse. Serve the model with llama-server --no-cache-prompt."


def _llama_server(info: EngineInfo, model: str) -> str:
    """The command that a server of ours was started with, else what is known of the one elsewhere; cache off."""
    known = info.settings.get("command")
    if isinstance(known, str):
        words = shlex.split(known)
    else:
        words = ["llama-server", "--model", model]
        words += ["--ctx-size", str(info.settings.get("n_ctx") or info.n_ctx)]
        words += ["--parallel", "1"]
    for flag in ("--cache-ram", "--slot-save-path"):  # the folder of saved slots would have to be there
        while flag in words:
            at = words.index(flag)
            del words[at : at + 2]
    words = [word for word in words if word not in ("--no-cache-prompt", "--cache-prompt")]
    return shlex.join([*words, "--cache-ram", "0", "--no-cache-prompt"])
