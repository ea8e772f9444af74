from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from app.settings import Settings
from app.views.shots import SIZES, render_shots
from tests.views.fakes import FakeProduct, made_up_pairs


@pytest.mark.usefixtures("qapp")
def test_every_state_is_rendered_in_both_sizes_and_themes(tmp_path: Path) -> None:
    product = FakeProduct(made_up_pairs(5))
    pictures = list(render_shots(product.verbs(), Settings(), Path("calendar.forkpoint"), tmp_path))
    assert len(pictures) == len({picture.name for picture in pictures}) == 5 * len(SIZES) * 2
    for picture in pictures:
        image = QImage(str(picture))
        width, height = map(int, picture.stem.split("-")[-2].split("x"))
        assert (image.width(), image.height()) == (width, height)
        corner = image.pixelColor(image.width() // 2, 45).lightness()
        assert (corner < 128) == picture.stem.endswith("dark") or picture.stem.startswith("new-run")
    assert len({picture.read_bytes() for picture in pictures}) == len(pictures)
    assert all(session.is_closed for session in product.sessions)
