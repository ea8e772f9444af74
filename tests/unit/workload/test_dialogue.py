from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from app.errors import WorkloadError
from app.trajectory.episode import Episode, Message
from app.trajectory.step import as_ids
from app.trajectory.trajectory import Prompt
from app.workload import builtin, protocol
from app.workload.chat import ChatTemplate
from app.workload.dialogue import REQUESTS_PER_TURN, Dialogue
from app.workload.imports import FAMILY
from tests.unit.workload.tokens import EOG, IM_END, OTHER_END, Words

EPISODE = builtin.episodes()[2]
CALL = protocol.call_text("list_events", {"day": "Friday"})
PARROT = ChatTemplate(
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] | trim + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
FORGETFUL = ChatTemplate(
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + "
    "(m['content'].split('</think>')[-1] if m['role'] == 'assistant' else m['content']) + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class Talk:
    """A dialogue with what was asked of it, and answers given as text."""

    def __init__(
        self,
        episode: Episode = EPISODE,
        template: ChatTemplate | None = None,
        history: Literal["tokens", "chat"] = "tokens",
    ) -> None:
        self.words = Words()
        self.dialogue = Dialogue(episode, template or ChatTemplate(None), self.words, EOG, history=history)
        self.held: list[int] = []

    def ask(self) -> Prompt:
        prompt = self.dialogue.next_prompt()
        assert prompt is not None
        return prompt

    def answer(self, text: str, end: int | None = IM_END, *, with_piece: bool = False) -> list[str]:
        """Takes an answer to the open prompt; the tool results as text."""
        prompt = self.ask()
        ids = self.words(text, False) + ([] if end is None else [end])
        self.held = [*prompt.ids.tolist(), *ids]
        said = text + ("<|im_end|>" if with_piece else "")
        _, results = self.dialogue.take_answer(as_ids(ids), said, "length" if end is None else "stop")
        return [result.text for result in results]


def test_the_first_prompt_is_the_rendered_opening_and_first_turn() -> None:
    talk = Talk()
    prompt = talk.ask()
    text = talk.words.text(prompt.ids.tolist())
    assert text.startswith("<|im_start|>system\nYou keep")
    assert text.endswith(f"<|im_start|>user\n{EPISODE.turns[0]}<|im_end|>\n<|im_start|>assistant\n")
    assert prompt.turn == 0
    assert prompt.added[-1] == Message("user", EPISODE.turns[0])
    assert prompt.mismatch is None


def test_asking_twice_without_an_answer_gives_the_same_prompt() -> None:
    talk = Talk()
    assert talk.ask() is talk.ask()


def test_an_answer_without_a_question_is_a_mistake_of_the_caller() -> None:
    talk = Talk()
    talk.answer("Nothing.")
    with pytest.raises(ValueError, match="no prompt"):
        talk.dialogue.take_answer(as_ids([1]), "x", "stop")


def test_the_next_prompt_keeps_every_sampled_id_and_adds_no_second_end_of_turn() -> None:
    talk = Talk()
    talk.answer("Nothing is planned.")
    prompt = talk.ask()
    assert prompt.ids[: len(talk.held)].tolist() == talk.held
    assert talk.words.text(prompt.ids[len(talk.held) :].tolist()) == (
        f"\n<|im_start|>user\n{EPISODE.turns[1]}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt.mismatch is None
    assert prompt.added == (Message("user", EPISODE.turns[1]),)


@pytest.mark.parametrize("end", [None, OTHER_END])
def test_the_end_of_turn_is_added_where_it_was_not_sampled(end: int | None) -> None:
    talk = Talk()
    talk.answer("Nothing is", end)
    rest = talk.ask().ids[len(talk.held) :].tolist()
    assert talk.words.text(rest).startswith("<|im_end|>\n<|im_start|>user")


def test_an_unusual_split_into_tokens_is_kept() -> None:
    """Re-tokenising "Nothing" would give one id, the model sampled two."""
    talk = Talk()
    ids = talk.words("Not", False) + talk.words("hing", False) + [IM_END]
    first = talk.ask()
    talk.dialogue.take_answer(as_ids(ids), "Nothing", "stop")
    second = talk.ask()
    assert second.ids[: len(first.ids) + 3].tolist() == [*first.ids.tolist(), *ids]
    assert second.mismatch is None


def test_chat_history_tokenises_afresh_and_says_where_that_departs() -> None:
    talk = Talk(history="chat")
    ids = talk.words("Not", False) + talk.words("hing", False) + [IM_END]
    first = talk.ask()
    talk.dialogue.take_answer(as_ids(ids), "Nothing", "stop")
    second = talk.ask()
    assert second.mismatch == len(first.ids)
    assert talk.words.text(second.ids[len(first.ids) :].tolist()).startswith("Nothing<|im_end|>\n")


@pytest.mark.parametrize("with_piece", [False, True])
def test_chat_history_that_continues_the_ids_has_no_mismatch(with_piece: bool) -> None:
    talk = Talk(history="chat")
    talk.answer("Nothing is planned.", with_piece=with_piece)
    prompt = talk.ask()
    assert prompt.mismatch is None
    assert prompt.ids[: len(talk.held)].tolist() == talk.held
    assert "<|im_end|><|im_end|>" not in talk.words.text(prompt.ids.tolist())


@pytest.mark.parametrize(("template", "answer"), [(PARROT, " Nothing. "), (FORGETFUL, "<think> hm </think> Nothing.")])
def test_a_template_that_rewrites_history_is_flagged_and_the_ids_are_kept(template: ChatTemplate, answer: str) -> None:
    with template:
        talk = Talk(template=template)
        first = talk.ask()
        talk.answer(answer)
        second = talk.ask()
        assert second.ids[: len(talk.held)].tolist() == talk.held
        assert second.mismatch == len(first.ids)
        talk.answer("Fine.")
        assert talk.ask().mismatch == len(first.ids)


def test_a_template_with_a_space_before_the_end_of_turn_gets_no_second_one() -> None:
    spaced = ChatTemplate(ChatTemplate(None).source.replace("+ '<|im_end|>", "+ '\n\n<|im_end|>"))
    talk = Talk(template=spaced)
    talk.answer("Nothing.")
    prompt = talk.ask()
    assert talk.words.text(prompt.ids[len(talk.held) :].tolist()).startswith("\n<|im_start|>user")
    assert prompt.mismatch == len(talk.held) - 1, "rendered afresh there would be two line ends before the end of turn"


def test_a_turn_ends_at_an_answer_without_a_call() -> None:
    talk = Talk()
    talk.answer("Nothing.")
    assert talk.ask().turn == 1


def test_a_turn_ends_after_three_requests_and_the_last_results_come_before_the_next_turn() -> None:
    talk = Talk()
    for _ in range(REQUESTS_PER_TURN):
        assert talk.ask().turn == 0
        assert talk.answer(CALL)
    prompt = talk.ask()
    assert prompt.turn == 1
    assert [message.role for message in prompt.added] == ["tool", "user"]


def test_the_episode_is_over_after_its_turns() -> None:
    talk = Talk()
    for _ in EPISODE.turns:
        talk.answer("No.")
    assert talk.dialogue.next_prompt() is None
    assert talk.dialogue.next_prompt() is None
    assert talk.dialogue.outcome().kind == "missed"


def test_all_calls_of_one_answer_are_executed_in_order() -> None:
    talk = Talk()
    results = talk.answer(f"{CALL} {protocol.call_text('list_events', {'day': 'Someday'})}")
    assert len(results) == 2
    assert "no weekday" in results[1]


def test_a_call_that_was_cut_off_gets_an_error_that_says_so() -> None:
    talk = Talk()
    (result,) = talk.answer('{"tool": "list_events", "args": {"day": "Mon', end=None)
    assert "cut off" in result


@pytest.mark.parametrize("episode", builtin.episodes(), ids=lambda episode: episode.id)
def test_the_reference_solution_played_through_the_dialogue_reaches_the_goal(episode: Episode) -> None:
    talk = Talk(episode)
    for turn, calls in enumerate(builtin.reference(episode)):
        talk.answer(" ".join(protocol.call_text(*call) for call in calls))
        while (prompt := talk.dialogue.next_prompt()) is not None and prompt.turn == turn:
            talk.answer("Done.")
    assert talk.dialogue.next_prompt() is None
    assert talk.dialogue.outcome().kind == "reached"


def test_raw_ids_are_asked_twice_so_that_the_cached_path_has_something_to_reuse() -> None:
    talk = Talk(Episode("imported-x", FAMILY, (), (), raw_ids=(5, 6, 7)))
    for _ in range(2):
        assert talk.ask().ids.tolist() == [5, 6, 7]
        assert talk.dialogue.take_answer(as_ids([9]), CALL, "stop") == ((), ())
    assert talk.dialogue.next_prompt() is None
    assert talk.dialogue.outcome().kind == "none"


def test_an_import_of_one_request_is_asked_twice_and_its_tools_called_once() -> None:
    talk = Talk(Episode("imported-x", FAMILY, (), ("What is on?",)))
    first = talk.ask().ids.tolist()
    talk.answer("Nothing.")
    assert talk.ask().ids.tolist() == first
    assert talk.answer(CALL) == []
    assert talk.dialogue.next_prompt() is None


def recorded(*results: Message) -> Episode:
    tool = protocol.tool("list_events", "List.", day="string: day")
    return Episode("imported-x", FAMILY, (), ("What is on?", "Thanks."), (tool,), recorded=(results, ()))


def test_an_import_gives_its_recorded_result_where_the_model_calls() -> None:
    talk = Talk(recorded(Message("tool", "nothing", "other"), Message("tool", "a lunch", "list_events")))
    assert talk.answer(CALL) == ["a lunch"]
    talk.answer("Lunch.")
    assert [message.content for message in talk.ask().added] == ["nothing"]


def test_an_import_gives_its_recorded_results_though_the_model_does_not_call() -> None:
    talk = Talk(recorded(Message("tool", "one", "list_events"), Message("tool", "two", "list_events")))
    assert talk.answer("I cannot know.") == []
    assert [message.content for message in talk.ask().added] == ["one", "two"]
    talk.answer("I see.")
    assert talk.ask().turn == 1


def test_an_import_answers_a_call_beyond_its_recording_with_an_error() -> None:
    talk = Talk(recorded())
    (result,) = talk.answer(CALL)
    assert "no further result" in result


def test_an_import_s_tools_are_told_in_the_system_message_where_the_template_has_no_place_for_them() -> None:
    talk = Talk(recorded())
    assert '"name": "list_events"' in talk.words.text(talk.ask().ids.tolist())


def test_an_import_s_tools_go_to_a_template_that_takes_them() -> None:
    source = "{% if tools %}TOOLS {{ tools | tojson }}{% endif %}" + ChatTemplate(None).source
    talk = Talk(recorded(), ChatTemplate(source))
    text = talk.words.text(talk.ask().ids.tolist())
    assert text.startswith('TOOLS [{"type": "function"')
    assert "<|im_start|>system" not in text


STRICT = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}"
    "{{ '[' + m['role'] + ']' + m['content'] + '<|im_end|>' }}{% endfor %}{{ '[assistant]' }}"
)


def test_a_template_that_knows_only_user_and_assistant_gets_only_these() -> None:
    with ChatTemplate(STRICT) as template:
        talk = Talk(template=template)
        for _ in range(REQUESTS_PER_TURN):
            talk.answer(CALL)
        prompt = talk.ask()
        text = talk.words.text(prompt.ids.tolist())
        assert text.startswith("[user]You keep the user's calendar.")
        assert text.endswith(f"\n{EPISODE.turns[1]}<|im_end|>[assistant]")
        assert prompt.mismatch is None


def test_a_template_that_drops_answers_is_refused() -> None:
    template = ChatTemplate(
        "{% for m in messages %}{% if m.role != 'assistant' %}{{ m.content }}{% endif %}{% endfor %}"
    )
    talk = Talk(template=template)
    talk.answer("Nothing.")
    with pytest.raises(WorkloadError, match="leaves out"):
        talk.dialogue.next_prompt()


def test_a_dialogue_gives_int32_ids() -> None:
    talk = Talk()
    talk.answer(CALL)
    assert talk.ask().ids.dtype == np.int32
