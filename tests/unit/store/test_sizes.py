from __future__ import annotations

from pathlib import Path as FilePath

from tests.bench.recording import PROMPT_BAR, STEP_BYTES_BAR, bytes_a_step, prompts_on_disk


def test_a_step_takes_at_most_120_bytes_with_everything_that_belongs_to_it(tmp_path: FilePath) -> None:
    assert 48 < bytes_a_step(tmp_path) <= STEP_BYTES_BAR  # its numbers alone are 48


def test_prompts_take_at_most_half_again_the_bytes_of_their_new_tokens(tmp_path: FilePath) -> None:
    assert 0.9 < prompts_on_disk(tmp_path) <= PROMPT_BAR  # some fit into what a page had left
