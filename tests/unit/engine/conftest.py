from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.default_model import default_model
from app.engine.embedded import EmbeddedEngine
from app.engine.settings import EmbeddedSettings

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
