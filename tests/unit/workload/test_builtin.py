from __future__ import annotations

import hashlib
import re
from collections import Counter

import pytest

from app.errors import WorkloadError
from app.trajectory.codec import to_json
from app.trajectory.episode import Episode
from app.workload import builtin
from app.workload.families import FAMILIES

EVERY = pytest.mark.parametrize("episode", builtin.episodes(), ids=lambda episode: episode.id)
TABLES = r"[A-Z][a-z]+"


def shape(episode: Episode) -> tuple[str, ...]:
    """The turns with numbers, quoted strings and everything that comes out of the episode's world masked."""
    words = {str(value) for value in _leaves(episode.world)} | {
        str(value) for turn in builtin.reference(episode) for _, arguments in turn for value in arguments.values()
    }
    masked = []
    for text in episode.turns:
        for word in sorted(words, key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "#", text)
        text = re.sub(r"'[^']*'(?!\w)", "#", text)
        masked.append(re.sub(r"\d+|(?<!^)(?<!\. )\b[A-Z]\w+", "#", text))
    return (episode.family, *masked)


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in [key, *_leaves(each)]]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def test_there_are_eighty_in_eight_interleaved_families_of_ten() -> None:
    episodes = builtin.episodes()
    assert len(episodes) == 80
    assert [episode.id for episode in episodes[:10]] == [
        "files-00", "units-01", "calendar-02", "messages-03", "tickets-04", "stock-05", "travel-06", "notes-07",
        "files-08", "units-09",
    ]  # fmt: skip
    assert Counter(episode.family for episode in episodes) == {family.name: 10 for family in FAMILIES}
    assert len({episode.id for episode in episodes}) == 80


def test_no_two_episodes_are_the_same() -> None:
    assert len({(episode.turns, str(episode.world)) for episode in builtin.episodes()}) == 80


@EVERY
def test_an_episode_has_three_to_six_turns(episode: Episode) -> None:
    assert 3 <= len(episode.turns) <= 6
    assert all(calls for calls in builtin.reference(episode))


def test_there_are_at_least_30_task_shapes_once_digits_and_names_are_masked() -> None:
    assert len({shape(episode) for episode in builtin.episodes()}) >= 30


def test_every_python_makes_the_same_episodes() -> None:
    """The digest changes only where someone means to change the workload: recorded runs refer to it by id."""
    digest = hashlib.sha256("".join(repr(to_json(episode)) for episode in builtin.episodes()).encode())
    assert digest.hexdigest()[:16] == "8a31d8751ebe33fa"


@EVERY
def test_the_reference_solution_reaches_the_goal_without_an_error(episode: Episode) -> None:
    world = builtin.world_of(episode)
    assert world is not None
    for calls in builtin.reference(episode):
        for name, arguments in calls:
            answer = world.call(name, arguments)
            assert answer.ok, answer.text
    assert builtin.check(episode, world).kind == "reached"


@EVERY
def test_a_near_miss_misses(episode: Episode) -> None:
    missed = builtin.near_miss(episode)
    assert missed != builtin.reference(episode)
    assert builtin.check(episode, builtin.run(episode, missed)).kind == "missed"


@EVERY
def test_leaving_out_any_one_call_misses(episode: Episode) -> None:
    calls = [call for turn in builtin.reference(episode) for call in turn]
    for left_out in range(len(calls)):
        world = builtin.run(episode, [calls[:left_out] + calls[left_out + 1 :]])
        assert builtin.check(episode, world).kind == "missed", calls[left_out]


@EVERY
def test_an_empty_run_misses_and_says_why(episode: Episode) -> None:
    outcome = builtin.check(episode, builtin.run(episode, ()))
    assert outcome.kind == "missed"
    assert outcome.detail


@EVERY
def test_what_the_examples_name_is_not_in_the_episode(episode: Episode) -> None:
    """An example that names the episode's own things would be half of the answer."""
    quoted = re.findall(r'"args": (\{.*?\})\}', " ".join(message.content for message in episode.opening))
    asked = [str(dict(arguments)) for turn in builtin.reference(episode) for _, arguments in turn]
    assert not set(asked) & {text.replace('"', "'") for text in quoted}


def test_running_an_episode_leaves_it_as_it_was() -> None:
    before = repr(builtin.episodes())
    for episode in builtin.episodes():
        builtin.run(episode, builtin.reference(episode))
    assert repr(builtin.episodes()) == before


def test_a_selection_takes_numbers_ranges_and_ids_in_the_order_written() -> None:
    ids = [episode.id for episode in builtin.select("8-9, calendar-02,0,8")]
    assert ids == ["files-08", "units-09", "calendar-02", "files-00"]


@pytest.mark.parametrize("text", ["", " all "])
def test_an_empty_selection_is_everything(text: str) -> None:
    assert builtin.select(text) == builtin.episodes()


@pytest.mark.parametrize("text", ["80", "7-99", "5-3", "calendar-03", "x", "0,,1", "-1", "1-", "999999999999"])
def test_a_selection_of_what_is_not_there_gets_a_sentence(text: str) -> None:
    with pytest.raises(WorkloadError, match="There is no built-in episode") as caught:
        builtin.select(text)
    assert caught.value.hint


def test_an_episode_that_only_bears_a_built_in_id_has_no_world() -> None:
    assert builtin.world_of(Episode("calendar-02", "imported", (), ("Hi.",))) is None
