"""The window: menus, run bar, start page or workbench, status bar. What a person asks for becomes a session's verb."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QFileDialog, QLabel, QMainWindow, QMessageBox, QStackedWidget, QVBoxLayout, QWidget

from app import paths
from app.errors import AppError
from app.settings import Settings
from app.trajectory.trajectory import Status
from app.views import window_actions
from app.views.banner import Banner
from app.views.environment_line import environment_line, size_text
from app.views.reasons import why_no_ids
from app.views.run_bar import RunBar
from app.views.run_control import Kind, RunControl
from app.views.start_page import StartPage
from app.views.style import TEXT_SCALES
from app.views.theme import Theme
from app.views.try_on_server import WHAT, TryOnServer
from app.views.verbs import Verbs
from app.views.window_bundles import WindowBundles
from app.views.window_deeds import deeds_of
from app.views.window_marks import WindowMarks
from app.views.window_runs import WindowRuns

if TYPE_CHECKING:  # the workbench loads pyqtgraph: only once there is something to show
    from app.views.workbench import Workbench

FLASH_MS = 250
SAID_MS = 8000
FILE_FILTER = "Forkpoint files and bundles (*.forkpoint *.zip);;All files (*)"


class MainWindow(QMainWindow):
    """One window is one file, or one run.

    `closed`(window): it has given back all that it held. `settings_changed`: the settings object was changed here and
    wants to be saved and applied everywhere. `open_elsewhere_requested`(path): a file that has no room here.
    """

    closed = Signal(object)
    settings_changed = Signal()
    open_elsewhere_requested = Signal(object)

    def __init__(self, verbs: Verbs, settings: Settings, theme: Theme) -> None:
        super().__init__()
        self.verbs = verbs
        self.settings = settings
        self.theme = theme
        self.control = RunControl(self)
        self._bench: Workbench | None = None
        self._said = ""
        self.setWindowTitle("Forkpoint")
        self.setAcceptDrops(True)
        self.banner = Banner()
        self.runs = WindowRuns(verbs, settings, self.control, self.banner, self.bench, self.open_sample, self)
        self.trial = TryOnServer(verbs, self.control, self.banner, self.bench, self)
        self.trial.changed.connect(self._show_state)
        self.marks = WindowMarks(verbs, self.banner, self)
        self.bundles = WindowBundles(
            verbs, self.control, self.banner, self.marks, lambda: self._bench, lambda: self.theme, self
        )
        self.actions_by_name = window_actions.install(self, deeds_of(self))
        for name in ("lock_scroll", "show_table", "show_inspector", "show_plot"):
            self.actions_by_name[name].setChecked(True)
        self.run_bar = RunBar(self.actions_by_name["run"], self.actions_by_name["stop"])
        self.start_page = StartPage()
        self._lay_out()
        for part in (self.runs, self.marks, self.bundles):
            part.said.connect(self.say)
        self.marks.changed.connect(self._show_state)
        self.control.said.connect(self._engine_said)
        self.control.state_changed.connect(self._show_state)
        self.control.progressed.connect(self._show_state)
        self.show_settings(theme)
        self._show_file()
        self.start_page.setFocus()

    def _lay_out(self) -> None:
        self.stack = QStackedWidget()
        self.stack.addWidget(self.start_page)
        whole = QWidget()
        column = QVBoxLayout(whole)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget in (self.run_bar, self.banner, self.stack):
            column.addWidget(widget)
        column.setStretchFactor(self.stack, 1)
        self.setCentralWidget(whole)
        self._file_words, self.said_words, self._environment_words = QLabel(), QLabel(), QLabel()
        for label in (self._file_words, self.said_words, self._environment_words):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._hush = QTimer(self, singleShot=True, interval=SAID_MS)
        self._hush.timeout.connect(self.said_words.clear)
        self.statusBar().addWidget(self._file_words)
        self.statusBar().addWidget(self.said_words)
        self.statusBar().addPermanentWidget(self._environment_words)
        self.statusBar().setSizeGripEnabled(False)
        page = self.start_page
        page.demo_requested.connect(self.actions_by_name["demo"].trigger)
        page.run_requested.connect(self.actions_by_name["run"].trigger)
        page.open_requested.connect(self.ask_for_file)
        page.sample_requested.connect(self.open_sample)
        page.recent_chosen.connect(self.open_file)
        self._recent_menu = window_actions.recent_menu(self, self.actions_by_name["open_sample"])
        self._recent_menu.aboutToShow.connect(self._fill_recent_menu)

    def bench(self) -> Workbench:
        """The workbench in place of the start page; made when it is first wanted."""
        if self._bench is None:
            from app.views.workbench import Workbench

            bench = Workbench(self.theme, self.control)
            bench.experiment_changed.connect(self._show_file)
            bench.pair_changed.connect(self._show_state)
            bench.follow_changed.connect(self.actions_by_name["follow"].setChecked)
            bench.view.run_again_requested.connect(self.runs.run_again)
            bench.view.try_requested.connect(self.trial.start)
            self.marks.attach(bench)
            bench.table.view.addActions([self.actions_by_name[n] for n in ("mark", "edit_note", "export")])
            bench.view.set_text_scale(self.settings.text_scale)
            bench.set_near_tie(self.settings.near_tie)
            self._bench = bench
            window_actions.add_columns_menu(self.actions_by_name, bench.table.columns_menu)
            self.stack.addWidget(bench)
            self._place_splitters()
        if self.stack.currentWidget() is not self._bench:
            self.stack.setCurrentWidget(self._bench)
            self._bench.view.panes.setFocus()
        return self._bench

    @property
    def shown_bench(self) -> Workbench | None:
        """The workbench where there is one, None on the start page."""
        return self._bench

    def _place_splitters(self) -> None:
        """The sketch's proportions at this size; later the splitters keep what a person makes of them."""
        assert self._bench is not None
        width, height = max(self.width(), 900), max(self.height(), 600)
        table = max(min(self._bench.table.sizeHint().width(), width // 4), min(round(0.215 * width), 340))
        inspector = min(max(250, round(0.215 * width)), 340)
        self._bench.setSizes([table, width - table])
        self._bench.view.columns.setSizes([width - table - inspector, inspector])
        self._bench.view.rows.setSizes([round(0.7 * height), round(0.3 * height)])

    # Files.

    def open_file(self, path: Path) -> None:
        """Open a file of data here, or in another window where this one is busy; a wrong file gets a sentence."""
        path = Path(path)
        if self.control.running or (self._bench is not None and self._bench.session is not None):
            self.open_elsewhere_requested.emit(path)
            return
        try:
            session = self.verbs.open_session(path, self.settings.near_tie)
        except AppError as error:
            self._cannot_open(path, error)
            return
        try:
            self.bench().use(session)
        except AppError as error:
            session.close()
            self._cannot_open(path, error)
            return
        self.banner.hide()
        if self._is_sample():
            said = "RECORDED: this run was made earlier, on another machine."
            self.banner.say("notice", said, "Nothing is being computed.", "Replay at reading speed", self.runs.replay)
            return
        self.settings.remember(path)
        self.settings_changed.emit()
        if session.verification is not None:
            self.bundles.show_opened(session)
        elif session.notice:
            self.banner.say("notice", "This file is open for reading only.", session.notice)

    def _cannot_open(self, path: Path, error: AppError) -> None:
        if self._bench is not None and self._bench.session is None:
            self.stack.setCurrentWidget(self.start_page)
        name = "" if path.name in error.message else f"{path.name}: "
        self.banner.say("error", name + error.message, error.hint)

    def open_sample(self) -> None:
        """Open the recorded sample."""
        self.open_file(paths.sample_file())

    def ask_for_file(self) -> None:
        """The file dialog."""
        names, _ = QFileDialog.getOpenFileNames(self, "Open", str(paths.data_dir()), FILE_FILTER)
        for name in names:
            self.open_file(Path(name))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Files are welcome, nothing else."""
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open what was dropped."""
        event.acceptProposedAction()
        for url in event.mimeData().urls():
            if url.isLocalFile():
                self.open_file(Path(url.toLocalFile()))

    def _fill_recent_menu(self) -> None:
        self._recent_menu.clear()
        for file in self.settings.recent_files():
            action = self._recent_menu.addAction(file.name.replace("&", "&&"))
            action.setToolTip(str(file))
            action.triggered.connect(lambda _checked=False, file=file: self.open_file(file))
        if self._recent_menu.isEmpty():
            self._recent_menu.addAction("Nothing yet").setEnabled(False)

    # What is said.

    def say(self, sentence: str) -> None:
        """A sentence in the status bar, for a while."""
        self.said_words.setText(sentence)
        self._hush.start()

    def flash(self, sentence: str) -> None:
        """There is no next one: say so, and let the status bar flash."""
        self.say(sentence)
        bar = self.statusBar()
        for on, delay_ms in ((True, 0), (False, FLASH_MS)):
            QTimer.singleShot(delay_ms, bar, lambda on=on: (bar.setProperty("flash", on), bar.style().polish(bar)))

    def _engine_said(self, sentence: str) -> None:
        self._said = sentence
        self._show_state()

    def _show_state(self) -> None:
        """Actions and run bar as the run allows."""
        control, actions = self.control, self.actions_by_name
        running = control.running
        bench = self._bench
        has_pair = bench is not None and bench.view.pair is not None
        for name in ("run", "demo"):
            actions[name].setEnabled(not running)
        actions["stop"].setEnabled(running and not control.stopping)
        actions["follow"].setEnabled(running and control.kind is Kind.RUN)
        actions["pause"].setEnabled(running and control.kind is Kind.REPLAY)
        if not running:
            actions["pause"].setChecked(False)
            self._said = ""
        actions["replay"].setEnabled(has_pair and not running)
        experiment = bench.experiment if bench is not None else None
        self._show_what_can_be_asked(has_pair)
        self._show_marks()
        unfinished = experiment is not None and experiment.status not in (Status.DONE, Status.RUNNING)
        actions["resume"].setEnabled(unfinished and not running)
        self.run_bar.show_state(control, self._said)
        replaying = running and control.kind is Kind.REPLAY
        self.run_bar.recorded.setVisible(replaying or self._is_sample())
        self._show_size()

    def _show_what_can_be_asked(self, has_pair: bool) -> None:
        """Grey what the engine of this pair, or this machine, cannot do, and say why in the tooltip."""
        bench = self._bench
        experiment = bench.experiment if bench is not None else None
        again = ids = on_server = "There is no pair."
        if bench is not None and has_pair:
            self.trial.find_server()
            can, why = bench.can_run_again()
            bench.view.inspector.set_can_run_again(can, why)
            again = "" if can else why
            on_server = self.trial.why_not()
            bench.view.inspector.set_can_try(not on_server, on_server or WHAT)
        if experiment is not None:
            ids = why_no_ids(experiment.environment)
        reasons = {"run_again": again, "copy_ids": ids, "copy_rows": ids, "try_on_server": on_server}
        for name, why_not in reasons.items():
            self.actions_by_name[name].setEnabled(not why_not)
            self.actions_by_name[name].setToolTip(why_not)

    def _show_marks(self) -> None:
        """What can be done with marks and bundles, and why not."""
        bench, actions = self._bench, self.actions_by_name
        why_not = self.bundles.why_not()
        fixed = bench.table.note.why_not if bench is not None else ""
        no_pair = "" if bench is not None and bench.shown is not None else "There is no pair."
        why_not |= dict.fromkeys(("mark", "edit_note"), no_pair or fixed)
        why_not["undo_unmark"] = fixed or ("" if self.marks.can_undo else "No mark was taken away.")
        for name, reason in why_not.items():
            actions[name].setEnabled(not reason)
            actions[name].setToolTip(reason)
        actions["mark"].setChecked(self.marks.shown_is_marked)

    def _is_sample(self) -> bool:
        session = self._bench.session if self._bench is not None else None
        return session is not None and session.path.resolve() == paths.sample_file().resolve()

    def _show_file(self) -> None:
        """Title, status bar and actions for what is open now."""
        bench = self._bench
        session = bench.session if bench is not None else None
        experiment = bench.experiment if bench is not None else None
        self.setWindowTitle(f"{session.path.name} — Forkpoint" if session is not None else "Forkpoint")
        self.run_bar.title.setText(experiment.title if experiment is not None else "")
        self._environment_words.setText(environment_line(experiment.environment) if experiment is not None else "")
        for name in ("environment", "show_folder"):
            self.actions_by_name[name].setEnabled(experiment is not None)
        self.start_page.set_recent(self.settings.recent_files())
        self._show_state()

    def _show_size(self) -> None:
        session = self._bench.session if self._bench is not None else None
        if session is None:
            self._file_words.setText("")
            return
        recording = self.control.running and self.control.kind is Kind.RUN
        access = "read-only" if session.read_only and not recording else "every step on disk"
        self._file_words.setText(f"{session.path.name} · {size_text(session.size_bytes())} · {access}")

    # Looks.

    def show_settings(self, theme: Theme) -> None:
        """Apply what a person has chosen; the application has dressed the widgets already."""
        self.theme = theme
        self.actions_by_name[f"theme_{self.settings.theme}"].setChecked(True)
        if self._bench is not None:
            self._bench.table.set_theme(theme)
            self._bench.view.set_theme(theme)
            self._bench.view.set_text_scale(self.settings.text_scale)
            self._bench.set_near_tie(self.settings.near_tie)

    def choose_theme(self, choice: str) -> None:
        """Light, dark, or the system's ("auto")."""
        self.settings.theme = choice
        self.settings_changed.emit()

    def change_text_scale(self, direction: int) -> None:
        """The next larger (1) or smaller (-1) text size; 0 is the normal one."""
        nearest = min(range(len(TEXT_SCALES)), key=lambda at: abs(TEXT_SCALES[at] - self.settings.text_scale))
        wanted = nearest + direction
        if direction and not 0 <= wanted < len(TEXT_SCALES):
            self.flash("That is the last text size.")
            return
        self.settings.text_scale = TEXT_SCALES[wanted] if direction else 1.0
        self.settings_changed.emit()

    # The end.

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask where a run goes on; then give back the run, the file and the threads."""
        if self.control.running and self.control.kind is not Kind.REPLAY and not self._may_stop():
            event.ignore()
            return
        self.bundles.close()
        self.control.close()
        if self._bench is not None:
            self._bench.close_session()
        event.accept()
        self.closed.emit(self)

    def _may_stop(self) -> bool:
        answer = QMessageBox.question(
            self,
            "Forkpoint",
            "A run is going on. Stop it and close the window?\n\nWhat was recorded stays, and the run can go on later.",
            QMessageBox.StandardButton.Close | QMessageBox.StandardButton.Cancel,
            QMessageBox.StandardButton.Cancel,
        )
        return answer is QMessageBox.StandardButton.Close
