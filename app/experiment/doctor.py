"""The doctor: is this engine reproducible, what can be proved on it, and which flags would make it so?

It learns everything from the engine contract alone: from answers, and from the counts that come with them.
"""

from __future__ import annotations

from collections.abc import Callable

from app.engine.base import Engine, StopFlag
from app.errors import SettingsError
from app.experiment.doctor_diagnosis import Diagnosis
from app.experiment.doctor_findings import Case
from app.experiment.doctor_probes import Asker

MOST_PROBES = 80


def examine(engine: Engine, *, probes: int = 6, tell: Callable[[str], None], stop: StopFlag) -> Diagnosis:
    """Examine an engine; a minute or two on a small model. It evicts what others have in the engine's cache.

    Raises EngineError where the engine fails, EngineDied where it ends or `stop` is set, SettingsError for a number of
    probes that is none.
    """
    if not 1 <= probes <= MOST_PROBES:
        raise SettingsError(f"probes is {probes}.", f"It must be 1 to {MOST_PROBES}.")
    can = engine.describe().capabilities
    by_itself = can.caching is not False  # else it is as a client meets it only where nothing is taken from the cache
    asker = Asker(engine, tell, stop)
    try:
        around = asker.around(fresh=not by_itself)
        stored = around if by_itself else asker.around(fresh=False)
        found = list(asker.probes(probes, cached=by_itself, recompute=can.recompute is not False))
    finally:
        asker.close()
    return Case(engine.describe(), around, stored, found, asker.everything).diagnose()
