from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest

from app.bundle.container import CONTAINER, pack, unpack
from app.bundle.format import BundleContents
from app.bundle.verify import verify_bundle
from app.bundle.write import parts_of
from tests.unit.bundle.made_bundles import EXTRA, bundle_in, contents_of_two_pairs, repacked

NAMES = sorted(parts_of(contents_of_two_pairs(), EXTRA))


def test_a_bundle_as_it_was_written_is_whole(tmp_path: FilePath) -> None:
    found = verify_bundle(bundle_in(tmp_path))
    assert (found.state, found.findings) == ("whole", {})
    assert found.comparisons == {"made-00": "", "made-01": ""}
    assert found.sentence == "Whole: every checksum is right, and comparing 2 pairs anew says the same."


@pytest.mark.parametrize("name", NAMES)
def test_each_part_that_is_altered_behind_a_right_crc_is_named(tmp_path: FilePath, name: str) -> None:
    source = bundle_in(tmp_path)
    with zipfile.ZipFile(source) as archive:
        data = archive.read(name)
    digit = next(at for at, byte in reversed(list(enumerate(data))) if chr(byte).isalnum())
    altered = data[:digit] + (b"7" if data[digit] != ord("7") else b"8") + data[digit + 1 :]
    found = verify_bundle(repacked(source, tmp_path / "c.zip", {name: altered}))
    assert found.state in ("altered", "unreadable")
    assert name in found.findings


@pytest.mark.parametrize("name", NAMES)
def test_each_part_that_is_left_out_is_named(tmp_path: FilePath, name: str) -> None:
    found = verify_bundle(repacked(bundle_in(tmp_path), tmp_path / "c.zip", {name: None}))
    assert found.state == ("unreadable" if name == "manifest.json" else "altered")
    assert name in found.findings


def test_one_byte_changed_anywhere_is_seen_and_its_part_named(tmp_path: FilePath) -> None:
    """Bytes all over the zip, headers and seal included: those of a packed part name that part.

    But for the bits that fill up the last byte of a packed part: they change nothing in it, and name the container.
    """
    data = bundle_in(tmp_path).read_bytes()
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        packed = {
            at: entry.filename
            for entry in archive.infolist()
            for begin in (entry.header_offset + 30 + len(entry.filename),)
            for at in range(begin, begin + entry.compress_size)
        }
    copy, parts = tmp_path / "c.zip", unpack(tmp_path / "b.zip").parts
    for at in range(0, len(data), 7):
        copy.write_bytes(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
        found = verify_bundle(copy)
        assert found.state != "whole", f"byte {at}"
        assert found.findings, f"byte {at}"
        if at in packed and packed[at] not in found.findings:
            assert list(found.findings) == [CONTAINER]
            assert unpack(copy).parts == parts, f"byte {at}"


def test_bytes_before_and_after_the_zip_are_seen(tmp_path: FilePath) -> None:
    data = bundle_in(tmp_path).read_bytes()
    for changed in (b"#!/bin/sh\n" + data, data + b"\n"):
        (tmp_path / "c.zip").write_bytes(changed)
        found = verify_bundle(tmp_path / "c.zip")
        assert found.state != "whole"
        assert CONTAINER in found.findings


def test_a_bundle_that_another_program_packed_anew_is_altered_in_its_container_only(tmp_path: FilePath) -> None:
    found = verify_bundle(repacked(bundle_in(tmp_path), tmp_path / "c.zip", {}))
    assert found.state == "altered"
    assert list(found.findings) == [CONTAINER]
    assert "packed anew by another program" in found.findings[CONTAINER]
    assert set(found.comparisons.values()) == {""}


def test_an_unknown_part_is_named(tmp_path: FilePath) -> None:
    found = verify_bundle(repacked(bundle_in(tmp_path), tmp_path / "c.zip", {"evil.py": b"import os"}))
    assert found.findings["evil.py"] == "is not in its manifest"


@pytest.mark.parametrize("data", [b"", b"PK", b"no zip at all" * 100])
def test_what_is_no_zip_is_unreadable(tmp_path: FilePath, data: bytes) -> None:
    (tmp_path / "c.zip").write_bytes(data)
    found = verify_bundle(tmp_path / "c.zip")
    assert (found.state, list(found.findings), found.contents) == ("unreadable", [CONTAINER], None)
    assert found.sentence.startswith("Unreadable: the container")


def test_a_file_that_is_not_there_is_unreadable(tmp_path: FilePath) -> None:
    assert verify_bundle(tmp_path / "nowhere.zip").state == "unreadable"


def test_a_newer_manifest_is_unreadable_and_says_why(tmp_path: FilePath) -> None:
    source = bundle_in(tmp_path)
    with zipfile.ZipFile(source) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    newer = json.dumps(manifest | {"format_version": 9}).encode()
    found = verify_bundle(repacked(source, tmp_path / "c.zip", {"manifest.json": newer}))
    assert found.state == "unreadable"
    assert "written by a newer Forkpoint" in found.findings["manifest.json"]


def sealed(contents: BundleContents, folder: FilePath) -> FilePath:
    """A bundle whose every checksum is right, whatever its cards say."""
    file = folder / "forged.zip"
    file.write_bytes(pack(parts_of(contents, EXTRA)))
    return file


def test_a_card_that_does_not_say_what_its_runs_say_is_named_though_every_checksum_is_right(tmp_path: FilePath) -> None:
    contents = contents_of_two_pairs()
    part = contents.pairs[0]
    card, verdict = part.pair.comparison, part.pair.verdict
    assert card.fork is not None
    for name, pair in (
        ("fork is 2:6, not 3:6", replace(part.pair, comparison=replace(card, fork=replace(card.fork, request=2)))),
        ("drift_max is", replace(part.pair, comparison=replace(card, drift_max=0.5))),
        ("what changed with the fork", replace(part.pair, comparison=replace(card, outcome_changed=True))),
        ("the verdict is", replace(part.pair, verdict=replace(verdict, code="S"))),
        ("the verdict is", replace(part.pair, verdict=replace(verdict, headline="All is well."))),
    ):
        forged = replace(contents, pairs=(replace(part, pair=pair), contents.pairs[1]))
        found = verify_bundle(sealed(forged, tmp_path))
        assert found.state == "altered"
        assert list(found.findings) == ["pairs/01-made-00/card.json"]
        assert name in found.comparisons["made-00"]
        assert found.comparisons["made-01"] == ""


def test_a_logprob_that_was_changed_with_its_checksums_contradicts_its_card(tmp_path: FilePath) -> None:
    contents = contents_of_two_pairs()
    part = contents.pairs[0]
    first = part.pair.cached.requests[0]
    logprobs = first.steps.logprobs.copy()
    logprobs[0] -= np.float32(2)
    requests = (replace(first, steps=replace(first.steps, logprobs=logprobs)), *part.pair.cached.requests[1:])
    pair = replace(part.pair, cached=replace(part.pair.cached, requests=requests))
    found = verify_bundle(sealed(replace(contents, pairs=(replace(part, pair=pair),)), tmp_path))
    assert "drift_max is 2" in found.comparisons["made-00"] or "drift_max is 1.9" in found.comparisons["made-00"]


def test_another_version_may_word_its_verdict_otherwise_but_not_judge_otherwise(tmp_path: FilePath) -> None:
    contents = contents_of_two_pairs()
    part = contents.pairs[0]
    reworded = replace(part.pair, verdict=replace(part.pair.verdict, headline="It forked, so to speak."))
    other = replace(contents, app_version="0.0.9", pairs=(replace(part, pair=reworded),))
    assert verify_bundle(sealed(other, tmp_path)).state == "whole"
    rejudged = replace(part.pair, verdict=replace(part.pair.verdict, code="P"))
    assert verify_bundle(sealed(replace(other, pairs=(replace(part, pair=rejudged),)), tmp_path)).state == "altered"
