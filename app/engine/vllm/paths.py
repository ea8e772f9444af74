"""How a request is kept from a vLLM server's cache: tried at connect, what disturbs others least first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.engine.base import Gap, StopFlag
from app.engine.http.server import Server
from app.engine.served_answer import Asked
from app.engine.server_settings import ServerSettings
from app.engine.vllm.api import VllmApi
from app.errors import EngineDied, EngineError

_SALT: Final = "a cache_salt of its own for every State"
_SEEN_BY: Final = "Seen by: the cached tokens of a prompt asked twice under one salt and once under another."


class Means(StrEnum):
    """What makes a State's first request a recompute."""

    SALT = "salt"
    OFF = "off"  # the server caches no prefixes
    RESET = "reset"
    CONTROL = "control"
    NONE = "none"


@dataclass(frozen=True)
class Paths:
    """What was found. `salted` and `proven` are None where no counts tell; `control` is the second server, if used."""

    means: Means
    recompute_by: str
    salted: bool | None
    proven: bool | None
    gaps: tuple[Gap, ...]
    sample: Asked
    control: VllmApi | None = None


def find_paths(
    api: VllmApi,
    prompt: Sequence[int],
    salt: str,
    settings: ServerSettings,
    control: Server | None,
    stop: StopFlag | None,
) -> Paths:
    """Ask `prompt`, some hundred ids that fill several blocks, under salts that begin with `salt`.

    With `settings.allow_reset`, and only where salts are ignored, the server's whole cache is dropped. Raises what
    Server raises.
    """

    def ask(name: str) -> Asked:
        return api.complete(prompt, 2, salt=f"{salt}-{name}", stop=stop)

    sample, again, other = ask("one"), ask("one"), ask("other")
    if again.cached is None or other.cached is None:
        gap = Gap("usage.prompt_tokens_details.cached_tokens", "absent, and /metrics does not count them either",
                  "proving what came from the cache (--enable-prompt-tokens-details)")  # fmt: skip
        return Paths(Means.SALT, f"{_SALT}, unproven: the server counts no cached tokens", None, None, (gap,), sample)
    if not again.cached:
        gap = Gap("cached_tokens", f"0 of {len(prompt)} for a prompt asked twice",
                  "a cached path: the server keeps no prefixes (--enable-prefix-caching)")  # fmt: skip
        return Paths(Means.OFF, "the server itself: it keeps no prefixes", None, True, (gap,), sample)
    if not other.cached:
        return Paths(Means.SALT, f"{_SALT}. {_SEEN_BY}", True, True, (), sample)
    ignored = Gap("cache_salt", f"ignored: {other.cached} tokens came from the cache under another salt",
                  "keeping two passes apart without a reset or a second server")  # fmt: skip
    tried = _by_reset(api, ask, settings, stop) or _by_control(api, prompt, salt, control, stop)
    if tried is not None:
        means, words, second = tried
        return Paths(means, words, False, True, (ignored,), sample, second)
    hint = "a recompute path: allow resets (--allow-reset; the server needs VLLM_SERVER_DEV_MODE=1), or name a second "
    gaps = (ignored, Gap("cache_salt", "no other way was found", f"{hint}server without prefix caching"))
    return Paths(Means.NONE, "", False, False, gaps, sample)


_Found = tuple[Means, str, VllmApi | None]


def _by_reset(
    api: VllmApi, ask: Callable[[str], Asked], settings: ServerSettings, stop: StopFlag | None
) -> _Found | None:
    if not settings.allow_reset:
        return None
    try:
        api.reset(stop)
    except EngineDied:
        raise
    except EngineError:  # not in development mode, or busy
        return None
    if ask("one").cached:
        return None
    return Means.RESET, "POST /reset_prefix_cache before every State, since this server ignores cache_salt", None


def _by_control(
    api: VllmApi, prompt: Sequence[int], salt: str, control: Server | None, stop: StopFlag | None
) -> _Found | None:
    """The second server must serve the model under the same name, and must not hit on a prompt that it has seen."""
    if control is None:
        return None
    second = VllmApi(control, api.model, count_by_metrics=api.count_by_metrics)
    asked = [second.complete(prompt, 2, salt=salt, stop=stop) for _ in range(2)]
    if asked[1].cached != 0:
        return None
    return Means.CONTROL, f"a second server without prefix caching, {control.url}, for a State's first request", second
