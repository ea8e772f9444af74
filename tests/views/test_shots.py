from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from app.settings import Settings
from app.trajectory.events import Event, Replayed, RunEnded
from app.views.shots import SIZES, render_shots
from tests.views.fakes import FakeProduct, made_up_pairs
from tests.views.test_doctor_page import DIAGNOSIS
from tests.views.test_try_on_server import result

OVER = ("new-run", "doctor")
"""Dialogs: the window behind them is darker."""


@pytest.mark.usefixtures("qapp")
def test_every_state_is_rendered_in_both_sizes_and_themes(tmp_path: Path) -> None:
    tried: list[Event] = [
        Replayed("units-01, request 3, token 17", result("reproduced", "Same.")),
        RunEnded(1, "replayed"),
    ]
    product = FakeProduct(made_up_pairs(5), tried)
    product.diagnosis = DIAGNOSIS
    pictures = list(render_shots(product.verbs(), Settings(), Path("calendar.forkpoint"), tmp_path))
    states = {picture.stem.rsplit("-", 2)[0] for picture in pictures}
    assert states >= {"empty", "fork", "mid-run", "new-run-managed", "doctor-found", "tried-on-server"}
    assert len(pictures) == len({picture.name for picture in pictures}) == len(states) * len(SIZES) * 2
    for picture in pictures:
        image = QImage(str(picture))
        width, height = map(int, picture.stem.split("-")[-2].split("x"))
        assert (image.width(), image.height()) == (width, height)
        corner = image.pixelColor(image.width() // 2, 45).lightness()
        assert (corner < 128) == picture.stem.endswith("dark") or picture.stem.startswith(OVER)
    assert len({picture.read_bytes() for picture in pictures}) == len(pictures)
    assert all(session.is_closed for session in product.sessions)
    assert len(product.examinations) == len(product.tried) == 1, "what takes minutes is done once"
