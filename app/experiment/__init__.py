"""WHAT IS MEASURED: plans, the runner, acceptance checks."""
