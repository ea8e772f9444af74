"""A folder and a person for tests of what may not be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest


@pytest.fixture
def public_folder() -> Iterator[FilePath]:
    """A folder that a person without rights can reach."""
    with tempfile.TemporaryDirectory() as name:
        FilePath(name).chmod(0o755)
        yield FilePath(name)


@pytest.fixture
def no_rights() -> Iterator[None]:
    """Root may write anywhere; whoever runs the tests as root becomes nobody meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
