"""Views are tested without a display."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.builders import forked_pair_of_trajectories

if TYPE_CHECKING:  # Qt is imported after the platform is chosen
    from collections.abc import Iterator

    from pytestqt.qtbot import QtBot

    from app.application import Application
    from app.trajectory.events import Event
    from app.trajectory.trajectory import Trajectory
    from app.views.pane_pair import PanePair
    from app.views.window import MainWindow
    from tests.views.fakes import FakeProduct
    from tests.views.made_windows import Dress, MakeWindow

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


@pytest.fixture(scope="session")
def qapp_cls() -> type:
    """The product's own application class."""
    from app.application import Application

    return Application


@pytest.fixture
def make_window(qtbot: QtBot) -> MakeWindow:
    """Windows on made-up pairs, each with the product that it asks; runs begin with the given events."""
    from app.settings import Settings
    from app.views.theme import LIGHT
    from app.views.window import MainWindow
    from tests.views.fakes import FakeProduct
    from tests.views.made_windows import PAIRS

    def make(events: list[Event] | None = None) -> tuple[MainWindow, FakeProduct]:
        product = FakeProduct(PAIRS, events or ())
        window = MainWindow(product.verbs(), Settings(), LIGHT)
        qtbot.addWidget(window, before_close_func=lambda widget: widget.control.close())
        window.resize(1280, 800)
        window.show()
        return window, product

    return make


@pytest.fixture
def dress(qapp: Application) -> Iterator[Dress]:
    """Dresses the application in a theme and a text size, as the product does; afterwards it is as it was."""
    from app.views.style import apply_theme

    before = qapp.font(), qapp.palette(), qapp.styleSheet()
    yield lambda theme, text_scale: apply_theme(qapp, theme, text_scale)
    qapp.setFont(before[0])
    qapp.setPalette(before[1])
    qapp.setStyleSheet(before[2])


@pytest.fixture
def panes(qtbot: QtBot) -> PanePair:
    """Two empty panes on screen."""
    from app.views.pane_pair import PanePair
    from app.views.theme import LIGHT

    widget = PanePair(LIGHT)
    qtbot.addWidget(widget)
    widget.resize(800, 520)
    widget.show()
    return widget


@pytest.fixture
def pair() -> tuple[Trajectory, Trajectory]:
    """A pair that forks in its fourth request."""
    return forked_pair_of_trajectories(requests=6, steps_each=40, fork_request=3)


@pytest.fixture
def opened(panes: PanePair, pair: tuple[Trajectory, Trajectory]) -> PanePair:
    """The panes, opened on the pair's fork."""
    from tests.views.made_panes import FORK

    panes.show_pair(*pair, replace(FORK, request=3), {})
    return panes
