"""A recorded fork tried on a llama-server that is started here: does it survive there?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.errors import AppError
from app.session import ReplayOn
from app.trajectory.events import Replayed
from app.trajectory.reproducer import ReplayResult, Served
from app.views.banner import Banner
from app.views.reasons import why_not_on_server
from app.views.run_control import Kind, RunControl
from app.views.verbs import Verbs

if TYPE_CHECKING:  # the workbench loads pyqtgraph: only once there is something to show
    from app.views.workbench import Workbench

LOOK_MS = 50
SEARCHING = "Looking for a llama-server…"
WHAT = "Asks the fork again on a llama-server that is started here: the same history, the same request, on both paths."
BUSY = "Something else is running; stop it first."
SURVIVES = {
    "reproduced": "It survives",
    "does not fork": "It does not fork there",
    "forks elsewhere": "It forks there, but elsewhere",
    "cannot be compared": "It cannot be compared",
}

Lines = list[tuple[str, bool | None]]


def sentence(event: Replayed) -> str:
    """The answer in one sentence, e.g. "It survives on llama-server: units-05, request 4, token 25"."""
    verdict = event.result.verdict
    there = " on llama-server" if verdict == "reproduced" else ""
    return f"{SURVIVES[verdict]}{there}: {event.place or event.result.episode_id}."


def counts(served: Served) -> str:
    """What one request took from the cache, there and as recorded."""
    words = ["not reported" if n is None else f"{n:,}" for n in (served.cached, served.recorded_cached)]
    other = "" if served.deviates_at is None else f"; another answer from token {served.deviates_at + 1} on"
    return f"{served.name}: {words[0]} from the cache, recorded {words[1]}{other}"


def lines(result: ReplayResult) -> Iterator[tuple[str, bool | None]]:
    """The answer and the counts that prove it, for the inspector."""
    survives = result.verdict == "reproduced"
    yield f"llama-server: {result.verdict}. {result.because}", survives
    for served in result.served[-2:]:
        yield counts(served), served.cached == served.recorded_cached


class TryOnServer(QObject):
    """Begins the try, and tells its answer. `changed`: whether it can be tried may be another than before."""

    changed = Signal()

    def __init__(
        self, verbs: Verbs, control: RunControl, banner: Banner, bench: Callable[[], Workbench], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._verbs = verbs
        self._control = control
        self._banner = banner
        self._bench = bench
        self._trouble = SEARCHING
        self._answer: str | None = None
        self._look = QTimer(self, interval=LOOK_MS)
        self._look.timeout.connect(self._take)
        control.replayed.connect(self._replayed)
        control.said.connect(self._said)

    def find_server(self) -> None:
        """Look whether there is a llama-server, once, in a thread: that loads the engine's code."""
        if self._trouble is SEARCHING and not self._look.isActive():
            threading.Thread(target=self._find, name="find llama-server", daemon=True).start()
            self._look.start()

    @property
    def is_searching(self) -> bool:
        """Whether it is not known yet if there is a llama-server."""
        return self._look.isActive()

    def why_not(self) -> str:
        """Why the shown fork cannot be tried now, "" where it can."""
        if self._control.running:
            return BUSY
        return why_not_on_server(self._bench().view.pair, self._trouble)

    def start(self) -> None:
        """Try the shown fork."""
        bench = self._bench()
        pair = bench.view.pair
        if self.why_not() or pair is None or bench.session is None or bench.experiment is None:
            return
        self._banner.hide()
        try:
            episode = pair.cached.episode_id
            run = self._verbs.replay_pairs(bench.session, bench.experiment.id, [episode], ReplayOn("managed"))
        except AppError as error:
            self._banner.show_error(error)
            return
        self._control.begin(run, Kind.TRY)

    def _said(self, said: str) -> None:
        if self._control.kind is Kind.TRY:
            self._bench().view.inspector.set_again_lines([(f"llama-server: {said}", None)])

    def _replayed(self, event: Replayed) -> None:
        if self._control.kind is not Kind.TRY:
            return
        self._bench().view.inspector.set_again_lines(list(lines(event.result)))
        served = " ".join(f"{counts(one)}." for one in event.result.served[-2:])
        self._banner.say("notice", sentence(event), f"{event.result.because} {served}".strip())

    def _find(self) -> None:
        """In the thread."""
        try:
            self._verbs.find_server(None)
        except AppError as error:
            self._answer = str(error)
        else:
            self._answer = ""

    def _take(self) -> None:
        if self._answer is not None:
            self._trouble = self._answer
            self._look.stop()
            self.changed.emit()
