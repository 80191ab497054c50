"""The names that published templates use, and what the sandbox refuses."""

from __future__ import annotations

from datetime import datetime

import pytest
from jinja2 import TemplateError
from jinja2.exceptions import SecurityError

from edgespec.text.sandbox import compile_template, line_of


def rendered(source: str, **values: object) -> str:
    return compile_template(source, lambda: datetime(2024, 7, 26, 12)).render(values)


def test_blocks_leave_no_line_of_their_own() -> None:
    assert rendered("a\n  {% if true %}\nb\n  {% endif %}\nc") == "a\nb\nc"


def test_loops_can_break_and_continue() -> None:
    source = "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 3 %}{% break %}{% endif %}{{ i }}"
    assert rendered(source + "{% endfor %}") == "02"


def test_generation_marks_mean_nothing() -> None:
    assert rendered("a{% generation %}{{ x }}{% endgeneration %}b", x="!") == "a!b"


def test_tojson_writes_plain_json() -> None:
    assert rendered("{{ x | tojson }}", x={"b": "<é>", "a": 1}) == '{"b": "<é>", "a": 1}'
    assert rendered("{{ x | tojson(indent=1) }}", x=[1]) == "[\n 1\n]"


def test_strftime_now_reads_the_clock_that_was_given() -> None:
    assert rendered("{{ strftime_now('%d %b %Y') }}") == "26 Jul 2024"


def test_raise_exception_carries_its_message_and_line() -> None:
    with pytest.raises(TemplateError, match="no such role") as caught:
        rendered("one\ntwo\n{{ raise_exception('no such role') }}")
    assert line_of(caught.value) == 3


def test_a_syntax_error_has_its_line() -> None:
    with pytest.raises(TemplateError) as caught:
        rendered("one\n{% if %}")
    assert line_of(caught.value) == 2


def test_an_error_from_elsewhere_has_no_line() -> None:
    assert line_of(ValueError("x")) is None


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ (messages | first).__init__.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='system') }}",
        "{{ ''['__cl' ~ 'ass__'].mro() }}",
        "{{ (messages | map(attribute='__class__') | first).mro() }}",
    ],
)
def test_attribute_tricks_are_refused(attack: str) -> None:
    with pytest.raises(SecurityError):
        rendered(attack, messages=[{"role": "user"}])


@pytest.mark.parametrize(
    "attack",
    ["{{ strftime_now.__globals__ }}", "{{ '{0.__class__}'.format(messages) }}", "{{ '%s' | attr('__class__') }}"],
)
def test_attributes_that_are_only_printed_are_empty(attack: str) -> None:
    assert rendered(attack, messages=[]) == ""


def test_files_cannot_be_included() -> None:
    with pytest.raises((TemplateError, TypeError)):
        rendered("{% include '/etc/passwd' %}")
