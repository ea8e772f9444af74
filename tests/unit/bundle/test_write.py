from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path as FilePath

import pytest

from app.bundle.format import BundleContents
from app.bundle.read import read_bundle
from app.bundle.write import preview, write_bundle
from app.errors import BundleError
from app.trajectory.codec import to_json
from tests.builders import forked_pair_of_trajectories
from tests.unit.bundle.made_bundles import EXTRA, bundle_in, contents_of_two_pairs, pair_of

MODULE = "tests.unit.bundle.interrupted"


def same(left: BundleContents, right: BundleContents) -> bool:
    """Bit for bit: arrays have no equality of their own."""
    assert [vars(left)[k] for k in vars(left) if k != "pairs"] == [vars(right)[k] for k in vars(right) if k != "pairs"]
    for one, other in zip(left.pairs, right.pairs, strict=True):
        assert to_json(one.pair.cached) == to_json(other.pair.cached)
        assert to_json(one.pair.recompute) == to_json(other.pair.recompute)
        assert list(map(to_json, one.history)) == list(map(to_json, other.history))
        assert (one.pair.comparison, one.pair.verdict) == (other.pair.comparison, other.pair.verdict)
        assert (one.cached_pass, one.recompute_pass) == (other.cached_pass, other.recompute_pass)
        assert (one.note, one.log_excerpt) == (other.note, other.log_excerpt)
        assert one.pair.pieces.items() <= other.pair.pieces.items()
    return True


def test_what_is_read_is_what_was_written_bit_for_bit(tmp_path: FilePath) -> None:
    contents = contents_of_two_pairs()
    assert same(contents, read_bundle(bundle_in(tmp_path, contents)))


def test_the_same_contents_give_the_same_bytes(tmp_path: FilePath) -> None:
    first = bundle_in(tmp_path).read_bytes()
    assert bundle_in(tmp_path).read_bytes() == first


def test_the_preview_is_exactly_what_is_written(tmp_path: FilePath) -> None:
    lines = preview(contents_of_two_pairs(), EXTRA)
    with zipfile.ZipFile(bundle_in(tmp_path)) as archive:
        assert archive.namelist() == [line.name for line in lines]
        assert [archive.read(line.name) for line in lines] == [line.data for line in lines]
    assert all(line.what and line.size == len(line.data) and line.text for line in lines)


def test_sha256sum_can_check_an_unpacked_bundle(tmp_path: FilePath) -> None:
    with zipfile.ZipFile(bundle_in(tmp_path)) as archive:
        lines = archive.read("SHA256SUMS").decode().splitlines()
        assert {line.split("  ")[1] for line in lines} == set(archive.namelist()) - {"SHA256SUMS"}
        assert all(line.split("  ")[0] == sha256(archive.read(line.split("  ")[1])).hexdigest() for line in lines)


def test_a_file_that_is_there_is_replaced_only_when_told_so(tmp_path: FilePath) -> None:
    target = tmp_path / "b.zip"
    with zipfile.ZipFile(target, "w") as other:
        other.writestr("mine", "")
    before = target.read_bytes()
    with pytest.raises(BundleError, match=r"b\.zip exists already"):
        write_bundle(contents_of_two_pairs(), target)
    assert target.read_bytes() == before
    write_bundle(contents_of_two_pairs(), target, replace=True)
    assert "mine" not in zipfile.ZipFile(target).namelist()


def test_nothing_but_a_zip_or_an_empty_file_is_replaced(tmp_path: FilePath) -> None:
    target = tmp_path / "mine.forkpoint"
    target.write_bytes(b"SQLite format 3\0")
    with pytest.raises(BundleError, match=r"mine\.forkpoint is no bundle, so it is not replaced"):
        write_bundle(contents_of_two_pairs(), target, replace=True)
    with pytest.raises(BundleError, match="is no bundle"):
        write_bundle(contents_of_two_pairs(), tmp_path, replace=True)
    assert target.read_bytes() == b"SQLite format 3\0"
    assert list(tmp_path.iterdir()) == [target]
    (tmp_path / "new.zip").touch()
    assert write_bundle(contents_of_two_pairs(), tmp_path / "new.zip", replace=True) > 0


def test_a_full_disk_leaves_no_half_bundle_and_no_rubbish(tmp_path: FilePath) -> None:
    before = bundle_in(tmp_path).read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "full", str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "b.zip cannot be written: the disk is full" in done.stdout
    assert [file.name for file in tmp_path.iterdir()] == ["b.zip"]
    assert (tmp_path / "b.zip").read_bytes() == before


def test_a_killed_export_leaves_the_bundle_that_was_there(tmp_path: FilePath) -> None:
    before = bundle_in(tmp_path).read_bytes()
    done = subprocess.run([sys.executable, "-m", MODULE, "killed", str(tmp_path)], check=False)
    assert done.returncode == -9
    assert (tmp_path / "b.zip").read_bytes() == before
    assert [file.name for file in tmp_path.glob("*.zip")] == ["b.zip"]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: FilePath) -> None:
    with pytest.raises(BundleError, match=r"b\.zip cannot be written: No such file or directory"):
        write_bundle(contents_of_two_pairs(), tmp_path / "nowhere" / "b.zip")


def test_a_bundle_has_the_rights_of_any_new_file(tmp_path: FilePath) -> None:
    (tmp_path / "other").touch()
    assert bundle_in(tmp_path).stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_file_that_no_bundle_holds_is_refused(tmp_path: FilePath) -> None:
    for name in ("../report.html", "pairs/01-x/evil.exe", "report.html/x", "pairs/01-x/../repro.sh"):
        with pytest.raises(BundleError, match="no file that a bundle may hold"):
            write_bundle(contents_of_two_pairs(), tmp_path / "b.zip", {name: "x"})


def test_nothing_of_the_model_is_inside_but_its_name_size_and_digest(tmp_path: FilePath) -> None:
    model = read_bundle(bundle_in(tmp_path)).environment["model"]
    assert (model["name"], model["size_bytes"], model["sha256"]) == ("made.gguf", 98_362_432, "b1" * 32)


def test_a_pair_of_fifteen_requests_is_well_under_a_megabyte(tmp_path: FilePath) -> None:
    contents = contents_of_two_pairs()
    pair = pair_of(*forked_pair_of_trajectories(requests=15, steps_each=64))
    file = bundle_in(tmp_path, replace(contents, pairs=(replace(contents.pairs[0], pair=pair),)))
    assert file.stat().st_size < 300_000
