"""What is pasted into an issue."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.views.evidence import evidence
from tests.builders import forked_pair_of_trajectories
from tests.views.fakes import EXPERIMENT, pair_of
from tests.views.made_windows import FILE, MakeWindow, bench_of, trigger


def test_the_verdict_comes_with_the_proof_of_reuse_and_the_settings() -> None:
    pair = pair_of(*forked_pair_of_trajectories())
    lines = evidence(pair, EXPERIMENT).splitlines()
    assert lines[0] == f"made-00: {pair.verdict.headline}"
    assert lines[2] == f"[{pair.verdict.code}] {pair.verdict.rule}"
    assert lines[3] == (
        "cached path, request 3: 112 prompt tokens, 106 from cache, 6 evaluated in chunks of 6, 106 held before"
    )
    assert lines[4].startswith("recompute path, request 3: 112 prompt tokens, 0 from cache, 112 evaluated")
    assert lines[5].endswith("embedded · llama.cpp 0c1e570 · 2 threads · n_ubatch 512 · KV f16 · flash attention off")


def test_what_was_not_reported_is_said_to_be_so_and_a_missing_request_too() -> None:
    cached, recompute = forked_pair_of_trajectories()
    report = cached.requests[2].report
    assert report is not None
    silent = replace(cached.requests[2], report=replace(report, cached_tokens=None))
    longer = replace(cached, requests=(*cached.requests[:2], silent))
    text = evidence(pair_of(longer, replace(recompute, requests=recompute.requests[:2])), EXPERIMENT)
    assert "not reported from cache" in text
    assert "recompute path: no request 3" in text


def test_copying_says_what_is_on_the_clipboard(make_window: MakeWindow, qtbot: QtBot) -> None:
    window, _ = make_window()
    window.open_file(FILE)
    trigger(window, "copy_verdict")
    assert "from cache" in QGuiApplication.clipboard().text()
    assert window.said_words.text().startswith("Copied the verdict")
    trigger(window, "copy_ids")
    assert window.said_words.text() == f"Copied: {QGuiApplication.clipboard().text()}"
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    bench_of(window).table.view.setFocus()
    trigger(window, "copy")
    assert QGuiApplication.clipboard().text().startswith("◆\tunits-01\t3:17")
