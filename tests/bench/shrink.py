"""*Shrink* on a real fork: how much of its time is the engine's, and how much of what it asks is evaluated again.

The pair is one of the sample's; where that does not fork on this machine, a run looks for one that does.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copy
from threading import Event

from app.engine.base import GenerateRequest, Progress, StopFlag
from app.engine.default_model import default_model
from app.engine.embedded.engine import EmbeddedEngine
from app.engine.settings import EmbeddedSettings
from app.experiment.plans import from_plan
from app.experiment.shrink import Shrinker
from app.experiment.shrink_request import ShrinkRequest
from app.paths import sample_file
from app.session import RunRequest, Session, start_run
from app.trajectory.events import Event as RunEvent
from app.trajectory.events import RunEnded, RunFailed, Shrunk
from app.trajectory.reproducer import reproducer_of
from app.trajectory.step import Step
from app.trajectory.trajectory import RequestReport

BUDGET_S = 90.0
ENGINE_BAR = 0.90


class Counting(EmbeddedEngine):
    """Counts prompt tokens: those that were asked, and those of them that were evaluated."""

    asked = evaluated = 0

    def generate(
        self, number: int, request: GenerateRequest, stop: StopFlag
    ) -> Iterator[Progress | Step | RequestReport]:
        """Answer, and count."""
        self.asked += len(request.prompt_ids)
        for item in super().generate(number, request, stop):
            if isinstance(item, RequestReport):
                self.evaluated += item.evaluated_tokens or 0
            yield item


def main() -> bool:
    """Print the figures; whether the bar is missed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(copy(sample_file(), folder))
        found = search(file)
        if found is None:
            file = Path(folder) / "fork.forkpoint"
            handle = start_run(RunRequest(settings=EmbeddedSettings(threads=1), until_fork=True, out=file))
            handle.join()
            found = search(file)
    if found is None:
        print("no pair forked here, so there is nothing to measure")
        return True
    last, engine = found
    share = last.engine_seconds / last.seconds
    print(last.sentence)
    print(f"in the engine: {100 * share:.2f} % of {last.seconds:.1f} s (bar {100 * ENGINE_BAR:.0f} %)")
    print(f"prompt tokens: {engine.asked:,} asked, {engine.evaluated:,} evaluated "
          f"({100 * engine.evaluated / engine.asked:.1f} %)")  # fmt: skip
    return share < ENGINE_BAR


def search(file: Path) -> tuple[Shrunk, Counting] | None:
    """Shrink the first pair of the file that forked; None where none did, or the fork does not show here."""
    events: list[RunEvent] = []
    engines: list[Counting] = []
    with closing(Session.open(file)) as session:
        info = session.experiment()
        forked = [row.episode_id for row in session.rows(info.id) if row.kind == "token"]
        if not forked:
            return None
        pair = session.pair(info.id, forked[0])
        reproducer = reproducer_of(pair, session.pair_reader(info.id).earlier(pair.cached), info.plan)
    request = ShrinkRequest(reproducer, info, pair.cached.family, 1, BUDGET_S, file, session.near_tie)

    def opened() -> Counting:
        run, _ = from_plan(info.plan)
        engines.append(Counting(run.model or default_model(), run.settings))
        return engines[-1]

    Shrinker(opened, request, events.append, Event()).run()
    if isinstance(events[-1], RunFailed):
        print(events[-1].message)
        return None
    assert isinstance(events[-1], RunEnded)
    last = [event for event in events if isinstance(event, Shrunk)][-1]
    return last, engines[-1]


if __name__ == "__main__":
    sys.exit(main())
