from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.base import Engine
from app.engine.default_model import default_model
from app.engine.embedded.engine import EmbeddedEngine
from app.engine.settings import EmbeddedSettings
from tests.unit.engine.llama_servers import llama_server, managed_engine, remote_engine, start
from tests.unit.engine.subjects import SUBJECTS, Subject, open_subject

__all__ = ["llama_server", "managed_engine", "remote_engine", "start"]

SETTINGS = EmbeddedSettings(threads=1, n_ctx=1024)


@pytest.fixture(scope="session")
def model_path() -> Path:
    return default_model()


@pytest.fixture(scope="session")
def engine(model_path: Path) -> Iterator[EmbeddedEngine]:
    engine = EmbeddedEngine(model_path, SETTINGS)
    yield engine
    engine.close()


@pytest.fixture
def doomed(model_path: Path) -> Iterator[EmbeddedEngine]:
    """An engine that the test may kill."""
    engine = EmbeddedEngine(model_path, SETTINGS)
    yield engine
    engine.close()


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Every engine in turn, with what it may do differently."""
    return open_subject(request.param, request)


@pytest.fixture
def any_engine(subject: Subject) -> Engine:
    """Every engine in turn."""
    return subject.engine
