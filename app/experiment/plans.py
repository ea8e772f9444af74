"""What a run shall do: chosen by a person, kept in the file as JSON, and read back when the run is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path as FilePath
from typing import Any, Literal, TypeVar, get_type_hints
from urllib.parse import urlsplit

from app.engine.base import Sampling
from app.engine.opening import is_url
from app.engine.server_settings import ManagedSettings, ServerSettings
from app.engine.settings import EmbeddedSettings
from app.errors import SettingsError
from app.trajectory.codec import from_json, to_json
from app.trajectory.episode import Episode
from app.workload import builtin
from app.workload.dialogue import MAX_TOKENS
from app.workload.imports import load_episodes

S = TypeVar("S", ServerSettings, ManagedSettings)

MOST_RIVALS = 1000
MOST_TEMPERATURE = 100
MOST_SEED = 2**32 - 2
"""llama.cpp's seeds have 32 bits, and it takes the largest one for "another at every request"."""

SHRINK = "shrink"
"""The kind of an experiment that *Shrink* made: of one pair, whose requests no episode asked."""

DEMO_SECONDS = 180.0
"""How long --until-fork looks for a fork before it says that it found none."""


@dataclass(frozen=True)
class RunRequest:
    """Experiment `pair`: chosen episodes on the cached and the recompute path. `repeat`: on the cached path only.

    A pair's paths run `repeat` times, each time in a server history of its own. A `repeat` serves the cached path
    `repeat` times in one server history, pass after pass, and compares the later ones with the first (STUDY:
    Run-to-run divergence). `engine` is "embedded", "managed" or the URL of a server; `settings` are the embedded
    engine's, `managed` a server's of our own, `server` says how one that runs elsewhere is reached.

    `model` None is the default model. `episodes` is a selection such as "0-7,calendar-02"; `imported` replaces it by a
    conversation recorded elsewhere. The second and later times play the first `repeat_first` episodes only (None:
    all). `rivals` is k. `history` "tokens" keeps the
    ids that the engine sampled, "chat" renders and tokenises the conversation anew at each request, as a chat client
    would. `until_fork` stops at the first pair that forks. `out` None is an unnamed file in the data folder.
    """

    model: FilePath | None = None
    settings: EmbeddedSettings = field(default_factory=EmbeddedSettings)
    sampling: Sampling = field(default_factory=Sampling)
    episodes: str = "0-7"
    imported: FilePath | None = None
    repeat: int = 2
    repeat_first: int | None = None
    rivals: int = 5
    max_tokens: int = MAX_TOKENS
    history: Literal["tokens", "chat"] = "tokens"
    until_fork: bool = False
    out: FilePath | None = None
    engine: str = "embedded"
    kind: Literal["pair", "repeat"] = "pair"
    server: ServerSettings = field(default_factory=ServerSettings)
    managed: ManagedSettings = field(default_factory=ManagedSettings)

    def __post_init__(self) -> None:
        """Raise SettingsError for a value that cannot be run with."""
        if self.kind not in ("pair", "repeat"):
            raise SettingsError(f"There is no experiment {self.kind!r}.", "Known are: pair, repeat.")
        if self.model is not None and is_url(self.engine):
            raise SettingsError("A server that runs elsewhere has its own model.", "Leave --model out.")
        sampling = self.sampling
        for name, value, least, most in (
            ("repeat", self.repeat, 2 if self.kind == "repeat" else 1, inf),
            ("repeat_first", 1 if self.repeat_first is None else self.repeat_first, 1, inf),
            ("rivals", self.rivals, 2, MOST_RIVALS),
            ("max_tokens", self.max_tokens, 1, inf),
            ("temperature", sampling.temperature, 0, MOST_TEMPERATURE),
            ("top_k", sampling.top_k, 0, inf),
            ("top_p", sampling.top_p, 0, 1),
            ("seed", sampling.seed, 0, MOST_SEED),
        ):
            if not least <= value <= most:  # so that NaN is refused too
                to = "or more" if most == inf else f"to {most:,}"
                raise SettingsError(f"{name} is {value}.", f"It must be {least} {to}.")


def loading(request: RunRequest) -> str:
    """What is waited for while the engine of a request opens, as a sentence."""
    if is_url(request.engine):
        return f"Connecting to {without_password(request.engine)}…"
    return "Starting llama-server…" if request.engine == "managed" else "Loading the model…"


def choose(request: RunRequest) -> tuple[Episode, ...]:
    """The episodes that a request names. Raises WorkloadError."""
    if request.imported is not None:
        return load_episodes(request.imported)
    return builtin.select(request.episodes)


def to_plan(request: RunRequest, episodes: tuple[Episode, ...]) -> dict[str, Any]:
    """The request as JSON values, with the imported episodes whole, so that a resumed run asks the same."""
    plan = asdict(request) | {"episode_ids": [episode.id for episode in episodes]}
    plan["engine"] = without_password(request.engine)
    plan["model"] = str(request.model.absolute()) if request.model else None  # a resumed run starts in another folder
    plan["out"] = str(request.out) if request.out else None
    for name in ("server", "managed"):
        plan[name] = {key: _as_json(value) for key, value in plan[name].items()}
    if request.imported is not None:
        plan["imported"] = str(request.imported)
        plan["imported_episodes"] = [to_json(episode) for episode in episodes]
    return plan


def from_plan(plan: Mapping[str, Any]) -> tuple[RunRequest, tuple[Episode, ...]]:
    """What `to_plan` kept. Raises SettingsError or WorkloadError where it cannot be read."""
    try:
        request = RunRequest(
            model=FilePath(plan["model"]) if plan["model"] else None,
            settings=EmbeddedSettings(**plan["settings"]),
            sampling=Sampling(**plan["sampling"]),
            episodes=plan["episodes"],
            repeat=plan["repeat"],
            repeat_first=plan["repeat_first"],
            rivals=plan["rivals"],
            max_tokens=plan["max_tokens"],
            history=plan["history"],
            until_fork=plan["until_fork"],
            engine=plan["engine"],
            kind="pair" if plan["kind"] == SHRINK else plan["kind"],  # to run its request again, not its episodes
            server=_settings(ServerSettings, plan.get("server", {})),  # runs of older versions have neither
            managed=_settings(ManagedSettings, plan.get("managed", {})),
        )
    except (KeyError, TypeError) as error:
        raise SettingsError(f"The plan of this run cannot be read: {error}.", "Start a new run.") from error
    kept = plan.get("imported_episodes")
    if not kept:
        return request, builtin.select(",".join(plan["episode_ids"]))
    episodes = tuple(from_json(value) for value in kept)
    if not all(isinstance(episode, Episode) for episode in episodes):
        raise SettingsError("The imported episodes of this run cannot be read.", "Start a new run.")
    return replace(request, imported=FilePath(plan["imported"])), episodes


def without_password(engine: str) -> str:
    """A server's URL less what may stand before its host: a name and a password."""
    if not is_url(engine) or "@" not in (host := urlsplit(engine).netloc):
        return engine
    return engine.replace(host, host.rpartition("@")[2], 1)


def _as_json(value: object) -> object:
    """A setting as JSON keeps it; files absolute, since a resumed run starts in another folder."""
    return str(value.absolute()) if isinstance(value, FilePath) else list(value) if isinstance(value, tuple) else value


def _settings(cls: type[S], kept: Mapping[str, Any]) -> S:
    hints = get_type_hints(cls)
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else FilePath(value) if value and _is_file(hints[name]) else value
        for name, value in kept.items()
    }
    return cls(**values)


def _is_file(hint: Any) -> bool:
    return bool(hint == FilePath | None)


def repeats_of(request: RunRequest, episodes: tuple[Episode, ...]) -> list[tuple[Episode, ...]]:
    """The episodes of each repeat, the first one included. A prefix, so that a cached repeat has the same history."""
    later = episodes if request.repeat_first is None else episodes[: request.repeat_first]
    return [episodes] + [later] * (request.repeat - 1)
