"""A diagnosis as the doctor's page shows it: verdict, findings, probes, the command that would help."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.session import Diagnosis, Finding, probe_lines
from app.views.text_label import set_role, text_label

MARKS = {"OK": ("✓", "good"), "WARN": ("▲", "doubt"), "FAIL": ("✗", "problem"), "UNKNOWN": ("?", "muted")}
"""Shape and role of the style sheet for each status."""

VERDICTS = {0: ("✓", "good"), 1: ("✗", "problem"), 2: ("?", "doubt")}
QUESTION_WIDTH = 250
COMMAND_LINES = 4


class DiagnosisView(QWidget):
    """Shows one `Diagnosis`."""

    def __init__(self, diagnosis: Diagnosis, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        self.verdict = _verdict(diagnosis)
        column.addWidget(self.verdict)
        column.addWidget(_facts(diagnosis))
        column.addWidget(_findings(diagnosis.findings))
        if diagnosis.probes:
            column.addWidget(_line())
            probes = text_label()
            probes.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
            probes.setText("\n".join(probe_lines(diagnosis.probes)))
            probes.setAccessibleName("Probes, cached against recompute")
            column.addWidget(probes)
        column.addWidget(_line())
        column.addWidget(_remedy(diagnosis))
        column.addStretch(1)


def _verdict(diagnosis: Diagnosis) -> QLabel:
    mark, role = VERDICTS[diagnosis.exit_code]
    label = _wrapped(f"{mark}  {diagnosis.verdict}", role)
    label.setStyleSheet("font-weight: bold")
    label.setAccessibleName("Verdict")
    return label


def _facts(diagnosis: Diagnosis) -> QLabel:
    return _wrapped("\n".join(f"{name}: {value}" for name, value in diagnosis.facts), "muted")


def _findings(findings: Sequence[Finding]) -> QWidget:
    """A row each: status, question, answer; what was seen stands below the answer."""
    table = QWidget()
    table.setAccessibleName("Findings")
    grid = QGridLayout(table)
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(16)
    grid.setVerticalSpacing(6)
    grid.setColumnStretch(2, 1)
    for row, finding in enumerate(findings):
        mark, role = MARKS[finding.status]
        grid.addWidget(_line(), 2 * row, 0, 1, 3)
        status = text_label(role)
        status.setText(f"{mark} {finding.status}")
        status.setAccessibleName(f"{finding.question} {finding.status}: {finding.answer}")
        question = text_label("title", wrap=True)
        question.setText(finding.question)
        question.setFixedWidth(QUESTION_WIDTH)
        answer = QVBoxLayout()
        answer.setSpacing(3)
        answer.addWidget(_wrapped(finding.answer))
        if finding.evidence:
            answer.addWidget(_wrapped("\n".join(f"– {seen}" for seen in finding.evidence), "muted"))
        answer.addStretch(1)
        for place, label in enumerate((status, question)):
            grid.addWidget(label, 2 * row + 1, place, Qt.AlignmentFlag.AlignTop)
        grid.addLayout(answer, 2 * row + 1, 2)
    return table


def _remedy(diagnosis: Diagnosis) -> QWidget:
    """The command that makes it reproducible, and what goes with it."""
    remedy = QWidget()
    column = QVBoxLayout(remedy)
    column.setContentsMargins(0, 0, 0, 0)
    if diagnosis.command:
        head = QHBoxLayout()
        title = text_label("title")
        title.setText("To make it reproducible")
        copy = QPushButton("Copy command")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(diagnosis.command))
        head.addWidget(title, 1)
        head.addWidget(copy)
        command = QPlainTextEdit(diagnosis.command, readOnly=True)
        command.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        command.setFixedHeight(round(command.fontMetrics().lineSpacing() * COMMAND_LINES + 14))
        command.setTabChangesFocus(True)
        command.setAccessibleName("Command that makes it reproducible")
        column.addLayout(head)
        column.addWidget(command)
    column.addWidget(_wrapped(diagnosis.advice, "muted"))
    return remedy


def _wrapped(text: str, role: str = "") -> QLabel:
    label = text_label(wrap=True)
    set_role(label, role)
    label.setText(text)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
    return label


def _line() -> QFrame:
    line = QFrame()
    line.setFrameShape(QFrame.Shape.HLine)
    line.setProperty("role", "rule")
    line.setFixedHeight(1)
    return line
