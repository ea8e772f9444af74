"""Every text can be read, on a projector too."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QComboBox

from app import paths
from app.views.theme import DARK, LIGHT, Theme
from tests.views.made_windows import Dress


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    made = QColor(colour)
    channels = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
                for value in (made.redF(), made.greenF(), made.blueF())]  # fmt: skip
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_no_text_is_grey_on_grey(theme: Theme) -> None:
    for name in ("text", "muted", "faint", "cached", "recompute", "fork", "equal", "near_tie_text"):
        for ground in ("window", "panel"):
            assert contrast(getattr(theme, name), getattr(theme, ground)) >= 4.5, f"{name} on {ground}"
    for name in ("text", "muted", "faint"):
        assert contrast(getattr(theme, name), theme.block) >= 4.0, f"{name} on block"
    assert contrast(theme.near_tie_text, theme.near_tie) >= 4.5
    assert contrast(theme.muted, theme.menu) >= 4.5
    assert contrast(theme.text, theme.muted) > 1.5 < contrast(theme.text, theme.faint), "three greys to tell apart"


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_a_choice_shows_its_arrow(dress: Dress, theme: Theme) -> None:
    for name in ("check", "down", "up"):
        assert (paths.resources_dir() / f"{name}-{theme.name}.svg").is_file()
    dress(theme, 1.0)
    box = QComboBox()
    box.addItem("")
    box.resize(120, 28)
    image = box.grab().toImage()
    arrow = {image.pixelColor(x, y).name() for x in range(98, 116) for y in range(8, 20)}
    assert any(contrast(colour, theme.block) >= 3 for colour in arrow)
