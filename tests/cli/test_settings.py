from __future__ import annotations

import pytest

from edgespec.cli.options import AnswerFlags
from edgespec.cli.settings import SETTINGS, change, find, summary
from edgespec.engine import DraftChoice, GenerateOptions
from edgespec.errors import BadInput
from edgespec.spec.law import SamplingSettings

USUAL = GenerateOptions()


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("temperature", "0.5", "0.5"),
        ("--top-p", "0.9", "0.9"),
        ("top_k", "40", "40"),
        ("TOP-K", "40", "40"),
        ("seed", "7", "7"),
        ("max_tokens", "12", "12"),
        ("exact", "on", "on"),
        ("exact", "no", "off"),
        ("draft", "OFF", "off"),
    ],
)
def test_a_setting_shows_what_it_was_set_to(name: str, text: str, shown: str) -> None:
    assert find(name).show(change(USUAL, name, text)) == shown


def test_every_setting_can_be_set_to_what_it_shows() -> None:
    for name, setting in SETTINGS.items():
        assert setting.change(USUAL, setting.show(USUAL)) == USUAL, name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("temperature", "hot"),
        ("temperature", "-1"),
        ("top_k", "1.5"),
        ("max_tokens", "0"),
        ("exact", "perhaps"),
        ("draft", "everything"),
        ("warmth", "1"),
    ],
)
def test_a_bad_value_is_named(name: str, text: str) -> None:
    with pytest.raises(BadInput, match=f"{text}|{name}"):
        change(USUAL, name, text)


def test_the_settings_are_options_of_the_command_line() -> None:
    assert set(SETTINGS) <= set(AnswerFlags.__dataclass_fields__)


def test_the_summary_names_what_differs_from_plain_decoding() -> None:
    assert summary(SamplingSettings(seed=4)) == "temperature 0"
    warm = SamplingSettings(temperature=0.7, top_p=0.95, top_k=40, min_p=0.1, seed=4, repeat_penalty=1.1)
    assert summary(warm) == "temperature 0.7, seed 4, top-p 0.95, top-k 40, min-p 0.1, repeat penalty 1.1"
    assert change(USUAL, "draft", "lookup").draft == DraftChoice.LOOKUP
