from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.cli.message import is_open, messages, unquoted


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["one", "two"], ["one", "two"]),
        (["one\n", "two\r\n"], ["one", "two"]),
        (["one\\", "two"], ["one\ntwo"]),
        (["one\\", "two\\", "three", "four"], ["one\ntwo\nthree", "four"]),
        (['"""one', "", 'two"""', "three"], ["one\n\ntwo", "three"]),
        (['"""', "one", '"""'], ["one"]),
        (['"""one\\', 'two"""'], ["one\\\ntwo"]),
        (['"""one', "two"], ["one\ntwo"]),
        (["one\\"], ["one\n"]),
        (['"""doc"""', "two"], ["doc", "two"]),
        (["", "one"], ["", "one"]),
        ([], []),
    ],
)
def test_lines_become_messages(lines: list[str], expected: list[str]) -> None:
    assert list(messages(lines)) == expected


@given(st.lists(st.text(st.characters(exclude_characters='"\\\r\n', exclude_categories=["Cs"]))))
def test_plain_lines_are_messages_as_they_stand(lines: list[str]) -> None:
    assert list(messages(lines)) == lines


@pytest.mark.parametrize("code", ['"""doc"""\ndef f(): ...', 'x = """a"""', '"""a"""\n"""b"""'])
def test_code_that_holds_triple_quotes_stays_whole(code: str) -> None:
    assert not is_open(code)
    assert unquoted(code) == code


def test_quotes_in_the_middle_open_nothing() -> None:
    assert not is_open('say """')
    assert is_open('  """say')
