#!/usr/bin/env python3
"""One request answered twice by llama.cpp: with its prompt's beginning taken from the cache, and without a cache.

Needs llama-cpp-python and the model file, nothing else:

    python repro_embedded.py --model FILE

First the warm-up history is fed into one context: prompts in chunks, answers token by token, as they were served. Then
the request is answered there (cached path) and in an emptied context (recompute path). Exits 0 where the two answers
part at the recorded token, into the recorded two tokens; 1 where they do not; 2 where it could not be tried.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import sys
from pathlib import Path

# --- data: written by Forkpoint ---
DATA = json.loads(r"""{}""")
# --- end of data ---

KV_TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q4_0": 2, "q8_0": 8}  # ggml_type


class NotTried(Exception):
    """Why it could not be tried."""


def print_errors(level, text, _):
    """llama.cpp's own errors, without its other talk."""
    if level == 4:  # GGML_LOG_LEVEL_ERROR
        print(text.decode(errors="replace"), end="")


class Model:
    """The loaded file and one context of it, with the recorded settings."""

    def __init__(self, llama, path, settings):
        self.llama, self.settings = llama, settings
        self.log = llama.llama_log_callback(print_errors)  # must live as long as llama.cpp may call it
        llama.llama_log_set(self.log, ctypes.c_void_p(0))
        llama.llama_backend_init()
        params = llama.llama_model_default_params()
        params.n_gpu_layers = settings["gpu_layers"]
        self.model = llama.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise NotTried(f"{path} cannot be loaded by this llama.cpp.")
        self.vocab = llama.llama_model_get_vocab(self.model)
        self.n_vocab = llama.llama_vocab_n_tokens(self.vocab)
        self.n_swa = llama.llama_model_n_swa(self.model)
        self.context = self.new_context()
        self.memory = llama.llama_get_memory(self.context)
        self.n_batch, self.n_ubatch = llama.llama_n_batch(self.context), llama.llama_n_ubatch(self.context)
        self.batch = llama.llama_batch_init(self.n_ubatch, 0, 1)
        self.held = []  # the ids whose entries the cache holds

    def new_context(self):
        """A context as the recorded one was made."""
        settings = self.settings
        params = self.llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = settings["n_ctx"], settings["n_batch"], settings["n_ubatch"]
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = settings["threads"]
        params.type_k, params.type_v = KV_TYPES[settings["type_k"]], KV_TYPES[settings["type_v"]]
        params.flash_attn_type = int(settings["flash_attention"])  # never AUTO
        params.swa_full = settings["swa_full"]
        context = self.llama.llama_init_from_model(self.model, params)
        if not context:
            raise NotTried("llama.cpp cannot make a context with the recorded settings.")
        return context

    def clear(self):
        """Empty the cache."""
        self.llama.llama_memory_clear(self.memory, True)
        self.held = []

    def feed(self, prompt):
        """Keep the longest common prefix, but evaluate at least the last token; returns how many were kept."""
        if len(prompt) >= self.settings["n_ctx"] > 0:
            raise NotTried(f"The prompt of {len(prompt)} tokens does not fit the context.")
        if max(prompt) >= self.n_vocab:
            raise NotTried("The prompt holds an id that this model does not have.")
        keep = 0
        while keep < min(len(self.held), len(prompt) - 1) and self.held[keep] == prompt[keep]:
            keep += 1
        if keep < len(self.held) and not (keep and self.rewind(keep)):
            self.clear()
            keep = 0
        self.held = self.held[:keep]
        for start in range(keep, len(prompt), self.n_batch):
            batch = prompt[start : start + self.n_batch]
            for at in range(0, len(batch), self.n_ubatch):
                chunk = batch[at : at + self.n_ubatch]
                self.evaluate(chunk, logits=start + at + len(chunk) == len(prompt))
        return keep

    def rewind(self, keep):
        """Whether the cache could be cut to `keep` tokens: a sliding window or a recurrent state may not allow it."""
        first = self.llama.llama_memory_seq_pos_min(self.memory, 0)
        allowed = 0 <= first <= max(0, keep - max(1, self.n_swa))
        return allowed and self.llama.llama_memory_seq_rm(self.memory, 0, keep, -1)

    def evaluate(self, ids, logits):
        """One chunk of at most n_ubatch tokens."""
        batch = self.batch
        batch.n_tokens = len(ids)
        for slot, token_id in enumerate(ids):
            batch.token[slot], batch.pos[slot], batch.logits[slot] = token_id, len(self.held) + slot, 0
            batch.n_seq_id[slot], batch.seq_id[slot][0] = 1, 0
        batch.logits[len(ids) - 1] = logits
        code = self.llama.llama_decode(self.context, batch)
        if code != 0:
            raise NotTried(f"llama.cpp could not evaluate a chunk of {len(ids)} tokens (code {code}).")
        self.held += ids

    def answer(self, most, sampling):
        """Up to `most` steps (id, margin): the largest logit, or llama.cpp's own seeded sampler where it was used.

        The margin is the difference of the two largest logits, which is that of their logprobs, in nats.
        """
        import numpy as np

        chain = sampler(self.llama, sampling)
        steps = []
        while len(steps) < most:
            row = np.ctypeslib.as_array(self.llama.llama_get_logits_ith(self.context, -1), (self.n_vocab,))
            second, first = np.partition(row, -2)[-2:].tolist()
            token_id = int(row.argmax()) if chain is None else self.llama.llama_sampler_sample(chain, self.context, -1)
            steps.append((token_id, first - second))
            if self.llama.llama_vocab_is_eog(self.vocab, token_id) or len(self.held) == self.settings["n_ctx"]:
                break
            if len(steps) < most:
                self.evaluate([token_id], logits=True)
        if chain is not None:
            self.llama.llama_sampler_free(chain)
        return steps

    def piece(self, token_id):
        """A token's bytes, written so that a terminal shows them and nothing else."""
        buffer = ctypes.create_string_buffer(256)
        size = self.llama.llama_token_to_piece(self.vocab, token_id, buffer, len(buffer), 0, True)
        return repr(buffer.raw[: max(0, size)])[1:]


def sampler(llama, sampling):
    """llama.cpp's chain as it was used; None where the answer was greedy."""
    if sampling["temperature"] <= 0:
        return None
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_top_k(sampling["top_k"]))
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_top_p(sampling["top_p"], 1))
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_temp(sampling["temperature"]))
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_dist(sampling["seed"] & 0xFFFFFFFF))
    return chain


def check_model(path, any_model):
    """Raise NotTried where the file is missing or is not the recorded one."""
    try:
        with Path(path).open("rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise NotTried(f"The model file cannot be read: {error}.") from error
    recorded = DATA["model"].get("sha256")
    if recorded and digest.hexdigest() != recorded:
        print(f"Another model file: SHA-256 is {digest.hexdigest()}, recorded was {recorded}.")
        if not any_model:
            raise NotTried("--any-model tries it all the same.")


def run(args):
    """Both paths; returns the exit code."""
    try:
        import llama_cpp
    except ImportError as error:
        raise NotTried(f"llama-cpp-python is not here ({error}). pip install llama-cpp-python") from error
    check_model(args.model, args.any_model)
    settings = dict(DATA["settings"])
    if args.threads:
        settings["threads"] = args.threads
    model = Model(llama_cpp, args.model, settings)
    print(f"llama-cpp-python {llama_cpp.__version__}; recorded with {DATA['build']}\n")
    print("warm-up")
    for request in DATA["history"]:
        kept = model.feed(request["prompt"])
        for token_id in request["answer"][:-1]:  # the last one was sampled, not evaluated
            model.evaluate([token_id], logits=True)
        said = "" if request["cached"] in (None, kept) else f"  (recorded: {request['cached']})"
        print(f"  {request['name']:22} {kept:6} cached {len(request['prompt']) - kept:6} evaluated{said}")
    kept = model.feed(DATA["prompt"])
    cached = model.answer(DATA["max_tokens"], DATA["sampling"])
    model.clear()
    model.feed(DATA["prompt"])
    recompute = model.answer(DATA["max_tokens"], DATA["sampling"])
    print(f"the request, {len(DATA['prompt'])} prompt tokens")
    print(f"  {'cached path':22} {kept:6} cached {len(DATA['prompt']) - kept:6} evaluated")
    print(f"  {'recompute path':22} {0:6} cached {len(DATA['prompt']):6} evaluated\n")
    if DATA["cached"] is not None and kept != DATA["cached"]:
        raise NotTried(f"The cache gave {kept} tokens to the request; recorded were {DATA['cached']}.")
    return report(model, cached, recompute)


def report(model, cached, recompute):
    """Print the tokens around the fork, say what was found, and return the exit code."""
    fork = DATA["fork"]
    at = next((n for n, (a, b) in enumerate(zip(cached, recompute)) if a[0] != b[0]), None)  # noqa: B905
    print(f"{'token':>5}  {'recompute':28} {'margin':>7}   {'cached':28} {'margin':>7}")
    shown = fork["step"] - 1 if at is None else at
    for n in range(max(0, shown - 3), min(len(cached), len(recompute), shown + 3)):
        (left, left_margin), (right, right_margin) = recompute[n], cached[n]
        mark = "  <- fork" if n == at else ""
        print(
            f"{n + 1:5}  {left:6} {model.piece(left):21} {left_margin:7.4f}   "
            f"{right:6} {model.piece(right):21} {right_margin:7.4f}{mark}"
        )
    recorded = (fork["step"] - 1, fork["cached"], fork["recompute"])
    if at is None:
        print(f"\nNo fork: both paths gave the same {min(len(cached), len(recompute))} tokens.")
    elif (at, cached[at][0], recompute[at][0]) == recorded:
        print(f"\nThe fork shows at token {at + 1}, into the recorded two tokens.")
        return 0
    else:
        print(f"\nAnother fork, at token {at + 1}; recorded was token {fork['step']}.")
    return 1


def main():
    """Parse the arguments, run, and exit 0, 1 or 2."""
    parser = argparse.ArgumentParser(description=DATA.get("place"))
    parser.add_argument("--model", required=True, help="the model file (GGUF)")
    parser.add_argument("--any-model", action="store_true", help="try it with a file of another SHA-256 too")
    parser.add_argument("--threads", type=int, help="another number of threads than recorded")
    args = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")
    print(f"{DATA['place']}\nmodel {DATA['model'].get('name')}")
    try:
        code = run(args)
    except NotTried as reason:
        print(f"\nCould not be tried. {reason}")
        code = 2
    sys.exit(code)


if __name__ == "__main__":
    main()
