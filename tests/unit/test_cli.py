"""How the commands follow a run; what they print of a file is in end2end."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from app.cli.reading import mark_of
from app.cli.terminal import Progress, finish_run
from app.session import RunHandle
from app.trajectory.events import Event, PairCompared
from app.trajectory.pair import PairRow

ROW = PairRow(
    1, "files-00", "files", 1, False, None, None, None, None, 0,
    tool_calls_changed=False, outcome_changed=False, valid=True, code="equal", headline="No fork.",
)  # fmt: skip


@dataclass
class Deaf:
    """A run that goes on whatever is asked, with a person at Ctrl+C."""

    path: Path = Path("deaf.forkpoint")
    inbox: deque[Event] = field(default_factory=deque)
    asked: int = 0

    def join(self, _timeout_s: float) -> bool:
        signal.raise_signal(signal.SIGINT)
        return False

    def stop(self) -> None:
        self.asked += 1


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl+C as a terminal has it; what runs in the background is started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_second_ctrl_c_does_not_wait() -> None:
    deaf = Deaf()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        finish_run(cast(RunHandle, deaf), as_json=False)
    assert deaf.asked == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_pair_that_is_compared_again_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    Progress().show_all(deque([PairCompared(ROW), PairCompared(ROW)]))
    assert capsys.readouterr().err == "files-00: No fork.\n"


def test_a_list_marks_pairs_as_the_window_does_and_none_that_does_not_count_as_equal() -> None:
    no_answer = replace(ROW, valid=False, code="unproven")
    rows = [ROW, replace(ROW, code="drift"), replace(ROW, diverged=True, code="N"), no_answer,
            replace(ROW, valid=False, code="invalid"), replace(ROW, diverged=None, code="open")]  # fmt: skip
    assert [mark_of(row) for row in rows] == ["○", "≈", "◆", "?", "✗", "…"]
