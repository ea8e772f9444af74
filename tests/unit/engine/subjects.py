"""The engines that the contract suite runs for, and in what they may differ; an engine joins by a line here."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.engine.base import Engine
from app.engine.scripted import ScriptedEngine, steps_of
from tests.unit.engine.block_servers import IN_MEMORY, open_in_memory

LONG_ANSWER = steps_of("The elephant is the largest of them. " * 40, [0.04, 1.5])


@dataclass(frozen=True)
class Subject:
    """`streams`: steps come while the answer is made, not all at its end. `last_steps`: how many fit after a prompt of
    three tokens less than the context. `tells_chunks`: reports say how the prefill was split."""

    engine: Engine
    streams: bool = True
    last_steps: int = 4
    tells_chunks: bool = True


SUBJECTS = (
    "scripted",
    "vllm in memory",
    "sglang in memory",
    pytest.param("embedded", marks=pytest.mark.model),
    pytest.param("managed llama-server", marks=pytest.mark.model),
    pytest.param("remote llama-server", marks=pytest.mark.model),
)


def open_subject(name: str, request: pytest.FixtureRequest) -> Subject:
    """The subject of that name, over the session's one real engine of its kind."""
    if name == "embedded":
        return Subject(request.getfixturevalue("engine"))
    if name == "managed llama-server":
        return Subject(request.getfixturevalue("managed_engine"), streams=False, last_steps=3, tells_chunks=False)
    if name == "remote llama-server":
        return Subject(request.getfixturevalue("remote_engine"), streams=False, last_steps=3, tells_chunks=False)
    if name in IN_MEMORY:
        return Subject(open_in_memory(name, request), streams=False, last_steps=3, tells_chunks=False)
    return Subject(ScriptedEngine([LONG_ANSWER], n_ctx=1024))
