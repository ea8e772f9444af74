"""What somebody may send: nothing of it is written, opened or run, and every refusal is a sentence."""

from __future__ import annotations

import io
import json
import random
import stat
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bundle import container
from app.bundle.format import FORMAT_VERSION
from app.bundle.read import read_bundle
from app.errors import BundleError
from tests.unit.bundle.made_bundles import bundle_in, repacked


@pytest.mark.parametrize(
    "name",
    ["../evil.txt", "/etc/passwd", "pairs/../../evil", "C:\\evil", "a\\b", "pairs/./x", ".hidden", "é.txt",
     "pairs//card.json", "a" * 300, "pairs/01/02/03/04/05", "rtl\u202e.txt"],
)  # fmt: skip
def test_a_name_that_escapes_or_that_no_bundle_has_is_refused(tmp_path: FilePath, name: str) -> None:
    source = bundle_in(tmp_path)
    with pytest.raises(BundleError, match="is refused: its part"):
        read_bundle(repacked(source, tmp_path / "c.zip", {name: b"x"}))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["b.zip", "c.zip"]


def test_a_name_that_ends_earlier_for_other_readers_is_refused(tmp_path: FilePath) -> None:
    data = bundle_in(tmp_path).read_bytes()
    (tmp_path / "c.zip").write_bytes(data.replace(b"report.html", b"report\0html"))
    with pytest.raises(BundleError, match=r"its part 'report\\x00html': its name is not one of a bundle's"):
        read_bundle(tmp_path / "c.zip")


def test_a_link_and_a_folder_are_refused(tmp_path: FilePath) -> None:
    for name, mode in (("report.md", stat.S_IFLNK | 0o777), ("pairs", stat.S_IFDIR | 0o755)):
        with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, mode << 16
            archive.writestr(entry, "/etc/passwd")
        with pytest.raises(BundleError, match="no ordinary file"):
            read_bundle(tmp_path / "c.zip")


def test_a_name_that_stands_there_twice_is_refused_in_any_case(tmp_path: FilePath) -> None:
    for names in (("report.md", "report.md"), ("report.md", "REPORT.md")):
        with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
            warnings.simplefilter("ignore")
            for name in names:
                archive.writestr(name, "x")
        with pytest.raises(BundleError, match="stands there twice"):
            read_bundle(tmp_path / "c.zip")


def test_a_bomb_is_refused_by_its_declared_size_before_anything_is_unpacked(
    tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "c.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("report.md", bytes(container.LARGEST_PART_BYTES + 1))
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(BundleError, match="unpacked it would take 268,435,457 bytes"):
        read_bundle(tmp_path / "c.zip")


def test_many_parts_that_are_too_large_together_are_refused(
    tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "LARGEST_TOTAL_BYTES", 3_000)
    with pytest.raises(BundleError, match="is refused: unpacked it would take"):
        read_bundle(bundle_in(tmp_path))
    monkeypatch.setattr(container, "MOST_PARTS", 3)
    with pytest.raises(BundleError, match="a bundle holds at most 3"):
        read_bundle(bundle_in(tmp_path))


def test_a_bomb_that_lies_about_its_size_gives_no_more_than_it_declares(tmp_path: FilePath) -> None:
    lied = _with_part(zlib.compress(bytes(50_000_000), wbits=-15), declared=100)
    (tmp_path / "c.zip").write_bytes(lied)
    unpacked = container.unpack(tmp_path / "c.zip")
    assert not unpacked.parts
    assert "README.txt" in unpacked.damaged
    with pytest.raises(BundleError, match=r"The part README\.txt of c\.zip is damaged"):
        read_bundle(tmp_path / "c.zip")


def test_a_directory_larger_than_any_bundles_is_not_read(tmp_path: FilePath) -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 600_000_000, 0, 0)
    (tmp_path / "c.zip").write_bytes(b"PK\3\4" + bytes(1000) + end)
    with pytest.raises(BundleError, match="its list of parts takes 600,000,000 bytes"):
        read_bundle(tmp_path / "c.zip")


def test_an_encrypted_part_is_refused(tmp_path: FilePath) -> None:
    data = bytearray(_with_part(b"x" * 20, declared=20))
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "c.zip").write_bytes(data)
    with pytest.raises(BundleError, match="it is encrypted"):
        read_bundle(tmp_path / "c.zip")


@pytest.mark.parametrize("keep", [0, 3, 22, 500, -30, -1])
def test_a_zip_that_is_cut_short_is_a_sentence(tmp_path: FilePath, keep: int) -> None:
    (tmp_path / "c.zip").write_bytes(bundle_in(tmp_path).read_bytes()[:keep])
    with pytest.raises(
        BundleError, match=r"c\.zip is no whole zip: the container is damaged or cut short|cannot be opened"
    ):
        read_bundle(tmp_path / "c.zip")


def test_a_bundle_of_a_newer_forkpoint_is_told_as_such(tmp_path: FilePath) -> None:
    changed = {"format_version": FORMAT_VERSION + 1, "something": "new"}
    with pytest.raises(
        BundleError, match=r"written by a newer Forkpoint \(format 2; this one reads up to 1\)"
    ) as caught:
        read_bundle(_with_manifest(tmp_path, lambda manifest: manifest | changed))
    assert caught.value.hint == "Open it with a newer Forkpoint."


def test_another_zip_is_told_as_such(tmp_path: FilePath) -> None:
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("holiday.txt", "x")
    with pytest.raises(BundleError, match="no Forkpoint bundle"):
        read_bundle(tmp_path / "c.zip")


@pytest.mark.parametrize(
    ("part", "data"),
    [
        ("manifest.json", b"{"),
        ("manifest.json", b"[" * 100_000),
        ("pieces.json", b'{"1": "zz"}'),
        ("pairs/01-made-00/card.json", b"{}"),
        ("pairs/01-made-00/card.json", b'{"comparison": NaN}'),
        ("pairs/01-made-00/cached.jsonl", b""),
        ("pairs/01-made-00/cached.jsonl", b"\n\n"),
        ("pairs/01-made-00/recompute.jsonl", b"\xff\xfe"),
        ("pairs/02-made-01/history.jsonl", b'{"shared_ids": 9, "request": {}}\n'),
        ("pairs/02-made-01/note.txt", b"\xff"),
    ],
)
def test_a_part_that_cannot_be_read_is_named(tmp_path: FilePath, part: str, data: bytes) -> None:
    with pytest.raises(BundleError) as caught:
        read_bundle(repacked(bundle_in(tmp_path), tmp_path / "c.zip", {part: data}))
    assert part in caught.value.message


def test_a_missing_part_and_an_unknown_part_are_named(tmp_path: FilePath) -> None:
    source = bundle_in(tmp_path)
    with pytest.raises(BundleError, match=r"The part pairs/01-made-00/cached\.jsonl of c\.zip is missing"):
        read_bundle(repacked(source, tmp_path / "c.zip", {"pairs/01-made-00/cached.jsonl": None}))
    with pytest.raises(BundleError, match=r"The part evil\.py of c\.zip is not in its manifest"):
        read_bundle(repacked(source, tmp_path / "c.zip", {"evil.py": b"import os"}))


def test_requests_that_do_not_continue_each_other_are_refused(tmp_path: FilePath) -> None:
    source = bundle_in(tmp_path)
    name = "pairs/01-made-00/cached.jsonl"
    with zipfile.ZipFile(source) as archive:
        head, *lines = archive.read(name).splitlines(keepends=True)
    for changed in ([lines[1], lines[0]], lines[1:], [lines[0], lines[0]]):
        with pytest.raises(BundleError, match=rf"The part {name} cannot be read"):
            read_bundle(repacked(source, tmp_path / "c.zip", {name: head + b"".join(changed)}))


def test_a_pair_that_stands_there_twice_is_refused(tmp_path: FilePath) -> None:
    with pytest.raises(BundleError, match="holds one episode twice"):
        read_bundle(_with_manifest(tmp_path, lambda m: m | {"pairs": [m["pairs"][0], m["pairs"][0]]}))


@pytest.mark.parametrize("folder", ["../../etc", "/etc", "pairs/01-x/../..", "pairs/01-\x1b[2J", "pairs/01-\u202e"])
def test_a_manifest_that_names_other_folders_is_refused_and_its_names_are_inert(
    tmp_path: FilePath, folder: str
) -> None:
    with pytest.raises(BundleError, match="names what no bundle holds") as caught:
        read_bundle(_with_manifest(tmp_path, lambda m: m | {"pairs": [folder]}))
    assert caught.value.message.isascii()
    assert caught.value.message.isprintable()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_whatever_is_changed_in_a_part_is_read_or_refused_with_a_sentence(tmp_path: FilePath, seed: int) -> None:
    """Bytes of the data parts exchanged, doubled and dropped behind right CRCs: no other exception, no harm."""
    dice = random.Random(seed)
    source = bundle_in(tmp_path)
    with zipfile.ZipFile(source) as archive:
        name = dice.choice([n for n in archive.namelist() if n.endswith((".json", ".jsonl"))])
        data = bytearray(archive.read(name))
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data))
        match dice.randrange(3):
            case 0:
                data[at] = dice.randrange(256)
            case 1:
                del data[at : at + dice.randint(1, 40)]
            case _:
                data[at:at] = data[at : at + dice.randint(1, 40)]
    try:
        read_bundle(repacked(source, tmp_path / "c.zip", {name: bytes(data)}))
    except BundleError as error:
        assert error.message.endswith(".")


def _with_manifest(folder: FilePath, change: Callable[[dict[str, Any]], dict[str, Any]]) -> FilePath:
    source = bundle_in(folder)
    with zipfile.ZipFile(source) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    return repacked(source, folder / "c.zip", {"manifest.json": json.dumps(change(manifest)).encode()})


def _with_part(packed: bytes, declared: int) -> bytes:
    """A zip of one part whose headers say what they like."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("README.txt", packed)
    data = bytearray(file.getvalue())
    directory = data.index(b"PK\1\2")
    for at, size_at in ((8, 22), (directory + 10, directory + 24)):
        data[at : at + 2] = struct.pack("<H", zipfile.ZIP_DEFLATED)
        data[size_at : size_at + 4] = struct.pack("<L", declared)
    return bytes(data)
