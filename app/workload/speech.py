"""An episode's messages as one model's chat template can take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from app.errors import WorkloadError
from app.trajectory.episode import Episode, Message
from app.workload import protocol
from app.workload.chat import ChatTemplate

_ANSWER: Final = "\ue0f1answer\ue0f2"
"""Stands for an answer while the text that follows it is looked for; private-use characters, in no conversation."""


class Speech:
    """Renders an episode's conversation through a template.

    A template that refuses or drops system or tool messages gets them in a form that every template takes: the system
    text leads the first user message, tool results are user messages, neighbours of one role are one message. The
    tools of an imported conversation are described by the template where it can, else in the system message; built-in
    episodes describe theirs in their opening.
    """

    def __init__(self, template: ChatTemplate, episode: Episode) -> None:
        self._template = template
        self._takes_all_roles = _takes_all_roles(template)
        foreign = bool(episode.tools) and not episode.world
        self._tools = episode.tools if foreign and template.takes_tools else None
        self.opening = tuple(episode.opening)
        if foreign and self._tools is None:
            told = protocol.instructions("You are a helpful assistant.", episode.tools, verbose=True)
            own = [each.content for each in self.opening if each.role == "system"]
            rest = [each for each in self.opening if each.role != "system"]
            self.opening = (Message("system", "\n\n".join([*own, told])), *rest)

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation up to where the model's next answer begins. Raises WorkloadError."""
        taken = messages if self._takes_all_roles else _plain(messages)
        return self._template.render(taken, tools=self._tools)

    def after_answer(self, messages: Sequence[Message]) -> str:
        """What the template puts between the end of the last answer in `messages` and the beginning of the next."""
        last = max(index for index, message in enumerate(messages) if message.role == "assistant")
        marked = [*messages[:last], replace(messages[last], content=_ANSWER), *messages[last + 1 :]]
        _, found, suffix = self.render(marked).rpartition(_ANSWER)
        if not found:
            raise WorkloadError(
                "The model's chat template leaves out what the model has answered.", "Choose another model file."
            )
        return suffix


def _takes_all_roles(template: ChatTemplate) -> bool:
    probe = [Message("system", "s-probe"), Message("user", "u-probe")]
    probe += [Message("assistant", "a-probe"), Message("tool", "t-probe", "probe"), Message("user", "v-probe")]
    try:
        text = template.render(probe)
    except WorkloadError:
        return False
    return all(message.content in text for message in probe)


def _plain(messages: Sequence[Message]) -> list[Message]:
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    said = [_as_user_or_assistant(message) for message in messages if message.role != "system"]
    merged = [
        Message(role, "\n".join(message.content for message in group))
        for role, group in groupby(said, key=lambda message: message.role)
    ]
    if system and merged and merged[0].role == "user":
        merged[0] = Message("user", f"{system}\n\n{merged[0].content}")
    elif system:
        merged.insert(0, Message("user", system))
    return merged


def _as_user_or_assistant(message: Message) -> Message:
    if message.role == "assistant":
        return Message("assistant", message.content)
    if message.role == "tool":
        return Message("user", f"Result of {message.name or 'the tool'}: {message.content}")
    return Message("user", message.content)
