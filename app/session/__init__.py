"""The product without a window: open, list, load, compare, run, resume. The commands and the views call these verbs."""

from __future__ import annotations

from app.bundle.format import FORMS, QUESTIONS, REDACTIONS, Form, Redaction
from app.engine.base import Capabilities, EngineInfo, Sampling
from app.engine.default_model import default_model, default_model_licence
from app.engine.server_settings import CACHE_TYPES, KEY_VARIABLE, ManagedSettings, ServerSettings
from app.engine.settings import KV_TYPES, EmbeddedSettings
from app.experiment.doctor import MOST_PROBES
from app.experiment.doctor_diagnosis import Diagnosis, Finding
from app.experiment.doctor_report import diagnosis_lines, diagnosis_report
from app.experiment.plans import DEMO_SECONDS, RunRequest, choose, without_password
from app.experiment.replay_report import exit_code as replay_exit_code
from app.experiment.replay_report import replay_lines, replay_report
from app.experiment.summary_report import summary_lines, summary_report
from app.session.bundle_contents import ExportRequest, known_answers, log_excerpt
from app.session.bundles import export_pairs, export_report, preview_export, verification_report, verify
from app.session.doctor import Examination, evicts_others
from app.session.files import check_model, quantise, unpack
from app.session.replay import ReplayOn, bundled_episodes, model_of, replay_pairs
from app.session.repro_check import ScriptRunner
from app.session.runs import RunHandle, resume_run, run_again, start_run
from app.session.self_tests import SELF_TESTS
from app.session.servers import ConnectionTest, Pulse, find_server, server_command
from app.session.session import Session
from app.session.shrinking import shrink
from app.settings import Settings

__all__ = [
    "CACHE_TYPES",
    "DEMO_SECONDS",
    "FORMS",
    "KEY_VARIABLE",
    "KV_TYPES",
    "MOST_PROBES",
    "QUESTIONS",
    "REDACTIONS",
    "SELF_TESTS",
    "Capabilities",
    "ConnectionTest",
    "Diagnosis",
    "EmbeddedSettings",
    "EngineInfo",
    "Examination",
    "ExportRequest",
    "Finding",
    "Form",
    "ManagedSettings",
    "Pulse",
    "Redaction",
    "ReplayOn",
    "RunHandle",
    "RunRequest",
    "Sampling",
    "ScriptRunner",
    "ServerSettings",
    "Session",
    "Settings",
    "bundled_episodes",
    "check_model",
    "choose",
    "default_model",
    "default_model_licence",
    "diagnosis_lines",
    "diagnosis_report",
    "evicts_others",
    "export_pairs",
    "export_report",
    "find_server",
    "known_answers",
    "log_excerpt",
    "model_of",
    "preview_export",
    "quantise",
    "replay_exit_code",
    "replay_lines",
    "replay_pairs",
    "replay_report",
    "resume_run",
    "run_again",
    "server_command",
    "shrink",
    "start_run",
    "summary_lines",
    "summary_report",
    "unpack",
    "verification_report",
    "verify",
    "without_password",
]
