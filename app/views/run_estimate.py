"""How long a run will roughly take, before anything was measured. Knows no Qt."""

from __future__ import annotations

DEFAULT_MODEL_BYTES = 98e6
SECONDS_PER_PAIR = 30.0
"""One built-in episode on both paths: default model, one thread of a 2020s laptop core, nothing else running."""


def guess(pairs: float, repeated_pairs: float, model_bytes: float) -> tuple[float, float]:
    """Seconds, as a low and a high guess: time grows with the model's size, and machines differ by a factor of three.

    `pairs` are run once, `repeated_pairs` is the sum over the repeats after the first.
    """
    middle = (pairs + repeated_pairs) * SECONDS_PER_PAIR * max(model_bytes, 1e6) / DEFAULT_MODEL_BYTES
    return 0.5 * middle, 1.5 * middle


def in_words(low_s: float, high_s: float) -> str:
    """E.g. "roughly 4 to 12 min"."""
    if high_s < 90:
        return "roughly a minute"
    if high_s < 2 * 3600:
        return f"roughly {max(1, round(low_s / 60))} to {round(high_s / 60)} min"
    return f"roughly {low_s / 3600:.1f} to {high_s / 3600:.1f} h"
