"""The product without a window: open, list, load, compare, run, resume. The commands and the views call these verbs."""

from __future__ import annotations

from app.bundle.format import CANNOT, FORMS, LABELS, QUESTIONS, REDACTIONS, Form, Redaction
from app.engine.base import Capabilities, EngineInfo, Sampling
from app.engine.default_model import default_model, default_model_licence
from app.engine.server_settings import CACHE_TYPES, KEY_VARIABLE, ManagedSettings, ServerSettings
from app.engine.settings import KV_TYPES, EmbeddedSettings
from app.experiment.doctor import MOST_PROBES
from app.experiment.doctor_diagnosis import Diagnosis, Finding
from app.experiment.doctor_report import diagnosis_lines, diagnosis_report, probe_lines
from app.experiment.plans import DEMO_SECONDS, RunRequest, choose, without_password
from app.experiment.replay_report import exit_code as replay_exit_code
from app.experiment.replay_report import replay_lines, replay_report
from app.experiment.summary_report import summary_lines, summary_report
from app.session.bundle_contents import ExportRequest, form_of, known_answers, log_excerpt, open_questions
from app.session.bundles import (
    Prepared,
    export_pairs,
    export_report,
    issue_words,
    preview_export,
    verification_report,
    verify,
)
from app.session.doctor import Examination, evicts_others
from app.session.exporting import ExportJob, script_seconds
from app.session.exporting import prepare as prepare_export
from app.session.exporting import write as write_export
from app.session.files import check_model, quantise, unpack
from app.session.marks import mark, marks_of, why_no_marks
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
    "CANNOT",
    "DEMO_SECONDS",
    "FORMS",
    "KEY_VARIABLE",
    "KV_TYPES",
    "LABELS",
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
    "ExportJob",
    "ExportRequest",
    "Finding",
    "Form",
    "ManagedSettings",
    "Prepared",
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
    "form_of",
    "issue_words",
    "known_answers",
    "log_excerpt",
    "mark",
    "marks_of",
    "model_of",
    "open_questions",
    "prepare_export",
    "preview_export",
    "probe_lines",
    "quantise",
    "replay_exit_code",
    "replay_lines",
    "replay_pairs",
    "replay_report",
    "resume_run",
    "run_again",
    "script_seconds",
    "server_command",
    "shrink",
    "start_run",
    "summary_lines",
    "summary_report",
    "unpack",
    "verification_report",
    "verify",
    "why_no_marks",
    "without_password",
    "write_export",
]
