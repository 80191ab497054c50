from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.cli.paint import COLOURS, Look, choose_look, colour_of, legend, printable, tinted


@pytest.mark.parametrize(
    ("color", "environment", "expected"),
    [
        (None, {}, Look(tints=False, styled=True)),
        (True, {}, Look(tints=True, styled=True)),
        (False, {}, Look(tints=False, styled=False)),
        (None, {"NO_COLOR": "1"}, Look(tints=False, styled=False)),
        (True, {"NO_COLOR": "1"}, Look(tints=False, styled=False)),
        (True, {"NO_COLOR": ""}, Look(tints=True, styled=True)),
    ],
)
def test_no_color_wins(color: bool | None, environment: dict[str, str], expected: Look) -> None:
    assert choose_look(color, environment) == expected


def test_every_drafter_has_its_colour() -> None:
    assert len({colour_of(source) for source in COLOURS}) == len(COLOURS)
    assert colour_of("some model") == colour_of("some model") not in COLOURS.values()


def test_only_guesses_are_tinted() -> None:
    assert tinted("word", "") == "word"
    assert tinted("word", "lookup") == "\x1b[32mword\x1b[0m"
    assert tinted("given", "given") in legend(["lookup", "given"])


@given(st.text())
def test_nothing_that_is_shown_can_command_a_terminal(text: str) -> None:
    shown = printable(text)
    assert all(character in "\n\t" or ord(character) >= 32 for character in shown)
    assert not any(0x7F <= ord(character) < 0xA0 for character in shown)


def test_ordinary_text_is_shown_as_it_is() -> None:
    text = "na\u00efve \u4f60\u597d \U0001f98a\n\tx"
    assert printable(text) == text
    assert printable("a\r\nb\x1b[2J") == "a\nb\u241b[2J"
