"""Arrows point down: the import table of ARCHITECTURE.md, enforced."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
APP = ROOT / "app"
FILES = sorted(APP.rglob("*.py"))
OWNED = {  # third-party package -> the only rooms that may import it
    "PySide6": {"views", "application"},
    "pyqtgraph": {"views", "application"},
    "sqlite3": {"store"},
    "sqlite_utils": {"store"},
    "llama_cpp": {"engine"},
    "gguf": {"engine"},
    "httpx": {"engine"},
    "jinja2": {"workload", "bundle"},
    "click": {"cli"},
    "click_default_group": {"cli"},
    "scipy": {"experiment"},
    "platformdirs": {"paths"},
}


def room_of(module: str) -> str:
    """app.views.ruler -> views; app.cli -> cli; app -> app."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "app" else [node.module]
            yield from (name for name in names if name)


def allowed() -> dict[str, set[str]]:
    """Read the table of ARCHITECTURE.md: | `room` | may import |."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, flags=re.MULTILINE)
    assert rows, "ARCHITECTURE.md has lost its table of rooms"
    return {room: set(re.findall(r"`(\w+)`", names)) for room, names in rows}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_imports_only_what_its_room_may(file: Path) -> None:
    room = room_of(".".join(file.relative_to(ROOT).with_suffix("").parts))
    table = allowed()
    assert room in table or room == "__init__", f"ARCHITECTURE.md does not name the room {room}"
    for name in imports(file):
        if name.split(".")[0] == "app":
            target = room_of(name)
            assert target in {room, "app", "__version__"} | table[room], f"{room} may not import {name}"
        owners = OWNED.get(name.split(".")[0])
        assert owners is None or room in owners, f"{room} may not import {name}"


def test_every_room_is_in_the_table() -> None:
    rooms = {room_of(".".join(file.relative_to(ROOT).with_suffix("").parts)) for file in FILES} - {"__init__"}
    assert rooms <= set(allowed())


def test_the_session_loads_no_engine_and_no_qt() -> None:
    code = "import sys, app.session; print(sorted({'PySide6', 'httpx', 'llama_cpp'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_file_is_longer_than_400_lines(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 400
