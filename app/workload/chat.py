"""Chat templates: from messages to the text that the model is given.

A model file brings its own template, which is a program and comes from a stranger. It renders in jinja2's immutable
sandbox. A template that could neither loop for long nor pile up text (most short ones) renders right here; any other
renders in a child process that is ended where it takes too long or grows too large: a tight loop inside jinja2 cannot
be interrupted in any other way that works in every thread and on every system.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from functools import cached_property
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from jinja2 import TemplateError, TemplateSyntaxError, nodes

from app.errors import WorkloadError
from app.trajectory.episode import Message
from app.workload import sandbox

CHATML: Final = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""What a model without a chat template gets: https://github.com/openai/openai-python/blob/release-v0.28.1/chatml.md."""

MAX_SOURCE: Final = 200_000
"""Longest template text in characters that is taken; the longest in circulation have some 20,000."""

RENDER_SECONDS: Final = 2.0
"""A template that has not rendered by then is stopped."""

START_SECONDS: Final = 30.0
"""The child process must be ready by then; a busy machine takes a second."""


class ChatTemplate:
    """A model's chat template. `source` None means that the model has none: plain ChatML is used, and `note` says so.

    Raises WorkloadError for a template that is not valid jinja2. Owns a child process once it has rendered a template
    that is not known to be harmless; `close()` ends it.
    """

    def __init__(self, source: str | None, bos_token: str = "", eos_token: str = "") -> None:
        self.note = "" if source is not None else "The model has no chat template; its prompts are plain ChatML."
        self.source = CHATML if source is None else source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._child: BaseProcess | None = None
        self._pipe: Connection | None = None
        if len(self.source) > MAX_SOURCE:
            raise WorkloadError(f"The chat template is longer than {MAX_SOURCE:,} characters.", _HINT)
        try:
            self._tree = sandbox.environment().parse(self.source)
            self._template = sandbox.environment().from_string(self.source) if self.harmless else None
        except TemplateSyntaxError as error:
            raise WorkloadError(
                f"The chat template has a mistake in line {error.lineno}: {error.message}", _HINT
            ) from error
        except (TemplateError, RecursionError, MemoryError, SyntaxError) as error:
            raise WorkloadError(f"The chat template cannot be read: {error}", _HINT) from error

    @cached_property
    def harmless(self) -> bool:
        """Whether rendering is bounded by the size of template and messages, as the template's syntax tree shows."""
        loops = list(self._tree.find_all(nodes.For))
        return (
            all(isinstance(node, _BOUNDED_NODES) for node in self._tree.find_all(nodes.Node))
            and all(isinstance(loop.iter, nodes.Name) and not loop.recursive for loop in loops)
            and not any(inner is not loop for loop in loops for inner in loop.find_all(nodes.For))
            and all(item.name in _BOUNDED_FILTERS for item in self._tree.find_all(nodes.Filter))
            and all(_is_raise(call) for call in self._tree.find_all(nodes.Call))
        )

    @cached_property
    def takes_tools(self) -> bool:
        """Whether the template writes tool descriptions itself (it reads the variable `tools`)."""
        return any(name.name == "tools" for name in self._tree.find_all(nodes.Name))

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[dict[str, Any]] | None = None,
    ) -> str:
        """The conversation as text, ending where the model's answer begins if `add_generation_prompt`.

        Contents are put in as they are: text that looks like a control token becomes one when the result is tokenised
        with special tokens, as in every server that renders the model's template. Raises WorkloadError where the
        template raises, takes longer than RENDER_SECONDS, writes too much or reaches for what the sandbox keeps away.
        """
        variables = {
            **self._tokens,
            "messages": [_as_template_sees(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "tools": [{"type": "function", "function": tool} for tool in tools] if tools else None,
        }
        if self._template is None:
            return self._render_in_child(variables)
        try:
            return sandbox.render(self._template, variables)
        except Exception as error:  # a template is a stranger's program: whatever it raises is its own failure
            raise _refused(sandbox.reason(error)) from error

    def close(self) -> None:
        """End the child process, if there is one; closing twice is harmless."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._child.close()
            self._child = None

    def __enter__(self) -> ChatTemplate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _render_in_child(self, variables: dict[str, Any]) -> str:
        pipe = self._pipe or self._start_child()
        try:
            pipe.send(variables)
            if not pipe.poll(RENDER_SECONDS):
                self.close()
                raise _refused(f"it had not ended after {RENDER_SECONDS:g} seconds and was stopped")
            kind, text = pipe.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise _refused("the process that rendered it died, most likely for want of memory") from error
        if kind != "text":
            raise _refused(text)
        return str(text)

    def _start_child(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        child = context.Process(target=sandbox.serve, args=(theirs, self.source), name="chat-template", daemon=True)
        child.start()
        theirs.close()
        self._child, self._pipe = child, ours
        try:
            if ours.poll(START_SECONDS):
                ours.recv()
                return ours
        except EOFError:
            pass  # it died before it was ready: said below, as for one that never answers
        self.close()
        raise WorkloadError(
            "The process that renders the chat template did not start.", "Close other programs and try again."
        )


_HINT: Final = "Choose another model file, or one whose tokenizer.chat_template is repaired."

_BOUNDED_FILTERS: Final = {"trim", "tojson", "length", "upper", "lower", "capitalize", "string"}

_BOUNDED_NODES: Final = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.CondExpr, nodes.Const, nodes.Name,
    nodes.Getattr, nodes.Getitem, nodes.Compare, nodes.Operand, nodes.Not, nodes.And, nodes.Or, nodes.Add, nodes.Concat,
    nodes.Test, nodes.Filter, nodes.Call,
)  # fmt: skip
"""Without assignments, macros, products and nested loops, text cannot grow faster than template times messages."""


def _is_raise(call: nodes.Call) -> bool:
    return isinstance(call.node, nodes.Name) and call.node.name == "raise_exception"


def _as_template_sees(message: Message) -> dict[str, str]:
    seen = {"role": message.role, "content": message.content}
    return seen if message.name is None else {**seen, "name": message.name}


def _refused(reason: str) -> WorkloadError:
    return WorkloadError(f"The model's chat template could not be rendered: {reason}.", _HINT)
