from __future__ import annotations

import dataclasses
from pathlib import Path as FilePath

from app.bundle.format import FORMAT_VERSION, Card, HistoryLine, Manifest, Part, RequestLine, folder_of
from app.bundle.names import describe
from app.bundle.write import parts_of
from tests.unit.bundle.made_bundles import EXTRA, contents_of_two_pairs

PAGE = FilePath(__file__).parents[3] / "resources" / "help" / "bundle-format.md"


def test_the_page_describes_every_file_of_a_bundle() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"This is version {FORMAT_VERSION}." in page
    for name in [*parts_of(contents_of_two_pairs(), EXTRA), "x/repro_embedded.py", "x/repro_server.py", "x/repro.sh"]:
        assert f"{name.rpartition('/')[2]}`" in page, f"{name} is not on the page"


def test_the_page_names_every_field_of_every_object() -> None:
    sections = {part.split("\n")[0].strip("` "): part for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]}
    for kind in (Manifest, Part, Card, RequestLine, HistoryLine):
        for field in dataclasses.fields(kind):
            assert f"`{field.name}`" in sections[kind.__name__], f"{kind.__name__}.{field.name} is not on the page"


def test_a_folder_is_named_so_that_every_system_can_unpack_it() -> None:
    assert folder_of(1, "calendar-02") == "pairs/01-calendar-02"
    assert folder_of(12, "../../a b\u202e/\n") == "pairs/12-.._.._a_b___"
    assert len(folder_of(3, "x" * 500)) < 80
    assert describe(f"{folder_of(100, 'é')}/card.json")
