from __future__ import annotations

import multiprocessing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import WorkloadError
from app.trajectory.episode import Message
from app.workload.chat import CHATML, ChatTemplate

TALK = (Message("system", "Be brief."), Message("user", "Hi."))


def test_a_model_without_a_template_gets_chatml_and_the_record_says_so() -> None:
    template = ChatTemplate(None)
    assert "ChatML" in template.note
    assert template.render(TALK) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert not ChatTemplate(CHATML).note


def test_no_generation_prompt_where_none_is_asked_for() -> None:
    assert ChatTemplate(None).render(TALK, add_generation_prompt=False).endswith("Hi.<|im_end|>\n")


def test_the_bos_token_is_there_once_where_the_template_writes_it() -> None:
    template = ChatTemplate(
        "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}", "<s>", "</s>"
    )
    assert template.render(TALK) == "<s>Be brief.</s>Hi.</s>"


def test_blocks_are_trimmed_as_chat_templates_expect() -> None:
    source = "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n"
    assert ChatTemplate(source).render(TALK) == "Hi.\n"


def test_tojson_writes_signs_as_they_are_and_indents() -> None:
    source = "{{ tools[0].function | tojson(indent=2) }}"
    with ChatTemplate(source) as template:
        assert template.render(TALK, tools=[{"name": "<é>"}]) == '{\n  "name": "<é>"\n}'


def test_a_template_like_those_in_circulation_renders_in_a_child_process() -> None:
    source = (
        "{%- macro show(m) %}{{ '[' ~ m.role ~ '] ' ~ m.content | trim }}{% endmacro -%}"
        "{%- set ns = namespace(system='') %}"
        "{%- for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content %}{% endif %}{% endfor %}"
        "{{- strftime_now('%d %b %Y') + '|' + ns.system + '|' }}"
        "{%- for m in messages if m.role != 'system' %}{{ show(m) }}{% break %}{% endfor %}"
    )
    with ChatTemplate(source) as template:
        assert not template.harmless
        assert template.render(TALK) == "26 Jul 2024|Be brief.|[user] Hi."
        assert template.render(TALK) == "26 Jul 2024|Be brief.|[user] Hi."


def test_the_child_process_is_gone_after_close() -> None:
    template = ChatTemplate("{% set x = 1 %}{{ x }}")
    template.render(TALK)
    assert [child.name for child in multiprocessing.active_children()].count("chat-template") == 1
    template.close()
    template.close()
    assert "chat-template" not in [child.name for child in multiprocessing.active_children()]


@pytest.mark.parametrize(
    "source",
    [
        CHATML,
        "{% for m in messages %}{{ m['content'] | trim }}{% if loop.last %}.{% endif %}{% endfor %}",
        "{% if messages[0]['role'] == 'x' %}{{ raise_exception('no') }}{% endif %}",
    ],
)
def test_a_template_that_can_only_walk_the_messages_is_known_to_be_harmless(source: str) -> None:
    assert ChatTemplate(source).harmless


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(9) %}{% endfor %}",
        "{% for m in messages %}{% for n in messages %}{% endfor %}{% endfor %}",
        "{% set x = 'a' %}",
        "{{ 'a' * 9 }}",
        "{{ 'a'.ljust(9) }}",
        "{{ messages | map('upper') | list }}",
        "{% macro f() %}{{ f() }}{% endmacro %}",
        "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
        "{{ '%9d' % 1 }}",
    ],
)
def test_a_template_that_could_grow_is_not_taken_for_harmless(source: str) -> None:
    assert not ChatTemplate(source).harmless


@pytest.mark.parametrize(
    ("source", "because"),
    [
        ("{{ raise_exception('Only user and assistant roles are supported!') }}", "Only user and assistant roles"),
        ("{{ messages[99].content.x }}", "says"),
        ("{{ messages + 1 }}", "failed"),
        ("{{ x | nosuchfilter }}", "nosuchfilter"),
        ("{{ 'ab' | center(9999999999) }}", "memory"),
        ("{{ ''.__class__.__mro__ }}", "sandbox"),
        ("{{ ''['__class__']['__mro__'] }}", "sandbox"),
        ("{{ messages.append('x') }}", "sandbox"),
        ("{{ (raise_exception | attr('__globals__'))['sys'] }}", "sandbox"),
        ("{{ cycler.__init__.__globals__.os.system('true') }}", "sandbox"),
        ("{{ '{0.__class__.__mro__}'.format('') }}", "sandbox"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls itself without end"),
        ("{% for i in range(999999999) %}{% endfor %}", "failed"),
        ("{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "memory"),
        ("{{ 'ab' * 9999999999 }}", "memory"),
        (
            "{% for i in range(99999) %}{% for j in range(999) %}{{ 'aaaaaaaaaaaaaaaa' }}{% endfor %}{% endfor %}",
            "wrote more",
        ),
    ],
)
def test_a_template_that_misbehaves_gets_a_sentence(source: str, because: str) -> None:
    with ChatTemplate(source) as template, pytest.raises(WorkloadError, match=because) as caught:
        template.render(TALK)
    assert caught.value.message.startswith("The model's chat template could not be rendered: ")
    assert caught.value.message.endswith(".")
    assert caught.value.hint


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{{ 9 ** (9 ** 9) }}",
    ],
)
def test_a_template_that_does_not_end_is_stopped(source: str) -> None:
    with ChatTemplate(source) as template, pytest.raises(WorkloadError, match="had not ended after 2 seconds"):
        template.render(TALK)


def test_a_template_that_was_stopped_can_render_again() -> None:
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    source = "{% if messages | length == 1 %}" + endless + "{% endif %}ok"
    with ChatTemplate(source) as template:
        with pytest.raises(WorkloadError, match="had not ended"):
            template.render(TALK[:1])
        assert template.render(TALK) == "ok"


@pytest.mark.parametrize(
    ("source", "because"),
    [
        ("a\n{% for %}", "mistake in line 2"),
        ("x" * 200_001, "longer than"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "cannot be read"),
    ],
)
def test_a_template_that_is_none_gets_a_sentence(source: str, because: str) -> None:
    with pytest.raises(WorkloadError, match=because):
        ChatTemplate(source)


@given(st.text(alphabet="{}%#-[]()'.|~+*=: \nafimnorestgx0129_", max_size=60))
def test_any_text_is_a_template_or_a_known_error(source: str) -> None:
    try:
        template = ChatTemplate(source)
        if template.harmless:
            template.render(TALK)
    except WorkloadError as error:
        assert error.message
