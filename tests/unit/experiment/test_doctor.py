"""The doctor on scripted engines: every verdict, from answers and counts alone. Real servers are in end2end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from app.engine.base import EngineInfo, Gap, GenerateRequest, Progress, StopFlag
from app.engine.scripted import Answers, ScriptedEngine, ScriptedState, steps_of
from app.errors import EngineDied, SettingsError
from app.experiment.doctor import examine
from app.experiment.doctor_diagnosis import Diagnosis, Mark
from app.experiment.doctor_flags import command_for
from app.experiment.doctor_report import WIDTH, diagnosis_lines, diagnosis_report
from app.trajectory.step import IdArray, Step, as_ids, shared_length
from app.trajectory.trajectory import RequestReport

SERVER_CACHE, HISTORY, STATE, RECOMPUTE, CACHED, PATHS, RETURNED = range(7)


def drifting(_prompt: IdArray, cached: int) -> list[Step]:
    """The same words from the cache, by other numbers."""
    change = 0.01 if cached else 0.0
    return [replace(step, logprob=(step.logprob or 0.0) - change) for step in steps_of("Yes.")]


def forking(_prompt: IdArray, cached: int) -> list[Step]:
    return steps_of("Yes!" if cached else "Yes.", [1.0, 1.0, 1.0, 0.02])


class Patient(ScriptedEngine):
    """A scripted engine that says `described` of itself; `remembers` what its States served before an unrelated prompt,
    as a server-level cache does."""

    def __init__(
        self, answers: Answers | None = None, *, counts: bool = True, remembers: bool = False, **described: Any
    ) -> None:
        super().__init__(answers, counts=counts)
        can = replace(super().describe().capabilities, rebuild=False, slots=True, caching=True)
        self._described = replace(super().describe(), **{"name": "llama-server", "capabilities": can, **described})
        self.remembers = remembers
        self.served: list[IdArray] = []

    def describe(self) -> EngineInfo:
        return self._described

    def open_state(self) -> ScriptedState:
        return PatientState(self, as_ids(()))


class PatientState(ScriptedState):
    def __init__(self, engine: Patient, held: IdArray) -> None:
        super().__init__(engine, held)
        self._patient = engine

    def generate(self, request: GenerateRequest, stop: StopFlag) -> Iterator[Progress | Step | RequestReport]:
        patient = self._patient
        if patient.remembers and len(self._held):
            self._held = max(patient.served, key=lambda ids: shared_length(ids, request.prompt_ids))
        patient.served.append(request.prompt_ids)
        yield from super().generate(request, stop)


def diagnose(engine: ScriptedEngine, probes: int = 2) -> Diagnosis:
    return examine(engine, probes=probes, tell=lambda _sentence: None, stop=Event())


def can(**capabilities: bool | None) -> dict[str, Any]:
    return {"capabilities": replace(Patient().describe().capabilities, **capabilities)}


def marks(diagnosis: Diagnosis) -> list[Mark]:
    return [finding.status for finding in diagnosis.findings]


def test_an_engine_that_repeats_itself_on_every_path_is_reproducible() -> None:
    found = diagnose(Patient())
    assert found.exit_code == 0
    assert set(marks(found)) == {Mark.OK}
    assert found.verdict == "Reproducible: ids and logprobs are bit-identical on every probe."
    assert (found.command, found.advice) == ("", "Nothing has to change.")


def test_drift_without_a_fork_is_a_difference() -> None:
    found = diagnose(Patient(drifting))
    assert found.exit_code == 1
    assert marks(found)[HISTORY] is marks(found)[PATHS] is Mark.WARN
    assert marks(found)[SERVER_CACHE] is marks(found)[RECOMPUTE] is marks(found)[CACHED] is Mark.OK
    assert "0 of 2 probes forked; largest drift 0.01 nats" in found.findings[PATHS].answer
    assert "A again at once gives other logprobs" in found.findings[HISTORY].answer
    assert found.verdict.endswith("No server-level cache is on: an unrelated request leaves nothing behind.")


def test_a_fork_is_told_with_its_place_tokens_and_margin() -> None:
    found = diagnose(Patient(forking))
    assert found.exit_code == 1
    assert marks(found)[PATHS] is marks(found)[HISTORY] is Mark.FAIL
    assert found.findings[PATHS].answer.startswith("2 of 2 probes forked, at margins of 0.02, 0.02 nats")
    row = found.probes[0]
    assert (row.fork, row.tokens) == (4, "‘!’ against ‘.’")
    assert row.margin == pytest.approx(0.02)
    assert row.cached is not None and 0 < row.cached < row.prompt


def test_a_server_level_cache_is_told_by_what_comes_back_after_an_unrelated_prompt() -> None:
    found = diagnose(Patient(drifting, remembers=True))
    assert marks(found)[SERVER_CACHE] is Mark.WARN
    assert found.findings[SERVER_CACHE].answer.startswith("Yes, it is on:")
    assert "A again at once and A after X gives other logprobs" in found.findings[HISTORY].answer
    assert "a server-level prompt cache is on" in found.verdict
    assert "--cache-ram 0 --no-cache-prompt" in found.command


def test_a_server_that_caches_only_on_request_is_examined_as_a_client_meets_it() -> None:
    engine = Patient(drifting, remembers=True, **can(caching=False))
    found = diagnose(engine)
    assert found.exit_code == 0
    assert found.verdict.endswith("Requests are recomputed unless they ask for the cache (cache_prompt).")
    assert found.findings[SERVER_CACHE].answer.startswith("Yes, it is on, but only for requests that ask for it")
    assert marks(found)[SERVER_CACHE] is marks(found)[HISTORY] is Mark.OK
    assert found.probes == ()


def test_equal_answers_without_counts_prove_nothing() -> None:
    found = diagnose(Patient(counts=False, **can(cached_counts=False, recompute=None)))
    assert found.exit_code == 2
    assert found.verdict.startswith("Not proved: nothing differed, but it does not report how many prompt tokens")
    assert marks(found)[SERVER_CACHE] is marks(found)[STATE] is marks(found)[RECOMPUTE] is Mark.UNKNOWN


def test_unequal_answers_without_counts_are_a_difference_all_the_same() -> None:
    found = diagnose(Patient(drifting, counts=False, **can(cached_counts=False, recompute=None)))
    assert found.exit_code == 1
    assert "how much the cache had to do with it is not proved" in found.verdict


def test_without_a_recompute_path_nothing_is_compared_with_it() -> None:
    found = diagnose(Patient(**can(recompute=False)))
    assert found.exit_code == 2 and found.probes == ()
    assert marks(found)[PATHS] is marks(found)[RECOMPUTE] is Mark.UNKNOWN
    assert "no request can be kept from its cache" in found.verdict


def test_a_recompute_path_that_does_not_repeat_itself_fails() -> None:
    numbers = iter(range(10_000))

    def restless(_prompt: IdArray, _cached: int) -> list[Step]:
        return [replace(step, logprob=-0.25 - next(numbers) / 1000) for step in steps_of("Yes.")]

    found = diagnose(Patient(restless))
    assert found.exit_code == 1
    assert marks(found)[RECOMPUTE] is marks(found)[CACHED] is Mark.FAIL
    assert "first difference: request 1, token 1: another logprob" in found.findings[RECOMPUTE].evidence
    assert "does not even repeat itself when it is recomputed" in found.verdict


def test_text_without_ids_and_answers_without_logprobs_prove_nothing() -> None:
    def bare(_prompt: IdArray, _cached: int) -> list[Step]:
        return [Step(step.token_id, None, step.piece) for step in steps_of("Yes.")]

    found = diagnose(Patient(bare, level="text", **can(rivals=False)))
    assert found.exit_code == 2
    assert "its answers can be compared by text only" in found.verdict
    assert "logprobs or rivals are missing in 17 of 17 answers" in found.verdict
    assert marks(found)[HISTORY] is Mark.UNKNOWN and marks(found)[RETURNED] is Mark.WARN


def test_a_prompt_that_is_hardly_answered_gives_way_to_another() -> None:
    asked: list[bytes] = []

    def terse(prompt: IdArray, cached: int) -> list[Step]:
        said = bytes(token_id for token_id in prompt.tolist() if token_id < 256)
        asked.append(said)
        return steps_of("" if len(asked) == 1 else "Yes.") if len(said) > 200 else drifting(prompt, cached)

    found = diagnose(Patient(terse))
    assert len({said for said in asked if b"most urgent" in said}) == 2
    assert found.exit_code == 1


def test_counts_that_contradict_themselves_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ScriptedState._report

    def tampered(self: ScriptedState, *counts: Any) -> RequestReport:
        return replace(honest(self, *counts), problem="the slot kept 3 of the 9 tokens that it should hold")

    monkeypatch.setattr(ScriptedState, "_report", tampered)
    found = diagnose(Patient())
    assert found.exit_code == 2 and "its counts contradict themselves" in found.verdict
    assert marks(found)[STATE] is Mark.FAIL
    assert "the slot kept 3 of the 9 tokens that it should hold" in found.findings[STATE].evidence


def test_kinds_of_servers_get_verdicts_of_their_own() -> None:
    patients = (
        Patient(drifting, remembers=True),
        Patient(drifting),
        Patient(drifting, **can(caching=False)),
        Patient(drifting, counts=False, level="text", **can(cached_counts=False, recompute=None)),
    )
    assert len({diagnose(patient).verdict for patient in patients}) == 4


def test_a_stop_ends_the_examination() -> None:
    stop = Event()
    stop.set()
    with pytest.raises(EngineDied, match="stopped"):
        examine(Patient(), probes=1, tell=lambda _sentence: None, stop=stop)


@pytest.mark.parametrize("probes", [0, 81])
def test_a_number_of_probes_that_is_none_is_refused(probes: int) -> None:
    with pytest.raises(SettingsError):
        diagnose(Patient(), probes)


def test_the_report_fits_an_issue_and_says_what_was_examined() -> None:
    gaps = tuple(Gap(f"field {number}", "absent", "telling whether it is so, " * 5) for number in range(9))
    engine = Patient(forking, remembers=True, gaps=gaps)
    lines = list(diagnosis_lines(diagnose(engine, 20), "http://127.0.0.1:8080"))
    assert len(lines) < 60
    assert [line for line in lines if len(line) > WIDTH] == []
    assert "and 14 more, see --json" in lines
    text = "\n".join(lines)
    assert "http://127.0.0.1:8080" in lines[0] and "llama-server" in text and "FAIL    Does what was served" in text
    assert "exit 1: Not reproducible:" in text
    assert text.isprintable() or set(text) - set("\n") == {char for char in text if char.isprintable()}


def test_the_json_object_holds_everything_that_was_found() -> None:
    found = diagnose(Patient(forking))
    report = json.loads(json.dumps(diagnosis_report(found, "http://h:1")))
    assert report["exit_code"] == 1 and report["target"] == "http://h:1"
    assert [finding["status"] for finding in report["findings"]] == [str(mark) for mark in marks(found)]
    assert report["probes"][0]["fork"] == 4 and report["facts"]["engine"] == "llama-server"


def test_the_command_keeps_what_is_known_of_the_servers_own() -> None:
    typed = "llama-server --model m.gguf --port 8080 --cache-ram 512 --slot-save-path slots/ --parallel 2"
    info = replace(Patient().describe(), settings={"command": typed})
    assert command_for(info, 1)[0] == (
        "llama-server --model m.gguf --port 8080 --parallel 2 --cache-ram 0 --no-cache-prompt"
    )
    assert "--no-enable-prefix-caching" in command_for(replace(info, name="vLLM"), 1)[0]
    assert "--disable-radix-cache" in command_for(replace(info, name="SGLang"), 2)[0]
    assert command_for(replace(info, name="OpenAI-compatible"), 2)[0] == ""
