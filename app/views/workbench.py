"""The pair table beside the pair: which file, experiment and pair are shown, and how a run moves them."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QWidget

from app.errors import AppError
from app.session import Session
from app.trajectory.events import RunEnded, RunStarted
from app.trajectory.pair import PATH_NAMES, Names, PairRow
from app.trajectory.trajectory import ExperimentInfo, Path, Trajectory
from app.views.live import LivePair, PairKey
from app.views.pair_table import PairTable
from app.views.pair_view import PairView
from app.views.reasons import why_no_ids, why_no_run_again
from app.views.run_control import Kind, RunControl
from app.views.theme import Theme

WAITING = (
    "Loading the engine…",
    "The first tokens come in a few seconds. What is recorded stays, whatever happens.",
    "Nothing has been asked yet.",
)
"""Headline, detail and what the empty panes say."""


class Workbench(QSplitter):
    """Owns the open session (`close` closes it). Follows a run to its newest pair until a person picks another."""

    experiment_changed = Signal()
    pair_changed = Signal()
    follow_changed = Signal(bool)

    def __init__(self, theme: Theme, control: RunControl, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.session: Session | None = None
        self.experiment: ExperimentInfo | None = None
        self.shown: PairKey | None = None
        self.following = False
        self._control = control
        self._shown_live = False
        self.table = PairTable(theme)
        self.view = PairView(theme)
        self.addWidget(self.table)
        self.addWidget(self.view)
        self.setHandleWidth(1)
        self.setChildrenCollapsible(False)
        self.setStretchFactor(0, 0)
        self.setStretchFactor(1, 1)
        self.table.experiment_chosen.connect(self.show_experiment)
        self.table.pair_chosen.connect(self._chosen_by_user)
        control.pair_began.connect(self._pair_began)
        control.pairs_changed.connect(self._pairs_changed)
        control.pair_compared.connect(self._pair_compared)
        control.answered_again.connect(self.view.show_again)
        control.said.connect(self._say)

    # Files and experiments.

    def use(self, session: Session) -> None:
        """Show a file: its newest experiment, on the first pair that forked. Raises what the session raises."""
        experiments = session.experiments()
        self.close_session()
        self.session = session
        if experiments:
            self._use_experiment(experiments[0], experiments)
        else:
            self.show_empty("This file holds no experiment yet.", "Press Ctrl+R to run one.")

    def close_session(self) -> None:
        """Let the file go."""
        if self.session is not None:
            self.session.close()
        self.session = self.experiment = self.shown = None

    def show_empty(self, headline: str, detail: str) -> None:
        """No pair, and why."""
        self.shown, self._shown_live = None, False
        self.table.set_experiments([], None)
        self.table.set_rows([])
        self.view.show_nothing(headline, detail)
        self.experiment_changed.emit()
        self.pair_changed.emit()

    def show_experiment(self, experiment_id: int) -> None:
        """Show another experiment of the same file."""
        if self.session is not None:
            experiments = self.session.experiments()
            self._use_experiment(next(e for e in experiments if e.id == experiment_id), experiments)

    def _use_experiment(self, experiment: ExperimentInfo, experiments: list[ExperimentInfo]) -> None:
        assert self.session is not None
        rows = self.session.rows(experiment.id)
        self.experiment, self.shown = experiment, None
        self.table.set_experiments(experiments, experiment.id)
        self.table.set_rows(rows)
        self.experiment_changed.emit()
        self._show_first(rows)

    def _show_first(self, rows: Sequence[PairRow]) -> None:
        forked = [row for row in rows if row.diverged and row.valid]
        compared = [row for row in rows if row.diverged is not None]
        first = next(iter(forked or compared or rows), None)
        if first is None:
            self.view.show_nothing("This experiment has no pair yet.", "Press Ctrl+R to run one.")
        else:
            self.show_pair((first.episode_id, 1))

    def set_near_tie(self, nats: float) -> None:
        """Judge what is open by another near-tie threshold."""
        self.view.set_near_tie(nats)
        if self.session is not None and self.session.near_tie != nats:
            self.session.near_tie = nats
            if self.experiment is not None and not self._control.running:
                shown = self.shown
                self.table.set_rows(self.session.rows(self.experiment.id))
                if shown is not None:
                    self.show_pair(shown)

    # Pairs.

    def show_pair(self, key: PairKey) -> None:
        """Show a pair as it stands: live where it is being run, from the file else."""
        self._show_pair(key)
        self.pair_changed.emit()

    def _show_pair(self, key: PairKey) -> None:
        self.shown = key
        self.table.select(key[0])
        live = self._control.live.pair(key) if self._control.running else None
        if live is not None:
            self._show_live(live, new=True)
            return
        self._shown_live = False
        if self.session is None or self.experiment is None:
            self.view.show_nothing(*WAITING)
            return
        try:
            pair = self.session.pair(self.experiment.id, *key)
        except AppError as error:
            self.view.show_nothing(error.message, error.hint)
            return
        self.view.panes.why_no_ids = why_no_ids(self.experiment.environment)
        self.view.show_pair(pair, *self.can_run_again())

    def can_run_again(self) -> tuple[bool, str]:
        """Whether both paths can be asked again now, else why not."""
        if self._control.running and self._control.kind is not Kind.AGAIN:
            return False, "Something else is running; stop it first."
        if self.session is not None and self.session.verification is not None:
            return False, "A bundle's own plan is never run; Run › Replay here takes its settings by an allow-list."
        if self.experiment is not None and (reason := why_no_run_again(self.experiment.environment)):
            return False, reason
        return not self._control.running, "Both paths are being asked again."

    def follow(self, following: bool) -> None:
        """Follow the run, or stay where a person looks."""
        if following != self.following:
            self.following = following
            self.follow_changed.emit(following)
        newest = self._control.live.newest
        if following and newest is not None and newest != self.shown:
            self.show_pair(newest)

    def _chosen_by_user(self, episode_id: str) -> None:
        if self._control.running and self._control.kind is Kind.RUN:
            self.follow(False)
        self.show_pair((episode_id, 1))

    # What a run says.

    def run_began(self, headline: str) -> None:
        """A run was just asked for: say so at once, before its first event."""
        self.close_session()
        self.following = False
        self.follow(True)
        self.table.show_run(True)
        self._say(headline)

    def experiment_started(self, session: Session, event: RunStarted) -> None:
        """The run's file is there: show its rows while they fill."""
        self.close_session()
        self.session = session
        experiments = session.experiments()
        self.experiment = next(e for e in experiments if e.id == event.experiment_id)
        self.table.set_experiments(experiments, event.experiment_id)
        self.table.set_rows(session.rows(event.experiment_id))
        self.experiment_changed.emit()

    def run_ended(self, event: RunEnded | None) -> None:
        """Read the file once more, and stand where the run led: on the fork it found, else where a person looks."""
        self.table.show_run(False)
        if self.session is None or self.experiment is None:
            if self.shown is None:
                self.show_empty("Nothing was recorded.", "Press Ctrl+R to run again.")
            return
        key = self.shown
        experiments = self.session.experiments()
        self.experiment = next(e for e in experiments if e.id == self.experiment.id)
        self.table.set_experiments(experiments, self.experiment.id)
        rows = self.session.rows(self.experiment.id)
        self.table.set_rows(rows)
        self.experiment_changed.emit()
        if event is not None and event.reason == "forked" and event.episode_id is not None:
            key = (event.episode_id, 1)
        if key is None:
            self._show_first(rows)
        elif self._shown_live or key != self.shown or self.view.pair is None:
            self.show_pair(key)
        else:
            self.view.inspector.set_can_run_again(*self.can_run_again())

    def _say(self, sentence: str) -> None:
        if self.session is None and not self._control.live.newest:
            self.view.show_nothing(sentence, *WAITING[1:])

    def _pair_began(self, key: PairKey) -> None:
        if self._control.kind is Kind.RUN:
            self.table.show_run(True, key[0])
        if self.following or self._control.kind is Kind.REPLAY:
            self.show_pair(key)

    def _pairs_changed(self, keys: set[PairKey]) -> None:
        live = self._control.live.pair(self.shown) if self.shown in keys and self.shown is not None else None
        if live is not None and (self._shown_live or self.view.pair is None):
            self._show_live(live, new=not self._shown_live)

    def _pair_compared(self, row: PairRow) -> None:
        if self.experiment is not None and row.experiment_id != self.experiment.id:
            return  # a search records into an experiment of its own
        if row.repeat == 1:
            self.table.update_row(row)
        if self._shown_live and self.shown == (row.episode_id, row.repeat):
            self._control.live.forget(self.shown)
            self.show_pair(self.shown)

    def _show_live(self, live: LivePair, new: bool) -> None:
        self._shown_live = True
        assert self.shown is not None
        live.look_for_fork()
        names = self._control.live.names(self.shown)
        headline, detail = live_words(live, self.shown, self._control.kind, names)
        why_not = "A replay is going on." if self._control.kind is Kind.REPLAY else "The run goes on."
        self.view.show_live(live, self._control.live.pieces, headline, detail, new, why_not, names)


def live_words(live: LivePair, key: PairKey, kind: Kind, names: Names = PATH_NAMES) -> tuple[str, str]:
    """What a pair that grows is doing, as headline and detail."""
    episode, repeat = key
    what = "RECORDED · replaying" if kind is Kind.REPLAY else "Running"
    again = f", repeat {repeat}" if repeat > 1 else ""
    cached, recompute = live.side(Path.CACHED), live.side(Path.RECOMPUTE)
    by_path = names == PATH_NAMES
    later, earlier = (recompute, cached) if by_path and kind is Kind.RUN else (cached, recompute)
    now = later or earlier
    if now is None:
        return f"{what} {episode}{again}", ""
    name = names[0] if now is cached else names[1]
    path = "both sides together" if kind is Kind.REPLAY else f"the {name} path" if by_path else f"the {name}"
    place = _place_in(now)
    if live.fork is not None:
        goes_on = "the replay goes on" if kind is Kind.REPLAY else f"{path} goes on"
        detail = f"{what} {episode}{again}. {place} What follows the fork answers other contexts."
        return f"Forked at {live.fork.place}; {goes_on}", detail
    so_far = " No fork so far." if earlier is not None and later is not None else ""
    return f"{what} {episode}{again} on {path}", place + so_far


def _place_in(growing: Trajectory) -> str:
    """Where an answer is that grows."""
    if not growing.requests:
        return ""
    tokens = len(growing.requests[-1].steps)
    return f"Request {len(growing.requests)}, " + (f"token {tokens}." if tokens else "its prompt.")
