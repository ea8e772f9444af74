#!/usr/bin/env python3
"""One request answered twice by a server: with its prompt's beginning taken from the cache, and without a cache.

Needs the standard library only. Start the server as the first lines of the output say, then:

    python repro_server.py --url http://127.0.0.1:8080

First the warm-up history is asked, then the request (cached path), then the request again, kept from the cache
(recompute path). Exits 0 where the two answers part at the recorded token, into the recorded two tokens; 1 where they
do not; 2 where it could not be tried. Nobody else may use the server meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request

# --- data: written by Forkpoint ---
DATA = json.loads(r"""{}""")
# --- end of data ---


class NotTried(Exception):
    """Why it could not be tried."""


class Server:
    """A server, asked with token ids."""

    def __init__(self, url, key, timeout):
        self.url, self.key, self.timeout = url.rstrip("/"), key, timeout

    def post(self, path, body):
        """The JSON object that answers `body`."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise NotTried(f"The server answered {error.code}: {error.read(500).decode(errors='replace')}") from error
        except (OSError, ValueError) as error:
            raise NotTried(f"No usable answer from {self.url}: {error}") from error


class LlamaServer(Server):
    """llama-server: the cache is slot 0, a request says itself whether it may use it."""

    def ask(self, prompt, most, path):
        """Answer ids, and how many prompt tokens came from the cache. `path` is "first", "cached" or "recompute"."""
        sampling = DATA["sampling"]
        greedy = sampling["temperature"] <= 0
        body = {
            "prompt": prompt,
            "n_predict": most,
            "cache_prompt": path == "cached",
            "id_slot": 0,
            "stream": False,
            "return_tokens": True,
            "n_probs": DATA["rivals"],
            "samplers": ["top_k", "top_p", "temperature"],
            "temperature": sampling["temperature"],
            "top_k": 1 if greedy else sampling["top_k"],
            "top_p": 1.0 if greedy else sampling["top_p"],
            "seed": sampling["seed"],
        }
        reply = self.post("/completion", body)
        ids, timings = reply.get("tokens"), reply.get("timings", {})
        if not ids:
            raise NotTried(
                "The answer holds no token ids: this is no llama-server, or one that knows no return_tokens."
            )
        return ids, timings.get("cache_n")


class Vllm(Server):
    """vLLM: a cache salt keeps conversations apart; a new one is an empty cache."""

    def __init__(self, url, key, timeout):
        super().__init__(url, key, timeout)
        self.salt = os.urandom(8).hex()
        self.model = self.served_model()

    def served_model(self):
        """The name under which the server serves its model."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.url + "/v1/models", headers=headers), timeout=self.timeout
            ) as reply:
                return json.load(reply)["data"][0]["id"]
        except (OSError, ValueError, LookupError) as error:
            raise NotTried(f"No usable answer from {self.url}: {error}") from error

    def ask(self, prompt, most, path):
        """Answer ids, and how many prompt tokens came from the cache. `path` is "first", "cached" or "recompute"."""
        sampling = DATA["sampling"]
        greedy = sampling["temperature"] <= 0
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": most,
            "temperature": sampling["temperature"],
            "top_k": -1 if greedy else sampling["top_k"],
            "top_p": 1.0 if greedy else sampling["top_p"],
            "seed": sampling["seed"],
            "logprobs": DATA["rivals"],
            "return_token_ids": True,
            "cache_salt": os.urandom(8).hex() if path == "recompute" else self.salt,
        }
        reply = self.post("/v1/completions", body)
        choice = (reply.get("choices") or [{}])[0]
        details = (reply.get("usage") or {}).get("prompt_tokens_details") or {}
        if not choice.get("token_ids"):
            raise NotTried("The answer holds no token ids: this is no vLLM, or too old a one.")
        return choice["token_ids"], details.get("cached_tokens")


def run(args):
    """Both paths; returns the exit code."""
    key = os.environ.get(args.key_env, "") if args.key_env else ""
    server = {"llama-server": LlamaServer, "vllm": Vllm}[DATA["server"]](args.url, key, args.timeout)
    print("warm-up")
    path = "first"
    for request in DATA["history"]:
        ids, count = server.ask(request["prompt"], request["max_tokens"], path)
        at = first_difference(ids, request["answer"])
        said = "" if at is None else f"  (another answer than recorded, from token {at + 1})"
        print(f"  {request['name']:22} {counted(count, request['prompt'])}{said}")
        path = "cached"
    cached, count = server.ask(DATA["prompt"], DATA["max_tokens"], path)
    recompute, none = server.ask(DATA["prompt"], DATA["max_tokens"], "recompute")
    print(f"the request, {len(DATA['prompt'])} prompt tokens")
    print(f"  {'cached path':22} {counted(count, DATA['prompt'])}")
    print(f"  {'recompute path':22} {counted(none, DATA['prompt'])}\n")
    return report(cached, recompute, count, none)


def counted(cached, prompt):
    """The counts of a request, as the server reported them."""
    return "cached: not reported" if cached is None else f"{cached:6} cached {len(prompt) - cached:6} evaluated"


def first_difference(left, right):
    """Where two answers part, from 0; None where the shorter one is how the longer one begins."""
    return next((n for n, (a, b) in enumerate(zip(left, right)) if a != b), None)  # noqa: B905


def report(cached, recompute, count, none):
    """Print the ids around the fork, say what was found, and return the exit code."""
    fork = DATA["fork"]
    at = first_difference(cached, recompute)
    print(f"{'token':>5}  {'recompute':>9}  {'cached':>9}")
    shown = fork["step"] - 1 if at is None else at
    for n in range(max(0, shown - 3), min(len(cached), len(recompute), shown + 3)):
        print(f"{n + 1:5}  {recompute[n]:9}  {cached[n]:9}{'  <- fork' if n == at else ''}")
    print()
    if none:
        raise NotTried(f"The recompute path took {none} tokens from the cache.")
    if None not in (count, DATA["cached"]) and count != DATA["cached"]:
        raise NotTried(f"The cached path took {count} tokens from the cache; recorded were {DATA['cached']}.")
    if at is not None and (at + 1, cached[at], recompute[at]) == (fork["step"], fork["cached"], fork["recompute"]):
        print(f"The fork shows at token {at + 1}, into the recorded two tokens.")
        return 0
    if at is not None:
        print(f"Another fork, at token {at + 1}; recorded was token {fork['step']}.")
    else:
        print(f"No fork: both paths gave the same {min(len(cached), len(recompute))} tokens.")
    return 1


def main():
    """Parse the arguments, run, and exit 0, 1 or 2."""
    parser = argparse.ArgumentParser(description=DATA.get("place"))
    parser.add_argument("--url", default=DATA.get("url"), help="where the server listens (%(default)s)")
    parser.add_argument("--key-env", help="the environment variable that holds the API key")
    parser.add_argument("--timeout", type=float, default=600, help="seconds to wait for an answer (%(default)s)")
    args = parser.parse_args()
    print(f"{DATA['place']}\nmodel {DATA['model'].get('name')}\n{DATA['ran']}\nstarted by: {DATA['launch']}\n")
    try:
        code = run(args)
    except NotTried as reason:
        print(f"\nCould not be tried. {reason}")
        code = 2
    sys.exit(code)


if __name__ == "__main__":
    main()
