"""What is copied from the token panes, what is found in them, and hostile pieces."""

from __future__ import annotations

import json
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest

from app.trajectory.step import Rival, Step
from app.trajectory.trajectory import Path, Trajectory
from app.views.pane_hits import hit
from app.views.pane_menu import pane_menu
from app.views.pane_pair import PanePair
from tests.builders import request, step, trajectory
from tests.views.made_panes import place_in_view

# Copying and finding


def test_dragged_tokens_are_copied_as_text_tokens_ids_and_rows(
    opened: PanePair, pair: tuple[Trajectory, Trajectory]
) -> None:
    view = opened.panes[Path.RECOMPUTE].viewport()
    begin, end = (place_in_view(opened, Path.RECOMPUTE, (3, index)) for index in (4, 7))
    QTest.mousePress(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, begin)
    QTest.mouseMove(view, end)
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, end)
    steps = pair[1].requests[3].steps
    assert json.loads(opened.copy_selection("ids")) == steps.token_ids[4:8].tolist()
    assert opened.copy_selection("text") == b"".join(steps.piece(index) for index in range(4, 8)).decode()
    assert len(opened.copy_selection("tokens").split(" ")) == 4
    header, *rows = opened.copy_selection("rows").splitlines()
    assert header.split("\t")[:3] == ["path", "request", "step"]
    assert [row.split("\t")[:4] for row in rows] == [
        ["recompute", "4", str(index + 1), str(steps.token_ids[index])] for index in range(4, 8)
    ]
    assert QGuiApplication.clipboard().text() == opened.copy_selection("rows")


def test_a_selection_over_requests_copies_what_lies_between(opened: PanePair) -> None:
    pane = opened.panes[Path.CACHED]
    QTest.keyClick(pane, Qt.Key.Key_End)
    QTest.keyClick(pane, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClick(pane, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert len(json.loads(opened.copy_selection("ids"))) == 3


def test_without_a_selection_the_token_at_the_cursor_is_copied(
    opened: PanePair, pair: tuple[Trajectory, Trajectory]
) -> None:
    assert json.loads(opened.copy_selection("ids")) == [int(pair[0].requests[3].steps.token_ids[16])]
    QTest.keyClick(opened.panes[Path.CACHED], Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == pair[0].requests[3].steps.piece(16).decode()


def test_the_menu_copies_a_whole_message_and_folds(opened: PanePair) -> None:
    layout = opened._layout
    row = layout.row_of(3)
    (_, paragraph, top), *_ = layout.paragraphs(Path.CACHED, layout.rows[row])
    found = hit(layout, Path.CACHED, 100, float(layout.tops[row]) + top + 2)
    toggled: list[int] = []
    menu = pane_menu(opened, layout, found, opened.copy_selection, toggled.append)
    actions = {action.text(): action for action in menu.actions()}
    actions["Copy this message"].trigger()
    assert QGuiApplication.clipboard().text() == paragraph.text
    actions["Fold"].trigger()
    assert toggled == [row]


def test_find_walks_every_place_forwards_and_back_and_stops_at_the_ends(panes: PanePair) -> None:
    def side(path: Path, *answers: str) -> Trajectory:
        requests = [
            request(index, range(9), [step(i, piece=piece.encode()) for i, piece in enumerate(answer.split("|"))])
            for index, answer in enumerate(answers)
        ]
        return trajectory(requests, path=path, id=1 + (path is Path.RECOMPUTE))

    panes.show_pair(
        side(Path.CACHED, "a|Tues|day|b", "x|tuesday"), side(Path.RECOMPUTE, "a|Tues|day|b", "x|y"), None, {}
    )
    seen = []
    panes.cursor_moved.connect(lambda request, step: seen.append((request, step)))
    assert [panes.find("TUESDAY", "both") for _ in range(4)] == [True, True, True, False]
    assert seen == [(0, 1), (1, 1)]
    assert panes.copy_selection("text") == "tuesday"
    assert [panes.find("tuesday", "both", backwards=True) for _ in range(3)] == [True, True, False]
    assert panes.copy_selection("tokens") == "Tues day"
    panes.set_cursor(0, 0)
    assert [panes.find("tuesday", "recompute") for _ in range(2)] == [True, False]
    assert not panes.find("", "both")
    assert not panes.find("absent", "cached")


# Hostile model text


def test_hostile_pieces_are_painted_hovered_and_copied_without_harm(panes: PanePair) -> None:
    pieces = [b"\xe2", "\u202egnp".encode(), b"\x1b[31m", b"", b"x" * 10_000, b"<img src=x>", "\u0301".encode(), b"\n"]
    steps = [Step(index, None, piece, (Rival(index, -0.1, piece),)) for index, piece in enumerate(pieces * 3)]
    side = trajectory([request(0, range(9), steps, cached=None)])
    panes.show_pair(side, replace(side, id=2, path=Path.RECOMPUTE), None, {})
    assert not panes.grab().isNull()
    told = [panes._describe(Path.CACHED, 0, index) for index in range(len(pieces))]
    assert told[0].splitlines() == [
        r"\xE2   request 1, token 1",
        "id 0 · bytes E2",
        "logprob not reported · margin not reported",
    ]
    assert all(len(text) < 400 and "\u202e" not in text and "\x1b" not in text for text in told)
    panes.set_cursor(0, 0)
    assert panes.copy_selection("rows").splitlines()[1].split("\t")[4:] == ["E2", r"\xE2", "", ""]
    assert panes.headers[Path.CACHED].counts.text() == "cached: not reported"
