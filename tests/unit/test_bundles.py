"""Bundles through the session and the commands, on the recorded sample; no engine runs here."""

from __future__ import annotations

import json
import shutil
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

import pytest
from click.testing import CliRunner

from app import paths
from app.bundle.format import REDACTIONS, BundleContents
from app.bundle.repro import repro_files
from app.bundle.write import write_bundle
from app.cli import cli
from app.errors import BundleError, StoreError
from app.session import (
    ExportRequest,
    Session,
    export_pairs,
    mark,
    preview_export,
    resume_run,
    run_again,
    shrink,
    verify,
)
from app.store.recorder import Recorder
from app.trajectory.codec import to_json
from app.trajectory.trajectory import Path, Status
from tests.unit.bundle.made_bundles import repacked


@pytest.fixture
def sample(tmp_path: FilePath) -> FilePath:
    return FilePath(shutil.copy(paths.resources_dir() / "demo.forkpoint", tmp_path / "a.forkpoint"))


@pytest.fixture
def session(sample: FilePath) -> Iterator[Session]:
    opened = Session.open(sample)
    yield opened
    opened.close()


def names_in(session: Session) -> tuple[str, ...]:
    return tuple(row.episode_id for row in session.rows(session.experiment().id))


def forked_in(session: Session) -> str:
    return next(row.episode_id for row in session.rows(session.experiment().id) if row.diverged)


def command(*args: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_bundle_opens_read_only_and_says_of_every_pair_what_the_file_says(
    session: Session, tmp_path: FilePath
) -> None:
    names = names_in(session)
    export_pairs(session, ExportRequest(names), tmp_path / "b.zip")
    experiment = session.experiment().id
    with closing(Session.open(tmp_path / "b.zip", session.near_tie)) as bundle:
        assert bundle.read_only
        assert bundle.verification is not None
        assert bundle.verification.state == "whole"
        assert [info.id for info in bundle.experiments()] == [experiment]
        assert names_in(bundle) == names
        assert bundle.experiment().environment == session.experiment().environment
        assert bundle.size_bytes() == (tmp_path / "b.zip").stat().st_size
        for name in names:
            here, there = session.pair(experiment, name), bundle.pair(experiment, name)
            assert (here.comparison, here.verdict, here.noise_floor) == (
                there.comparison,
                there.verdict,
                there.noise_floor,
            )
            assert to_json(here.cached) == to_json(there.cached)
            assert to_json(here.recompute) == to_json(there.recompute)
            assert there.pieces
            assert there.pieces.items() <= here.pieces.items()


def test_only_what_belongs_to_the_chosen_pairs_leaves_the_machine(session: Session) -> None:
    first, second = names_in(session)
    made = preview_export(session, ExportRequest((second,)))
    assert made.contents.experiment.plan["episode_ids"] == [second]
    assert [part.pair.cached.episode_id for part in made.contents.pairs] == [second]
    whole = session.pair(session.experiment().id, second).pieces
    assert len(made.contents.pairs[0].pair.pieces) < len(whole)
    history = {warm_up.writer.rpartition(" r")[0] for warm_up in made.contents.pairs[0].history}
    assert history == {first}, "what the cache held of the episode before goes along"


def test_the_history_is_what_the_forked_requests_entries_were_written_by(session: Session) -> None:
    name = forked_in(session)
    (part,) = preview_export(session, ExportRequest((name,))).contents.pairs
    fork = part.pair.comparison.fork
    assert fork is not None
    request = part.pair.cached.requests[fork.request]
    writers = {span.writer for span in request.spans if span.writer.rpartition(" r")[0] != name}
    assert writers <= {warm_up.writer for warm_up in part.history}
    assert len(part.history) <= len(writers) + 1


def test_an_export_reads_while_another_process_writes(session: Session, sample: FilePath, tmp_path: FilePath) -> None:
    with closing(Recorder(sample)) as recorder:
        experiment = recorder.add_experiment("another", {"kind": "pair", "episode_ids": []}, {})
        recorder.add_pass(experiment, Path.CACHED, 1, [], {})
        first = session.experiments()[-1].id
        names = tuple(row.episode_id for row in session.rows(first))
        export_pairs(session, ExportRequest(names, experiment=first), tmp_path / "b.zip")
    assert verify(tmp_path / "b.zip").state == "whole"


def test_a_pair_that_is_still_being_run_is_refused(sample: FilePath, tmp_path: FilePath) -> None:
    with closing(Recorder(sample)) as recorder:
        experiment = recorder.add_experiment("running", {"kind": "pair", "episode_ids": ["x-00"]}, {})
        for path in (Path.CACHED, Path.RECOMPUTE):
            recorder.start_trajectory(recorder.add_pass(experiment, path, 1, ["x-00"], {}), "x-00", "x")
        with closing(Session.open(sample)) as session, pytest.raises(BundleError, match="x-00 is still being run"):
            export_pairs(session, ExportRequest(("x-00",)), tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


def test_an_unknown_pair_and_no_pair_are_sentences(session: Session, tmp_path: FilePath) -> None:
    for names, sentence in (((), "No pair is chosen"), (("nobody-99",), "nobody-99 is not there on both paths")):
        with pytest.raises(BundleError, match=sentence):
            export_pairs(session, ExportRequest(names), tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


def test_scripts_are_run_before_the_export_and_the_bundle_says_what_they_printed(
    session: Session, tmp_path: FilePath
) -> None:
    name = forked_in(session)
    asked: list[str] = []

    def run(_: BundleContents, scripts: Mapping[str, str], *__: Any) -> dict[str, str]:
        asked.extend(scripts)
        return {script: f"{FilePath.home()}/x: the fork shows\nexit code 0" for script in scripts}

    made = export_pairs(session, ExportRequest((name,)), tmp_path / "b.zip", run_scripts=run)
    assert made is not None
    assert asked == list(repro_files(made.contents))
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        printed = json.loads(archive.read("manifest.json"))["replay_log"]
        assert set(asked) <= set(archive.namelist())
    assert printed == dict.fromkeys(asked, "~/x: the fork shows\nexit code 0")


def test_no_script_is_run_for_a_redacted_bundle(session: Session, tmp_path: FilePath) -> None:
    request = ExportRequest((forked_in(session),), redaction="light")
    export_pairs(session, request, tmp_path / "b.zip", run_scripts=lambda *_: pytest.fail("it was run"))
    assert not [name for name in zipfile.ZipFile(tmp_path / "b.zip").namelist() if "repro" in name]


def test_a_stop_before_writing_leaves_nothing(session: Session, tmp_path: FilePath) -> None:
    stop = threading.Event()
    stop.set()
    assert export_pairs(session, ExportRequest(names_in(session)), tmp_path / "b.zip", stop=stop) is None
    assert not list(tmp_path.glob("*b.zip*"))


def test_an_opened_bundle_can_be_exported_again_redacted(session: Session, tmp_path: FilePath) -> None:
    name = forked_in(session)
    made = export_pairs(session, ExportRequest((name,)), tmp_path / "b.zip")
    with closing(Session.open(tmp_path / "b.zip")) as bundle:
        again = preview_export(bundle, ExportRequest((name,)))
        assert made is not None
        assert list(map(to_json, again.contents.pairs[0].history)) == list(map(to_json, made.contents.pairs[0].history))
        export_pairs(bundle, ExportRequest((name,), redaction="strict"), tmp_path / "c.zip")
    with closing(Session.open(tmp_path / "c.zip")) as redacted:
        pair = redacted.pair(redacted.experiment().id, name)
        original = session.pair(session.experiment().id, name)
        assert pair.comparison.repeats == original.comparison.repeats
        assert pair.verdict.code == original.verdict.code
        assert pair.cached.margins.tobytes() == original.cached.margins.tobytes(), "so it shows its plot"


def test_a_bundle_exported_again_is_never_less_redacted_and_keeps_what_a_person_wrote(
    session: Session, tmp_path: FilePath
) -> None:
    name = forked_in(session)
    request = ExportRequest((name,), redaction="strict", notes={name: "It began last week."}, answers={"gpu": "none"})
    export_pairs(session, request, tmp_path / "b.zip")
    with closing(Session.open(tmp_path / "b.zip")) as bundle:
        for level in REDACTIONS:
            made = preview_export(bundle, ExportRequest((name,), redaction=level))
            assert made.contents.redaction == "strict"
            assert not [each.name for each in made.lines if "repro" in each.name], "its ids are made up"
        assert made.contents.answers["gpu"] == "none" and made.contents.pairs[0].note == "It began last week."
    repacked(tmp_path / "b.zip", tmp_path / "c.zip", {"report.md": b"All is well."})
    with (
        closing(Session.open(tmp_path / "c.zip")) as altered,
        pytest.raises(BundleError, match="not as it was written"),
    ):
        preview_export(altered, ExportRequest((name,)))


def test_a_bundle_of_a_newer_forkpoint_is_to_be_opened_with_one(session: Session, tmp_path: FilePath) -> None:
    export_pairs(session, ExportRequest((forked_in(session),)), tmp_path / "b.zip")
    newer = (
        zipfile.ZipFile(tmp_path / "b.zip").read("manifest.json").replace(b'"format_version":1', b'"format_version":2')
    )
    repacked(tmp_path / "b.zip", tmp_path / "c.zip", {"manifest.json": newer})
    with pytest.raises(BundleError, match="written by a newer Forkpoint") as caught:
        Session.open(tmp_path / "c.zip")
    assert caught.value.hint == "Open it with a newer Forkpoint."


def test_an_altered_bundle_opens_and_says_so_and_one_without_runs_does_not_open(
    session: Session, tmp_path: FilePath
) -> None:
    name = forked_in(session)
    export_pairs(session, ExportRequest((name,)), tmp_path / "b.zip")
    repacked(tmp_path / "b.zip", tmp_path / "c.zip", {"report.md": b"All is well."})
    with closing(Session.open(tmp_path / "c.zip")) as altered:
        assert altered.verification is not None
        assert altered.verification.sentence.startswith("Altered: report.md is not what was written")
        assert names_in(altered) == (name,)
    repacked(tmp_path / "b.zip", tmp_path / "d.zip", {f"pairs/01-{name}/cached.jsonl": b"{}"})
    with pytest.raises(BundleError, match=r"d\.zip cannot be opened\. Altered: pairs/01-"):
        Session.open(tmp_path / "d.zip")


def test_export_and_verify_speak_json_and_exit_by_what_they_found(sample: FilePath, tmp_path: FilePath) -> None:
    with closing(Session.open(sample)) as session:
        names = names_in(session)
    out = tmp_path / "b.zip"
    options = ("--no-verify", "--gpu", "none", "--note", "Ask anna@example.org.", "--form", "vllm", "--json")
    code, printed, told = command("export", sample, "--pair", names[0], "--pair", names[1], "--out", out, *options)
    assert code == 0
    assert "line 1: this looks like an e-mail address: anna@example.org" in told
    report = json.loads(printed)
    assert report["pairs"] == list(names)
    assert report["size"] == out.stat().st_size
    assert [suspect["what"] for suspect in report["suspects"]] == ["an e-mail address"] * 2
    assert {part["name"] for part in report["parts"]} == set(zipfile.ZipFile(out).namelist())
    code, printed, _ = command("verify", out, "--json")
    assert (code, json.loads(printed)["state"]) == (0, "whole")
    repacked(out, tmp_path / "c.zip", {"README.txt": b"x"})
    code, printed, _ = command("verify", tmp_path / "c.zip", "--json")
    assert (code, json.loads(printed)["parts"]["README.txt"]) == (1, "is not what was written: its checksum differs")
    (tmp_path / "d.zip").write_bytes(out.read_bytes()[:1000])
    code, printed, _ = command("verify", tmp_path / "d.zip")
    assert code == 2
    assert printed.startswith("Unreadable: the container")


def test_an_export_does_not_replace_a_file_unless_forced(sample: FilePath, tmp_path: FilePath) -> None:
    with closing(Session.open(sample)) as session:
        names = ",".join(names_in(session))
    (tmp_path / "b.zip").touch()
    export = ("export", sample, "--pair", names, "--out", tmp_path / "b.zip", "--no-verify")
    code, _, told = command(*export)
    assert code == 2
    assert "b.zip exists already" in told
    assert command(*export, "--force")[0] == 0


def test_an_export_says_which_questions_nobody_answered(sample: FilePath, tmp_path: FilePath) -> None:
    with closing(Session.open(sample)) as session:
        name = forked_in(session)
    export = ("export", sample, "--pair", name, "--out", tmp_path / "b.zip", "--no-verify", "--force")
    _, _, told = command(*export)
    left = [line for line in told.splitlines() if line.startswith("Left open")]
    assert left == ["Left open in the report: Where can the model file be had? (--link)"], "no server, no launch line"
    _, _, told = command(*export, "--link", "where it is")
    assert "Left open" not in told


def test_an_export_never_takes_the_place_of_the_runs_it_is_made_of(sample: FilePath) -> None:
    with closing(Session.open(sample)) as session:
        names = ",".join(names_in(session))
    code, _, told = command("export", sample, "--pair", names, "--out", sample, "--no-verify", "--force")
    assert code == 2
    assert f"{sample.name} is no bundle, so it is not replaced" in told
    with closing(Session.open(sample)) as session:
        assert ",".join(names_in(session)) == names


@pytest.mark.parametrize("redact", ["light", "strict"])
def test_the_commands_that_read_a_file_read_a_redacted_bundle(
    sample: FilePath, tmp_path: FilePath, redact: str
) -> None:
    with closing(Session.open(sample)) as session:
        name = forked_in(session)
    out = tmp_path / "b.zip"
    assert command("export", sample, "--pair", name, "--out", out, "--redact", redact, "--no-verify")[0] == 0
    before, after = (json.loads(command("compare", file, "--episode", name, "--json")[1]) for file in (sample, out))
    changed = {key for key in before if before[key] != after[key]}
    assert changed <= {"cached", "recompute", "verdict"}, "tokens and the words for them; all numbers stay"
    assert name in command("list", out)[1]
    assert "⟦" in command("show", out, "--episode", name)[1]
    assert command("verify", out)[0] == 0


def test_imported_conversations_that_were_not_chosen_stay_here(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = session.experiment()
    first, second = names_in(session)
    plan = dict(info.plan) | {"imported_episodes": [{"id": first, "turns": ["secret"]}, {"id": second}]}
    imported = replace(info, plan=plan)
    monkeypatch.setattr(session, "experiment", lambda *_: imported)
    made = preview_export(session, ExportRequest((second,)))
    assert made.contents.experiment.plan["imported_episodes"] == [{"id": second}]


def test_status_of_a_bundled_experiment_is_the_recorded_one(session: Session) -> None:
    made = preview_export(session, ExportRequest(names_in(session)))
    assert made.contents.experiment.status is Status.DONE


def test_what_a_bundle_plans_is_never_run_whatever_program_path_or_server_it_names(
    session: Session, tmp_path: FilePath
) -> None:
    """A bundle whose checksums are right, and whose plan would start a program of its sender's."""
    name = forked_in(session)
    made = preview_export(session, ExportRequest((name,)))
    program = tmp_path / "llama-server"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    info = made.contents.experiment
    plan = dict(info.plan) | {"engine": "managed", "managed": {"binary": str(program)}}
    hostile = replace(made.contents, experiment=replace(info, plan=plan, status=Status.STOPPED))
    write_bundle(hostile, tmp_path / "b.zip")
    assert verify(tmp_path / "b.zip").state == "whole"
    with closing(Session.open(tmp_path / "b.zip")) as bundle:
        with pytest.raises(StoreError, match="plan is never run"):
            run_again(bundle, bundle.pair(info.id, name), info.id)
        with pytest.raises(StoreError, match="A bundle is not shrunk"):
            shrink(bundle, name, 10.0, out=tmp_path / "s.forkpoint")
    with pytest.raises(StoreError, match="plan is never run"):
        resume_run(tmp_path / "b.zip", info.id)
    assert not (tmp_path / "ran").exists()


def test_what_others_wrote_is_shown_on_the_terminal_and_never_obeyed(session: Session, tmp_path: FilePath) -> None:
    name = forked_in(session)
    made = preview_export(session, ExportRequest((name,)))
    evil = "\x1b[2J\x9b2J\u202e<script>"
    part = made.contents.pairs[0]
    refused = replace(part.cached_pass, valid=False, invalid_reasons=(evil,))
    info = replace(made.contents.experiment, title=evil)
    write_bundle(
        replace(made.contents, experiment=info, pairs=(replace(part, cached_pass=refused),)), tmp_path / "b.zip"
    )
    for words in (("list",), ("compare", "--episode", name), ("show", "--episode", name), ("verify",)):
        _, printed, told = command(words[0], tmp_path / "b.zip", *words[1:])
        assert printed
        assert not {"\x1b", "\x9b", "\u202e"} & set(printed + told)


def test_marked_pairs_are_exported_each_with_its_own_note(sample: FilePath, tmp_path: FilePath) -> None:
    with closing(Session.open(sample)) as session:
        experiment = session.experiment().id
        mark(session, experiment, "calendar-02", "look at this")
        mark(session, experiment, "stock-05")
    out = tmp_path / "b.zip"
    code, _, _ = command("export", sample, "--marked", "--no-verify", "--out", out)
    assert code == 0
    with zipfile.ZipFile(out) as bundle:
        notes = {name: bundle.read(name).decode() for name in bundle.namelist() if name.endswith("note.txt")}
    assert [text.strip() for text in notes.values()] == ["look at this"]
    assert next(iter(notes)).startswith("pairs/01-calendar-02/")


def test_marked_pairs_that_are_not_there_are_said(sample: FilePath, tmp_path: FilePath) -> None:
    code, _, said = command("export", sample, "--marked", "--no-verify", "--out", tmp_path / "b.zip")
    assert code == 2
    assert "No pair of it is marked." in said
