"""The two lanes of the margin plot: margins on a log axis, and their change below. pyqtgraph draws, nothing is kept
per step but arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QColor, QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.trajectory.margin_series import MarginSeries, envelope, labelled_requests, log_margin, peaks
from app.trajectory.pair import NEAR_TIE_NATS
from app.views.margin_items import MarginItems, pen
from app.views.theme import Theme

LEAST_POSITIONS = 40
"""A young live pair does not fill the width: its steps would jump at every token."""
SYMBOL_PIXELS = 8.0
"""From this distance of two steps on, each gets its mark."""
DASH_PIXELS = 2.0
BOUNDARY_PIXELS = 7.0
TOP_NATS = 30.0
BOTTOM_NATS = 0.02


class MarginLanes(QWidget):
    """Both lanes with one x axis: the step of the episode. Emits `position_chosen` where a person clicked."""

    position_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._near_tie = NEAR_TIE_NATS
        self._series = MarginSeries.of(None, None, None)
        self._fork_label = ""
        self._cursor: int | None = None
        self._follows_all = True
        self._graphics = pg.GraphicsLayoutWidget()
        self._graphics.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._graphics.ci.layout.setContentsMargins(0, 0, 8, 0)
        self._graphics.ci.layout.setSpacing(4)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._graphics)
        self._margin, self._change = self._make_plot(0), self._make_plot(1)
        self._change.setXLink(self._margin)
        self._margin.hideAxis("bottom")
        self._items = MarginItems()
        self._items.add_to(self._margin, self._change)
        self._margin.vb.sigXRangeChanged.connect(self._redraw)
        for plot in (self._margin, self._change):
            plot.vb.sigRangeChangedManually.connect(self._note_zoom)
        self._graphics.scene().sigMouseClicked.connect(self._on_click)
        self.set_theme(theme)

    # -- building ----------------------------------------------------------------------------------
    def _make_plot(self, row: int) -> Any:
        plot = self._graphics.addPlot(row=row, col=0, enableMenu=False)
        plot.hideButtons()
        plot.setMouseEnabled(x=True, y=False)
        plot.vb.disableAutoRange()
        plot.vb.setDefaultPadding(0)
        for side in ("left", "bottom"):
            plot.getAxis(side).setStyle(tickLength=0, tickAlpha=0)
        return plot

    # -- what a person sees ------------------------------------------------------------------------
    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        self._graphics.setBackground(theme.panel)
        for plot in (self._margin, self._change):
            for side in ("left", "bottom"):
                plot.getAxis(side).setPen(pg.mkPen(None))
                plot.getAxis(side).setTextPen(theme.muted)
        self._change.getAxis("bottom").setPen(pen(theme.line))
        self._items.set_theme(theme)
        self._apply_fonts()
        self._lay_out()

    def set_near_tie(self, nats: float) -> None:
        """Draw the near-tie band up to a margin of `nats`."""
        self._near_tie = nats
        self._lay_out()

    def show_series(self, series: MarginSeries, fork_label: str, *, fresh: bool) -> None:
        """Show a pair; `fresh` where it is another one than before: then all of it comes in sight."""
        self._series = series
        self._fork_label = fork_label
        self._follows_all = self._follows_all or fresh
        self._lay_out()

    def set_cursor_position(self, position: int | None) -> None:
        """Move the step cursor's line, and bring it in sight where a zoomed axis does not show it."""
        self._cursor = position
        self._draw_cursor()
        if position is None or self._follows_all:
            return
        (first, last), _ = self._margin.vb.viewRange()
        if not first <= position <= last:
            half = (last - first) / 2
            self._margin.setXRange(position - half, position + half, padding=0)

    def show_all(self) -> None:
        """End the zoom: the whole episode."""
        self._follows_all = True
        self._lay_out()

    def zoom(self, factor: float) -> None:
        """Show `factor` times as many steps around the cursor (below 1: zoom in)."""
        self._follows_all = False
        self._margin.vb.scaleBy((factor, 1), center=QPointF(self._items.cursors[0].value(), 0))

    # -- drawing -----------------------------------------------------------------------------------
    def _lay_out(self) -> None:
        """Set the axes' ranges, then draw what is in them."""
        known = self._series.recompute[np.isfinite(self._series.recompute)]
        least = float(known.min()) if len(known) else BOTTOM_NATS
        self._bottom, top = log_margin(np.array([min(BOTTOM_NATS, self._near_tie / 5, least * 0.6), TOP_NATS]))
        self._margin.setYRange(self._bottom, top, padding=0)
        right = max(len(self._series), LEAST_POSITIONS) - 0.5
        self._margin.vb.setLimits(xMin=-1, xMax=right, minXRange=min(8, right))
        if self._follows_all:
            self._margin.setXRange(-1, right, padding=0)
        decades = range(int(np.ceil(self._bottom - 1e-9)), int(top) + 1)
        self._margin.getAxis("left").setTicks([[(decade, f"{10.0**decade:g}") for decade in decades]])
        self._items.decades.setData(np.tile([-1.0, right], len(decades)), np.repeat(np.array(decades, float), 2))
        self._items.band.setRegion((self._bottom, log_margin(np.array([self._near_tie]))[0]))
        self._redraw()

    def _redraw(self, *_: object) -> None:
        """Draw what the x axis shows, at most some points a column of pixels."""
        (left, right), _y = self._margin.vb.viewRange()
        columns = max(int(self._margin.vb.width()), 100)
        first, last = max(int(left), 0), min(int(right) + 2, len(self._series))
        pixels = columns / max(right - left, 1e-9)
        split = len(self._series) if self._series.fork is None else self._series.fork + 1
        for path, values in (("cached", self._series.cached), ("recompute", self._series.recompute)):
            self._draw_path(path, values, (first, min(split, last)), (max(split - 1, first), last), columns, pixels)
        self._draw_changes(first, min(last, split), columns)
        self._draw_requests(left, right, pixels)
        self._draw_marks(right, pixels)
        self._draw_cursor()

    def _draw_path(
        self, path: str, values: Any, before: tuple[int, int], after: tuple[int, int], columns: int, pixels: float
    ) -> None:
        for part, (start, end) in (("before", before), ("after", after)):
            at, margins = envelope(values, start, max(start, end), columns)
            curve = self._items.curves[path, part]
            curve.setData(at, log_margin(margins))
            # Dashes let the cached line show through where both coincide; a filled envelope has no use for them.
            sparse = pixels >= DASH_PIXELS
            dashes = (4.0, 2.5) if sparse and path == "recompute" else ()
            curve.setPen(pen(self._colour(path, part), 1.6 if sparse else 1.0, dashes))
            if part == "before":
                marked = np.isfinite(margins) & (pixels >= SYMBOL_PIXELS)
                self._items.symbols[path].setData(at[marked], log_margin(margins[marked]))

    def _colour(self, path: str, part: str) -> str:
        theme = self._theme
        if part == "after":
            return theme.prefill if path == "cached" else theme.prefill_alternate
        return theme.cached if path == "cached" else theme.recompute

    def _draw_changes(self, first: int, last: int, columns: int) -> None:
        at, heights, width = peaks(self._series.change, first, max(first, last), columns // 3)
        colour = QColor(self._theme.muted)
        self._items.bars.setOpts(x=at, height=heights, width=width * 0.6, brush=colour, pen=pg.mkPen(None))
        top = float(heights.max()) if len(heights) and heights.max() > 0 else 0.1
        self._change.setYRange(0, top * 1.15, padding=0)
        self._change.getAxis("left").setTicks([[(top, f"{top:.2g}"), (top * 0.4, "|Δ|")]])

    def _draw_requests(self, left: float, right: float, pixels: float) -> None:
        label_pixels = self.fontMetrics().horizontalAdvance(f"request {len(self._series.starts)}") + 14
        labels = labelled_requests(self._series.starts, max(left, -0.5), right, pixels, label_pixels)
        self._change.getAxis("bottom").setTicks([[(at, f"request {request + 1}") for at, request in labels]])
        starts = self._series.starts[:-1].astype(float)
        starts = starts[(starts >= left) & (starts <= right)]
        if len(starts) > 1 and (starts[-1] - starts[0]) / (len(starts) - 1) * pixels < BOUNDARY_PIXELS:
            starts = np.array([self._series.starts[request] for _, request in labels], float)
        at = np.repeat(starts - 0.5, 2)
        for boundary, low, high in zip(self._items.boundaries, (self._bottom, 0), (2, 1e3), strict=True):
            boundary.setData(at, np.tile([float(low), float(high)], len(starts)))

    def _draw_cursor(self) -> None:
        """The line in both lanes, and a mark on top that is seen where the line lies under the fork's."""
        shown = [] if self._cursor is None else [self._cursor]
        for line in self._items.cursors:
            line.setVisible(bool(shown))
            line.setValue(self._cursor or 0)
        top = self._margin.vb.viewRange()[1][1] - 5 * self._margin.vb.viewPixelSize()[1]
        self._items.cursor_mark.setData(shown, [top] * len(shown))

    def _draw_marks(self, right: float, pixels: float) -> None:
        ties = self._series.exact_ties
        ties = ties[np.unique((ties * pixels).astype(int), return_index=True)[1]]  # one a column of pixels
        self._items.ties.setData(ties, np.full(len(ties), self._bottom + 0.05))
        self._items.band_label.setText(f"near tie < {self._near_tie:g}")
        self._items.band_label.setPos(right, log_margin(np.array([self._near_tie]))[0])
        fork = self._series.fork
        for line in self._items.fork_lines:
            line.setVisible(fork is not None)
        self._items.fork_label.setVisible(fork is not None)
        if fork is None:
            self._items.fork_mark.setData([], [])
            return
        for line in self._items.fork_lines:
            line.setValue(fork)
        self._items.fork_mark.setData([fork], [log_margin(np.array([self._series.fork_margin or 0]))[0]])
        self._items.fork_label.setText(f"fork {self._fork_label}")
        room = self.fontMetrics().horizontalAdvance(f"fork {self._fork_label}") + 16
        self._items.fork_label.setAnchor((0, 0) if (right - fork) * pixels > room else (1, 0))
        self._items.fork_label.setPos(fork, self._margin.vb.viewRange()[1][1])

    # -- events ------------------------------------------------------------------------------------
    def _note_zoom(self, *_: object) -> None:
        self._follows_all = False

    def _on_click(self, click: Any) -> None:
        if click.button() != Qt.MouseButton.LeftButton:
            return
        if click.double():
            self.show_all()
        elif len(self._series):
            self.position_chosen.emit(round(self._margin.vb.mapSceneToView(click.scenePos()).x()))

    def _apply_fonts(self) -> None:
        small = self.font()
        small.setPointSizeF(small.pointSizeF() * 0.9)
        bold = self.font()
        bold.setBold(True)
        height = self.fontMetrics().height()
        for plot in (self._margin, self._change):
            for side in ("left", "bottom"):
                plot.getAxis(side).setTickFont(small)
            plot.getAxis("left").setWidth(self.fontMetrics().horizontalAdvance("0.001") + 12)
        self._change.getAxis("bottom").setHeight(height + 6)
        self._graphics.ci.layout.setRowFixedHeight(1, height * 3.9)
        self._items.band_label.setFont(small)
        self._items.fork_label.setFont(bold)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the text size."""
        if event.type() == QEvent.Type.FontChange:
            self._apply_fonts()
            self._redraw()
        super().changeEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width shows another number of steps a column."""
        super().resizeEvent(event)
        self._redraw()
