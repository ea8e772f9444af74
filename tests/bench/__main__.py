"""`make bench`: every bar of speed and size, one module after the other. Exits 1 where a bar is missed."""

from __future__ import annotations

import os
import subprocess
import sys

MODULES = ("engine", "server", "recording", "pair", "bundle", "shrink", "window")
"""Each prints its figures with their bars and exits 1 where one is missed; a process of its own keeps them apart."""


def main() -> int:
    """Run all, then say which missed a bar."""
    missed = []
    for module in MODULES:
        print(f"\n== {module} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)", flush=True)
        if subprocess.run([sys.executable, "-m", f"tests.bench.{module}"], check=False).returncode:
            missed.append(module)
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nevery bar is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
