"""Left side of the window: the file's experiments, and the pairs of one of them to filter, sort and walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QLineEdit, QMenu, QToolButton, QVBoxLayout, QWidget

from app.trajectory.pair import PairRow
from app.trajectory.trajectory import ExperimentInfo
from app.views.mark_field import MarkField
from app.views.pair_filter import parse
from app.views.pair_model import COLUMNS, EPISODE, MARK, PairModel, ShownPairs
from app.views.pair_rows import LEAST, PairRows
from app.views.pair_summary import counts, local_time, not_counted
from app.views.text_label import text_label
from app.views.theme import Theme

NO_PAIRS = "No pairs yet. Press Ctrl+R to run."
PAIRS_TO_COME = "The pairs come with the run."
NOTHING_FITS = "No pair fits the filter."
FILTER_HELP = (
    "forked, equal, drift, open, valid, invalid, unproven, marked, tool, text, outcome; margin<0.1, near>3, request:3, "
    "step:17; family:calendar, code:N, kind:length; part of an episode's name. A minus before a word means not."
)
WIDE_PIXELS = 860
"""From this width on all columns are shown, unless a person has chosen."""

NARROW = [column for column, known in enumerate(COLUMNS) if known.narrow]

Wanted = Callable[[int, int], bool]


class PairTable(QWidget):
    """Experiments, filter, pairs and a line about those that do not count.

    Emits `pair_chosen(episode_id)` where a person or a next/previous step made another pair the current one, and
    `experiment_chosen(experiment id)`. `note` is the note on the current pair's mark; the actions of `view` are the
    menu of a row.
    """

    pair_chosen = Signal(str)
    experiment_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._columns_chosen = False
        self._quiet = False
        self._running = False
        self.model = PairModel(theme, self)
        self.shown = ShownPairs(self.model, self)
        self.experiments = QComboBox()
        self.filter = QLineEdit()
        self.view = PairRows(theme.cached)
        self._counts, self._footer = text_label("muted"), text_label("muted", wrap=True)
        self._problem = text_label("problem", wrap=True)
        self._columns = QToolButton()
        self.note = MarkField()
        self._lay_out()
        self._make_column_actions()
        self.view.setModel(self.shown)
        self.view.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        self.view.selectionModel().currentRowChanged.connect(self._on_current)
        self.experiments.activated.connect(lambda at: self.experiment_chosen.emit(self.experiments.itemData(at)))
        self.filter.textChanged.connect(self._apply_filter)
        self.filter.returnPressed.connect(self.view.setFocus)
        self.shown.layoutChanged.connect(self._count)
        self._fit()
        self.set_theme(theme)
        self.set_experiments([], None)
        self._apply_filter()

    def _lay_out(self) -> None:
        title = QLabel("Pairs")
        title.setProperty("role", "title")
        self._columns.setText("⋮")
        self._columns.setToolTip("Columns")
        self._columns.setAccessibleName("Columns")
        self._columns.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._columns.setStyleSheet("QToolButton { padding: 1px 6px } QToolButton::menu-indicator { image: none }")
        self.experiments.setAccessibleName("Experiment")
        self.experiments.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.experiments.setMinimumContentsLength(12)
        self.filter.setPlaceholderText("forked margin<0.1 family:calendar")
        self.filter.setAccessibleName("Filter pairs")
        self.filter.setClearButtonEnabled(True)
        heading = QHBoxLayout()
        heading.addWidget(title)
        heading.addStretch(1)
        heading.addWidget(self._counts)
        heading.addWidget(self._columns)
        upper = QVBoxLayout()
        upper.setContentsMargins(12, 10, 12, 0)
        upper.setSpacing(7)
        upper.addWidget(self.experiments)
        upper.addLayout(heading)
        upper.addWidget(self.filter)
        upper.addWidget(self._problem)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 8)
        layout.setSpacing(6)
        layout.addLayout(upper)
        layout.addWidget(self.view, 1)
        layout.addWidget(self.note)
        layout.addWidget(self._footer)
        self._footer.setContentsMargins(12, 0, 12, 0)
        self.view.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    # -- columns -----------------------------------------------------------------------------------
    def _make_column_actions(self) -> None:
        self.columns_menu = QMenu("Pair &columns", self)
        self._column_actions: list[QAction] = []
        for column, known in enumerate(COLUMNS):
            action = self.columns_menu.addAction(known.meaning)
            action.setCheckable(True)
            action.setVisible(column not in (MARK, EPISODE))
            action.triggered.connect(self._choose_columns)
            self._column_actions.append(action)
        self._columns.setMenu(self.columns_menu)
        header = self.view.horizontalHeader()
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(lambda at: self.columns_menu.popup(header.mapToGlobal(at)))

    def _choose_columns(self) -> None:
        self._columns_chosen = True
        self._show_columns([column for column, action in enumerate(self._column_actions) if action.isChecked()])

    def _show_columns(self, columns: Sequence[int]) -> None:
        for column, action in enumerate(self._column_actions):
            action.setChecked(column in columns)
            self.view.setColumnHidden(column, column not in columns)
        self.view.fit_columns()

    def _fit(self) -> None:
        """All columns where there is room, the first five or fewer where not; what a person chose stays."""
        if self._columns_chosen:
            self.view.fit_columns()
            return
        if self.width() >= WIDE_PIXELS:
            self._show_columns(range(len(COLUMNS)))
            return
        columns = list(NARROW)
        while self.view.width_for(columns) > self.width() and columns[-1] not in LEAST:
            columns.pop()
        self._show_columns(columns)

    # -- what is shown -----------------------------------------------------------------------------
    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        self.model.theme = theme
        self.view.accent = theme.cached
        self._mark_filter(self.filter.toolTip() if self.filter.property("problem") else "")
        self.view.viewport().update()

    def set_experiments(self, experiments: Sequence[ExperimentInfo], current: int | None) -> None:
        """List a file's experiments, newest first; `current` is the id of the one that is shown. Emits nothing."""
        self.experiments.clear()
        for info in experiments:
            self.experiments.addItem(f"{local_time(info.created)} · {info.title}", info.id)
            self.experiments.setItemData(self.experiments.count() - 1, info.title, Qt.ItemDataRole.ToolTipRole)
        self.experiments.setCurrentIndex(self.experiments.findData(current))
        self.experiments.setToolTip(self.experiments.currentText())
        self.experiments.setVisible(bool(experiments))

    def set_rows(self, rows: Sequence[PairRow]) -> None:
        """Show an experiment's pairs. The current episode stays current where it is among them. Emits nothing."""
        current = self.current_row()
        self._quiet = True
        self.model.set_rows(rows)
        self._quiet = False
        self._apply_filter()
        if current is not None:
            self.select(current.episode_id)

    def update_row(self, row: PairRow) -> None:
        """Show what is new of one pair; a pair not yet in the table comes last."""
        self.model.update_row(row)
        self._count()

    def set_marks(self, marks: Mapping[str, str], why_not: str) -> None:
        """Show which episodes are marked, with their notes by episode; `why_not` says why marks cannot be changed."""
        others = self.model.marks.keys() != marks.keys()
        self.model.set_marks(marks)
        self.note.why_not = why_not
        self._show_note()
        if others:  # a note alone changes no row; it may be written while the current row is about to change
            self._apply_filter()

    def _show_note(self) -> None:
        row = self.current_row()
        self.note.show_mark(row.episode_id if row else None, self.model.marks.get(row.episode_id) if row else None)

    def select(self, episode_id: str) -> None:
        """Make an episode's pair the current one, if it is shown. Emits nothing."""
        rows = self.shown.shown_rows()
        at = next((at for at, row in enumerate(rows) if row.episode_id == episode_id), None)
        if at is not None:
            self._quiet = True
            self._go_to(at)
            self._quiet = False

    def show_run(self, running: bool, episode_id: str | None = None) -> None:
        """Whether a run goes on, and which episode it is at: its row is marked."""
        self._running = running
        self.model.show_running(episode_id)
        self._count()

    def current_row(self) -> PairRow | None:
        """The current pair; None where none is, or the filter hides it."""
        index = self.view.currentIndex()
        return self.shown.row_at(index.row()) if index.isValid() else None

    def current_text(self) -> str:
        """The current pair's line, all columns, a tab between them."""
        row = self.current_row()
        return "" if row is None else "\t".join(known.text(row) for known in COLUMNS)

    # -- walking the forked pairs ------------------------------------------------------------------
    def next_forked(self) -> bool:
        """Go to the next forked pair in the shown order; False at the end, where nothing moves."""
        return self._walk(lambda at, here: at > here, first=True)

    def previous_forked(self) -> bool:
        """Go to the previous forked pair in the shown order; False at the beginning, where nothing moves."""
        here = self.view.currentIndex().row()
        return self._walk(lambda at, here: at < here, first=False) if here >= 0 else self.last_forked()

    def first_forked(self) -> bool:
        """Go to the first forked pair; False where none is shown."""
        return self._walk(lambda _at, _here: True, first=True)

    def last_forked(self) -> bool:
        """Go to the last forked pair; False where none is shown."""
        return self._walk(lambda _at, _here: True, first=False)

    def _walk(self, wanted: Wanted, *, first: bool) -> bool:
        here = self.view.currentIndex().row()
        forked = [at for at, row in enumerate(self.shown.shown_rows()) if row.diverged and wanted(at, here)]
        if not forked:
            return False
        self._go_to(forked[0] if first else forked[-1])
        return True

    def _go_to(self, at: int) -> None:
        index = self.shown.index(at, EPISODE)
        flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
        self.view.selectionModel().setCurrentIndex(index, flags)
        self.view.scrollTo(index)

    def _on_current(self, current: QModelIndex, _previous: QModelIndex) -> None:
        self.view.viewport().update()
        self._show_note()
        if current.isValid() and not self._quiet:
            self.pair_chosen.emit(self.shown.row_at(current.row()).episode_id)

    # -- filter and counts -------------------------------------------------------------------------
    def _apply_filter(self) -> None:
        """A word that cannot be read marks the field and hides nothing."""
        read = parse(self.filter.text(), {row.episode_id for row in self.model.rows}, self.model.marks.keys())
        self._mark_filter(read.problem)
        current = self.current_row()
        self._quiet = True
        self.shown.set_filter(read)
        self._quiet = False
        if current is not None and not self.view.currentIndex().isValid():
            self.select(current.episode_id)
        self._count()

    def _mark_filter(self, problem: str) -> None:
        self.filter.setProperty("problem", bool(problem))
        self._problem.setText(problem)
        self._problem.setVisible(bool(problem))
        self.filter.setToolTip(problem or FILTER_HELP)
        self.filter.setAccessibleDescription(problem or FILTER_HELP)
        warning = f"QLineEdit {{ border: 2px solid {self._theme.recompute}; padding: 2px 6px }}"
        self.filter.setStyleSheet(warning if problem else "")

    def _count(self) -> None:
        shown = self.shown.shown_rows()
        self._counts.setText(counts(shown))
        nothing = PAIRS_TO_COME if self._running else NO_PAIRS
        self.view.empty_text = NOTHING_FITS if self.model.rows else nothing
        self.view.setAccessibleDescription(self._counts.text() if shown else self.view.empty_text)
        self._footer.setText(not_counted(self.model.rows))
        self._footer.setVisible(bool(self._footer.text()))

    # -- events ------------------------------------------------------------------------------------
    def sizeHint(self) -> QSize:
        """As wide as the sketch has it, or as it must be."""
        return QSize(max(300, self.view.width_for(NARROW), self.minimumSizeHint().width()), 600)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """In the filter, Down goes to the rows and Esc clears it."""
        if self.filter.hasFocus() and event.key() == Qt.Key.Key_Down:
            self.view.setFocus()
        elif self.filter.hasFocus() and event.key() == Qt.Key.Key_Escape and self.filter.text():
            self.filter.clear()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A wide table has room for all columns."""
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the text size, once the rows have it too."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_column_actions"):
            QTimer.singleShot(0, self, self._fit)
