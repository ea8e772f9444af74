"""Records made-up steps without end, in a process of its own: `python -m tests.unit.store.endless FILE [BYTES]`.

With BYTES the operating system lets no file grow beyond that, as a full disk does. Says on stdout what happens:
"taken N" before N steps in all are handed to the recorder, "full SENTENCE" where it refuses them.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path as FilePath

from app.errors import StoreError
from app.store.recorder import Recorder
from app.trajectory.step import as_ids
from app.trajectory.trajectory import Path, Prompt, RequestReport
from tests.builders import step

BATCH = 64
BATCHES_A_REQUEST = 3


def main(file: FilePath, most_bytes: int | None) -> None:
    recorder = Recorder(file)
    experiment_id = recorder.add_experiment("endless", {}, {})
    pass_id = recorder.add_pass(experiment_id, Path.CACHED, 1, ["made-00"], {})
    trajectory_id = recorder.start_trajectory(pass_id, "made-00", "made")
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    batch = [step(id) for id in range(BATCH)]
    taken = 0
    try:
        for index in range(1_000_000):
            recorder.start_request(trajectory_id, index, Prompt(as_ids([index]), 0, ()))
            for _ in range(BATCHES_A_REQUEST):
                taken += BATCH
                print("taken", taken, flush=True)
                recorder.append(trajectory_id, index, batch)
            recorder.finish_request(trajectory_id, index, RequestReport(0, 1, (1,), "stop"), (), (), ())
    except StoreError as error:
        print("full", error, flush=True)
    recorder.close()


if __name__ == "__main__":
    main(FilePath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
