"""How long the built-in prompts get, by the default model's own tokenizer."""

from __future__ import annotations

import statistics

import pytest

from app.trajectory.episode import Episode
from app.trajectory.step import as_ids
from app.workload import builtin, protocol
from app.workload.chat import ChatTemplate
from app.workload.dialogue import MAX_TOKENS, PROMPT_LIMIT, Dialogue
from tests.unit.workload.conftest import Vocabulary

pytestmark = pytest.mark.model


def lengths(vocabulary: Vocabulary, episode: Episode, answers: str) -> list[int]:
    """Prompt lengths where every answer is `answers` of: "worst" (64 tokens around the calls), "solved"."""
    dialogue = Dialogue(episode, ChatTemplate(vocabulary.template), vocabulary, frozenset({vocabulary.end_of_turn}))
    calls = [[protocol.call_text(*call) for call in turn] for turn in builtin.reference(episode)]
    wrong = '{"tool": "no_such_tool", "args": {}}'
    found: list[int] = []
    asked: set[int] = set()
    while (prompt := dialogue.next_prompt()) is not None:
        found.append(len(prompt.ids))
        text = " ".join(calls[prompt.turn]) if prompt.turn not in asked else "It is done as you have asked me to."
        finish = "stop"
        if answers == "worst":
            text = f"{wrong} {wrong} {text}" if len(found) % 2 else f"{text} {wrong}"
            text += " word" * max(0, MAX_TOKENS - len(vocabulary(text, False)))
            finish = "length"
        asked.add(prompt.turn)
        ids = vocabulary(text, False)[:MAX_TOKENS] + ([] if finish == "length" else [vocabulary.end_of_turn])
        dialogue.take_answer(as_ids(ids), text, finish)
    assert asked == set(range(len(episode.turns))), "every turn is asked"
    return found


@pytest.mark.parametrize("answers", ["worst", "solved"])
def test_every_prompt_is_between_300_and_1500_tokens(vocabulary: Vocabulary, answers: str) -> None:
    last = []
    for episode in builtin.episodes():
        found = lengths(vocabulary, episode, answers)
        assert found[0] >= 300
        assert max(found) <= PROMPT_LIMIT, episode.id
        last.append(found[-1])
    assert statistics.mean(last) <= (1500 if answers == "worst" else 1000)


def test_a_solved_episode_has_room_for_every_request(vocabulary: Vocabulary) -> None:
    """The limit ends no turn early where the model does as it is asked: a call and a sentence for each turn."""
    for episode in builtin.episodes():
        assert len(lengths(vocabulary, episode, "solved")) == 2 * len(episode.turns), episode.id
