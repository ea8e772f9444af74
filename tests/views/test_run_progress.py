from __future__ import annotations

import pytest

from app.trajectory.events import Estimate, PairCompared, RunStarted, TrajectoryStarted
from app.trajectory.trajectory import Path
from app.views.environment_line import environment_line, size_text
from app.views.run_estimate import guess, in_words
from app.views.run_progress import RunProgress, time_left
from tests.views.fakes import ENVIRONMENT, made_up_pairs, row_of


def test_progress_reads_as_episodes_and_an_estimate() -> None:
    progress = RunProgress()
    assert progress.text == ""
    progress.take(RunStarted(1, "pair", 80, 2))
    rows = [row_of(pair) for pair in made_up_pairs(3).values()]
    for row in [*rows, rows[0]]:  # compared again at the end of a run: still one episode
        progress.take(PairCompared(row))
    assert progress.text == "3 of 80 episodes"
    progress.take(Estimate(6, 320, 21 * 60))
    assert progress.text == "3 of 80 episodes · about 21 min left"
    assert progress.fraction == pytest.approx(6 / 320)
    progress.take(TrajectoryStarted(1, "files-00", "files", Path.CACHED, 2))
    assert progress.text == "3 of 80 episodes · repeat 2 of 2 · about 21 min left"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (3, "under a minute left"),
        (70, "about 1 min left"),
        (5000, "about 83 min left"),
        (9000, "about 2.5 h left"),
    ],
)
def test_the_time_left_is_as_coarse_as_it_is_uncertain(seconds: float | None, words: str) -> None:
    assert time_left(seconds) == words


def test_a_guess_grows_with_the_episodes_and_the_model() -> None:
    low, high = guess(8, 8, 98e6)
    assert 0 < low < high
    assert guess(8, 8, 980e6)[0] == pytest.approx(10 * low)
    assert in_words(low, high).startswith("roughly ")
    assert in_words(4000, 12000) == "roughly 1.1 to 3.3 h"


def test_the_environment_reads_as_one_line() -> None:
    assert environment_line(ENVIRONMENT) == (
        "llama.cpp 0c1e570 · 2 threads · n_ubatch 512 · KV f16 · flash attention off"
    )
    assert environment_line({}) == ""
    assert environment_line({"engine": "scripted"}) == "scripted"


@pytest.mark.parametrize(
    ("size", "text"), [(12, "12 bytes"), (3_100_000, "3.1 MB"), (250_000_000, "250 MB"), (2e9, "2.0 GB")]
)
def test_a_file_size_reads_as_a_person_says_it(size: int, text: str) -> None:
    assert size_text(size) == text
