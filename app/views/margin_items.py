"""What is drawn in the lanes of the margin plot: pyqtgraph items, their order and their colours."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg
from PySide6.QtGui import QColor, QPen

from app.views.theme import Theme

PATHS = ("cached", "recompute")


def pen(colour: str, width: float = 1.0, dash: tuple[float, ...] = ()) -> QPen:
    """A pen of `width` pixels at any zoom."""
    made = QPen(QColor(colour), width)
    made.setCosmetic(True)
    if dash:
        made.setDashPattern(list(dash))
    return made


class MarginItems:
    """The items of both lanes, from the lowest to the topmost.

    `curves` has one per path and part ("before" and "after" the fork); lists of two are for the upper and lower lane.
    """

    def __init__(self) -> None:
        self.band = pg.LinearRegionItem(orientation="horizontal", movable=False, pen=pg.mkPen(None))
        self.band_label = pg.TextItem(anchor=(1, 0))
        self.boundaries = [pg.PlotCurveItem(connect="pairs", antialias=False) for _ in range(2)]
        self.decades = pg.PlotCurveItem(connect="pairs", antialias=False)
        self.curves = {
            (path, part): pg.PlotCurveItem(connect="finite", antialias=True)
            for part in ("after", "before")
            for path in PATHS
        }
        self.symbols = {
            "cached": pg.ScatterPlotItem(symbol="d", size=9),
            "recompute": pg.ScatterPlotItem(symbol="o", size=5),
        }
        self.ties = pg.ScatterPlotItem(symbol="t1", size=9)
        self.fork_lines = [pg.InfiniteLine(angle=90) for _ in range(2)]
        self.fork_mark = pg.ScatterPlotItem(symbol="d", size=12)
        self.fork_label = pg.TextItem(anchor=(0, 0))
        self.bars = pg.BarGraphItem(x=[], height=[], width=0.6, pen=None)
        self.cursors = [pg.InfiniteLine(angle=90) for _ in range(2)]
        self.cursor_mark = pg.ScatterPlotItem(symbol="t", size=9)

    def add_to(self, upper: Any, lower: Any) -> None:
        """Put the items into the two plots."""
        above = [self.band, self.boundaries[0], self.decades, *self.curves.values(), *self.symbols.values(), self.ties]
        above += [self.cursors[0], self.fork_lines[0], self.fork_mark, self.cursor_mark]
        above += [self.band_label, self.fork_label]
        below = [self.boundaries[1], self.bars, self.cursors[1], self.fork_lines[1]]
        for plot, items in ((upper, above), (lower, below)):
            for z, item in enumerate(items):
                plot.addItem(item, ignoreBounds=True)
                item.setZValue(z)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`; the curves' and bars' come with their data."""
        self.band.setBrush(QColor(theme.near_tie))
        self.band_label.setColor(theme.near_tie_text)
        self.band_label.fill = pg.mkBrush(theme.near_tie)  # readable over the curves
        for boundary in self.boundaries:
            boundary.setPen(pen(theme.line))
        self.decades.setPen(pen(theme.line, 1, (1, 5)))
        for item, outline, fill in (
            (self.symbols["cached"], pen(theme.cached, 1.4), theme.panel),
            (self.symbols["recompute"], pg.mkPen(None), theme.recompute),
            (self.ties, pg.mkPen(None), theme.near_tie_text),
            (self.fork_mark, pen(theme.panel), theme.fork),
            (self.cursor_mark, pen(theme.panel), theme.text),
        ):
            item.setPen(outline)
            item.setBrush(QColor(fill))
        self.fork_label.setColor(theme.fork)
        for line in self.fork_lines:
            line.setPen(pen(theme.fork, 2))
        for line in self.cursors:
            line.setPen(pen(theme.text))
