from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QMessageBox, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.errors import AppError
from app.experiment.doctor_diagnosis import Mark, ProbeRow
from app.session import Diagnosis, Finding
from app.settings import Settings
from app.views.doctor_page import DoctorPage
from tests.views.fakes import FakeProduct

QUESTION = "Is there a server-level prompt cache, and is it on?"
DIAGNOSIS = Diagnosis(
    facts=(("engine", "llama-server"), ("build", "b1")),
    findings=(
        Finding(QUESTION, Mark.WARN, "Yes, it is on.", ("A after an unrelated prompt X: 200 of 224",)),
        Finding("Does recompute repeat itself exactly?", Mark.OK, "Yes."),
        Finding("How far are they apart?", Mark.FAIL, "1 of 2 probes forked."),
        Finding("What can it return?", Mark.UNKNOWN, "ids unknown."),
    ),
    probes=(ProbeRow("units-01", 87, 67, 0.11, 22, 0.1, "‘3’ against ‘0’"),),
    verdict="Not reproducible: 1 of 2 probes forked.",
    exit_code=1,
    command="llama-server --cache-ram 0 --no-cache-prompt",
    advice="Every prompt is then recomputed.",
)


@pytest.fixture
def product() -> FakeProduct:
    return FakeProduct({})


@pytest.fixture
def page(qtbot: QtBot, product: FakeProduct) -> DoctorPage:
    made = DoctorPage(product.verbs(), Settings())
    qtbot.addWidget(made, before_close_func=lambda widget: widget.done(0))
    qtbot.waitUntil(lambda: not made.picker.model.is_reading)
    made.show()
    return made


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[QMessageBox.StandardButton], list[str]]:
    """Answers the question whether a server's cache may be evicted; gives the list of what was asked."""

    def answer(button: QMessageBox.StandardButton) -> list[str]:
        asked: list[str] = []

        def ask(_parent: object, _title: str, text: str, *_buttons: object) -> QMessageBox.StandardButton:
            asked.append(text)
            return button

        monkeypatch.setattr(QMessageBox, "question", ask)
        return asked

    return answer


def words(page: DoctorPage) -> str:
    assert page.found is not None
    return "\n".join(label.text() for label in page.found.findChildren(QLabel))


def test_before_it_is_asked_it_says_what_it_will_do_and_how_long_that_takes(page: DoctorPage) -> None:
    assert "a minute or two" in page.about.text()
    assert page.about.isVisible()
    assert page.go.text() == "Examine"


def test_findings_stand_with_their_marks_and_what_was_seen(
    page: DoctorPage, product: FakeProduct, qtbot: QtBot
) -> None:
    page.probes.setValue(2)
    page.go.click()
    examination = product.examinations[0]
    assert (examination.target, examination.asked["probes"]) == ("embedded", 2)
    examination.said.append("probe 1 of 2…")
    qtbot.waitUntil(lambda: page.said.text() == "probe 1 of 2…")
    assert page.go.text() == "Stop"
    examination.diagnosis = DIAGNOSIS
    qtbot.waitUntil(lambda: page.found is not None)
    shown = words(page)
    for text in ("✗  Not reproducible", "▲ WARN", "✓ OK", "✗ FAIL", "? UNKNOWN", QUESTION, "– A after an unrelated"):
        assert text in shown
    assert "units-01" in shown
    assert not page.target.isVisible()


def test_it_is_copied_as_the_terminal_prints_it_and_the_command_alone(page: DoctorPage) -> None:
    page.show_diagnosis(DIAGNOSIS)
    page.copy.click()
    text = QGuiApplication.clipboard().text()
    assert text.startswith("forkpoint doctor ")
    assert "exit 1: Not reproducible: 1 of 2 probes forked." in text
    assert page.found is not None
    commands = [edit.toPlainText() for edit in page.found.findChildren(QPlainTextEdit)]
    assert commands == [DIAGNOSIS.command]


def test_stop_ends_it_and_says_so(page: DoctorPage, product: FakeProduct, qtbot: QtBot) -> None:
    page.go.click()
    page.go.click()
    examination = product.examinations[0]
    assert examination.stops == 1
    assert page.said.text() == "Stopping…"
    examination.failure = AppError("The examination was stopped.")
    qtbot.waitUntil(lambda: "The examination was stopped." in page.said.text())
    assert page.go.text() == "Examine"
    assert page.go.isEnabled()


def test_closing_the_page_ends_the_examination(page: DoctorPage, product: FakeProduct) -> None:
    page.go.click()
    page.close()
    assert product.examinations[0].stops == 1


@pytest.mark.parametrize("button", [QMessageBox.StandardButton.Yes, QMessageBox.StandardButton.Cancel])
def test_a_server_of_others_is_examined_only_where_a_person_agrees(
    page: DoctorPage,
    product: FakeProduct,
    answers: Callable[[QMessageBox.StandardButton], list[str]],
    button: QMessageBox.StandardButton,
) -> None:
    asked = answers(button)
    page.picker.choose("server")
    page.picker.server.address.setText("http://gpu:8080")
    page.go.click()
    assert "push out what others have in its cache" in asked[0]
    if button is QMessageBox.StandardButton.Cancel:
        assert not product.examinations
        return
    assert product.examinations[0].target == "http://gpu:8080"
    assert product.examinations[0].asked["server"].allow_reset


def test_a_server_of_our_own_is_examined_without_asking(
    page: DoctorPage, product: FakeProduct, qtbot: QtBot, answers: Callable[[QMessageBox.StandardButton], list[str]]
) -> None:
    asked = answers(QMessageBox.StandardButton.Cancel)
    page.picker.choose("managed")
    qtbot.waitUntil(lambda: page.picker.problem == "")
    page.go.click()
    assert product.examinations[0].asked["managed"].binary == Path("llama-server")
    assert not asked


def test_another_engine_can_be_examined_after_that(page: DoctorPage) -> None:
    page.show_diagnosis(DIAGNOSIS)
    page.again.click()
    assert page.found is None
    assert page.target.isVisible()
    assert page.go.isVisible()
