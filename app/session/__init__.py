"""The product without a window: open, list, load, compare, run, resume. The commands and the views call these verbs."""

from __future__ import annotations

from app.engine.base import Sampling
from app.engine.default_model import default_model, default_model_licence
from app.engine.settings import KV_TYPES, EmbeddedSettings
from app.experiment.plans import DEMO_SECONDS, RunRequest, choose
from app.experiment.summary_report import summary_lines, summary_report
from app.session.files import check_model, quantise, unpack
from app.session.runs import RunHandle, resume_run, run_again, start_run
from app.session.self_tests import SELF_TESTS
from app.session.session import Session
from app.settings import Settings

__all__ = [
    "DEMO_SECONDS",
    "KV_TYPES",
    "SELF_TESTS",
    "EmbeddedSettings",
    "RunHandle",
    "RunRequest",
    "Sampling",
    "Session",
    "Settings",
    "check_model",
    "choose",
    "default_model",
    "default_model_licence",
    "quantise",
    "resume_run",
    "run_again",
    "start_run",
    "summary_lines",
    "summary_report",
    "unpack",
]
