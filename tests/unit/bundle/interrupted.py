"""An export that the system ends: `python -m tests.unit.bundle.interrupted full|killed FOLDER`."""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path as FilePath

from app.bundle.write import write_bundle
from app.errors import BundleError
from tests.unit.bundle.made_bundles import contents_of_two_pairs


def main(how: str, folder: FilePath) -> None:
    if how == "full":  # the system refuses more bytes, as a full disk does
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
    else:  # dies at the moment when all is written and nothing is in place
        os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)  # noqa: ARG005
    try:
        write_bundle(replace(contents_of_two_pairs(), answers={"gpu": "another"}), folder / "b.zip", replace=True)
    except BundleError as error:
        print(error)


if __name__ == "__main__":
    main(sys.argv[1], FilePath(sys.argv[2]))
