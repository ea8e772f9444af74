from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest

from app.bundle.format import CANNOT, BundleContents, PairPart, Redaction
from app.bundle.parts import data_parts
from app.bundle.redact import redacted
from app.bundle.repro import repro_files
from app.bundle.verify import verify_bundle
from app.bundle.write import parts_of
from app.trajectory.step import NO_ID, IdArray, shared_length
from app.trajectory.trajectory import Span, Trajectory
from tests.unit.bundle.made_bundles import bundle_in, contents_of_two_pairs, pair_of

LEVELS: tuple[Redaction, ...] = ("light", "strict")
TEXTS = (
    b"Move it to the next free hour",
    b"move_event",
    b"review",
    b"{{ messages }}",
    b"slot 0",
    b" Tuesday".hex().encode(),
)


def runs(contents: BundleContents) -> list[Trajectory]:
    return [run for part in contents.pairs for run in (part.pair.cached, part.pair.recompute)]


def sequences(contents: BundleContents) -> list[IdArray]:
    """Every prompt with its answer, those of the history included, in one order."""
    own = [np.concatenate([r.prompt.ids, r.steps.token_ids]) for run in runs(contents) for r in run.requests]
    return own + [np.concatenate([w.prompt_ids, w.answer_ids]) for part in contents.pairs for w in part.history]


@pytest.mark.parametrize("level", LEVELS)
def test_a_redacted_bundle_verifies_and_keeps_forks_margins_and_counts(tmp_path: FilePath, level: Redaction) -> None:
    contents = contents_of_two_pairs()
    found = verify_bundle(bundle_in(tmp_path, redacted(contents, level)))
    assert (found.state, found.findings) == ("whole", {})
    assert found.contents is not None
    assert found.contents.redaction == level
    for part, other in zip(contents.pairs, found.contents.pairs, strict=True):
        before, after = part.pair.comparison, other.pair.comparison
        assert before.fork is not None
        assert after.fork is not None
        assert before.fork.label == after.fork.label
        sides = (before.fork.cached, before.fork.recompute, after.fork.cached, after.fork.recompute)
        assert [s.margin if s else None for s in sides[:2]] == [s.margin if s else None for s in sides[2:]]
        assert part.pair.verdict.code == other.pair.verdict.code
        assert replace(before, fork=None) == replace(after, fork=None)  # drift, near ties, repeats, what changed
        assert part.pair.cached.margins.tobytes() == other.pair.cached.margins.tobytes()
        assert [r.report.cached_tokens for r in part.pair.cached.requests if r.report] == [
            r.report.cached_tokens for r in other.pair.cached.requests if r.report
        ]


@pytest.mark.parametrize("level", LEVELS)
def test_no_text_that_was_asked_or_answered_is_left(tmp_path: FilePath, level: Redaction) -> None:
    contents = contents_of_two_pairs()
    parts = parts_of(contents)
    assert all(any(text in data for data in parts.values()) for text in TEXTS)
    made = redacted(contents, level)
    for name, data in parts_of(made).items():
        assert not [text for text in TEXTS if text in data], name
    assert all(not run.requests[0].steps.piece_bytes for run in runs(made))
    assert all(not part.pair.pieces for part in made.pairs)
    assert all(r.report and r.report.raw_request is None for run in runs(made) for r in run.requests)
    assert bundle_in(tmp_path, made).stat().st_size > 0


def test_light_exchanges_ids_one_for_one_everywhere_and_keeps_no_key() -> None:
    contents = contents_of_two_pairs()
    before, after = sequences(contents), sequences(redacted(contents, "light"))
    pairs = {
        (a, b) for one, two in zip(before, after, strict=True) for a, b in zip(one.tolist(), two.tolist(), strict=True)
    }
    assert len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs})
    assert sum(a == b for a, b in pairs) < 5
    again = sequences(redacted(contents, "light"))
    assert any((one != two).any() for one, two in zip(after, again, strict=True))
    rivals = [r.steps.rival_ids for run in runs(redacted(contents, "light")) for r in run.requests]
    assert all(((ids >= 0) & (ids < 49_152)).all() for ids in rivals)


def test_light_leaves_rivals_that_were_not_reported_unreported() -> None:
    contents = contents_of_two_pairs()
    part = contents.pairs[0]
    first = part.pair.cached.requests[0]
    rival_ids = first.steps.rival_ids.copy()
    rival_ids[:, 3:] = NO_ID
    requests = (replace(first, steps=replace(first.steps, rival_ids=rival_ids)), *part.pair.cached.requests[1:])
    part = replace(part, pair=replace(part.pair, cached=replace(part.pair.cached, requests=requests)))
    for level in LEVELS:
        made = redacted(replace(contents, pairs=(part,)), level)
        ids = made.pairs[0].pair.cached.requests[0].steps.rival_ids
        assert (ids[:, 3:] == NO_ID).all()
        assert (ids[:, :3] != NO_ID).all()


def test_strict_keeps_what_prompts_share_and_nothing_else_of_a_token() -> None:
    contents = contents_of_two_pairs()
    before, after = sequences(contents), sequences(redacted(contents, "strict"))
    assert list(map(len, before)) == list(map(len, after))
    for one in range(len(before)):
        for two in range(one):
            assert shared_length(before[one], before[two]) == shared_length(after[one], after[two])
    for ids in after:  # no number comes twice, so not even a repeated token can be told
        assert len(set(ids.tolist())) == len(ids)


def test_strict_numbers_say_nothing_of_the_ids() -> None:
    """Two bundles that differ in nothing but the ids of their tokens become the same."""
    contents = contents_of_two_pairs()

    def shifted(run: Trajectory) -> Trajectory:
        return replace(
            run,
            requests=tuple(
                replace(
                    r,
                    prompt=replace(r.prompt, ids=r.prompt.ids + 1_000),
                    steps=replace(r.steps, token_ids=r.steps.token_ids + 1_000, rival_ids=r.steps.rival_ids + 1_000),
                )
                for r in run.requests
            ),
        )

    part = contents.pairs[0]
    pair = replace(part.pair, cached=shifted(part.pair.cached), recompute=shifted(part.pair.recompute))
    other = redacted(replace(contents, pairs=(replace(part, pair=pair),)), "strict")
    assert data_parts(redacted(replace(contents, pairs=(part,)), "strict")) == data_parts(other)


def test_strict_takes_hashes_and_light_keeps_them() -> None:
    contents = contents_of_two_pairs()
    assert redacted(contents, "light").environment["model"]["sha256"] == "b1" * 32
    model = json.dumps(redacted(contents, "strict").environment)
    assert "b1b1" not in model
    assert "8484" not in model
    assert "made.gguf" in model


def test_whether_calls_changed_stays_to_be_seen_but_not_what_was_called() -> None:
    contents = contents_of_two_pairs()
    for level in LEVELS:
        calls = [[c.name for r in run.requests for c in r.calls] for run in runs(redacted(contents, level))]
        assert calls[0] == ["call 1", "call 2", "call 3"]  # three hours, as on the other path
        assert calls[0] == calls[1]


@pytest.mark.parametrize("level", LEVELS)
def test_an_import_is_no_longer_called_after_its_file(tmp_path: FilePath, level: Redaction) -> None:
    contents = contents_of_two_pairs()
    names = {"made-00": "imported-merger", "made-01": "imported-merger-talks", "made-09": "imported-budget"}
    parts = tuple(_called(part, names) for part in contents.pairs)
    plan = dict(contents.experiment.plan) | {"episode_ids": list(names.values())[:2], "out": "merger.forkpoint"}
    info = replace(contents.experiment, title="shrink · imported-merger", plan=plan)
    made = redacted(replace(contents, experiment=info, pairs=parts), level)
    for name, data in parts_of(made).items():
        assert b"merger" not in data and b"budget" not in data and "merger" not in name, name
    assert made.experiment.title == "shrink · imported-1"
    assert [part.pair.comparison.episode_id for part in made.pairs] == ["imported-1", "imported-2"]
    assert [warm_up.writer for warm_up in made.pairs[1].history] == ["imported-3 r1", "imported-3 r2"]
    found = verify_bundle(bundle_in(tmp_path, made))
    assert found.state == "whole" and found.comparisons.keys() == {"imported-1", "imported-2"}


def _called(part: PairPart, names: Mapping[str, str]) -> PairPart:
    """The pair with other names of its episodes, in its runs, passes, spans and history."""
    pair, order = part.pair, tuple(names.values())
    mine = names[pair.cached.episode_id]

    def run(side: Trajectory) -> Trajectory:
        spans = (Span(0, 1, "decode", f"{mine} r1, run 2"),)
        return replace(side, episode_id=mine, requests=tuple(replace(r, spans=spans) for r in side.requests))

    history = tuple(replace(one, writer=one.writer.replace("made-09", names["made-09"])) for one in part.history)
    return replace(
        part,
        pair=pair_of(run(pair.cached), run(pair.recompute)),
        cached_pass=replace(part.cached_pass, episode_ids=order, invalid_reasons=(f"{mine} r1 was cut.",)),
        recompute_pass=replace(part.recompute_pass, episode_ids=order),
        history=history,
    )


@pytest.mark.parametrize("level", LEVELS)
def test_it_says_what_it_can_no_longer_do_and_holds_no_scripts(tmp_path: FilePath, level: Redaction) -> None:
    made = redacted(contents_of_two_pairs(), level)
    assert repro_files(made) == {}
    assert made.replay_log == {}
    with zipfile.ZipFile(bundle_in(tmp_path, made)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        readme = archive.read("README.txt").decode()
    assert manifest["cannot"] == list(CANNOT[level])
    assert "It cannot be replayed." in readme
    assert ("substitution cipher" in manifest["redaction_label"]) is (level == "light")


def test_none_changes_nothing() -> None:
    contents = contents_of_two_pairs()
    assert redacted(contents, "none") is contents
