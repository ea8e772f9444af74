"""What a run shall do: chosen by a person, kept in the file as JSON, and read back when the run is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path as FilePath
from typing import Any, Literal

from app.engine.base import Sampling
from app.engine.settings import EmbeddedSettings
from app.errors import SettingsError
from app.trajectory.codec import from_json, to_json
from app.trajectory.episode import Episode
from app.workload import builtin
from app.workload.dialogue import MAX_TOKENS
from app.workload.imports import load_episodes

MOST_RIVALS = 1000
MOST_TEMPERATURE = 100
MOST_SEED = 2**32 - 2
"""llama.cpp's seeds have 32 bits, and it takes the largest one for "another at every request"."""

DEMO_SECONDS = 180.0
"""How long --until-fork looks for a fork before it says that it found none."""


@dataclass(frozen=True)
class RunRequest:
    """Experiment `pair`: chosen episodes on the cached and the recompute path.

    `model` None is the default model. `episodes` is a selection such as "0-7,calendar-02"; `imported` replaces it by a
    conversation recorded elsewhere. Each path runs `repeat` times from an empty state in the same order, the second
    and later times over the first `repeat_first` episodes only (None: all). `rivals` is k. `history` "tokens" keeps the
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

    def __post_init__(self) -> None:
        sampling = self.sampling
        for name, value, least, most in (
            ("repeat", self.repeat, 1, inf),
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


def choose(request: RunRequest) -> tuple[Episode, ...]:
    """The episodes that a request names. Raises WorkloadError."""
    if request.imported is not None:
        return load_episodes(request.imported)
    return builtin.select(request.episodes)


def to_plan(request: RunRequest, episodes: tuple[Episode, ...]) -> dict[str, Any]:
    """The request as JSON values, with the imported episodes whole, so that a resumed run asks the same."""
    plan = asdict(request) | {"kind": "pair", "episode_ids": [episode.id for episode in episodes]}
    plan["model"] = str(request.model.absolute()) if request.model else None  # a resumed run starts in another folder
    plan["out"] = str(request.out) if request.out else None
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


def repeats_of(request: RunRequest, episodes: tuple[Episode, ...]) -> list[tuple[Episode, ...]]:
    """The episodes of each repeat, the first one included. A prefix, so that a cached repeat has the same history."""
    later = episodes if request.repeat_first is None else episodes[: request.repeat_first]
    return [episodes] + [later] * (request.repeat - 1)
