from __future__ import annotations

import pytest

from edgespec.choice import DRAFTERS, DraftChoice
from edgespec.errors import BadInput


@pytest.mark.parametrize("text", ["auto", "off", *DRAFTERS, ",".join(DRAFTERS)])
def test_a_choice_is_read_as_it_is_written(text: str) -> None:
    assert DraftChoice.parse(text).value == text
    assert DraftChoice.split(text) == (DraftChoice.parse(text), "")


def test_the_usual_choices_have_names() -> None:
    assert DraftChoice.parse(" Auto") is DraftChoice.AUTO
    assert DraftChoice.parse("OFF") is DraftChoice.OFF
    assert DraftChoice.parse("lookup") == DraftChoice.LOOKUP
    assert DraftChoice.parse("model") == DraftChoice.MODEL


def test_order_case_and_repetition_do_not_matter() -> None:
    assert DraftChoice.parse("Model, lookup,model") == DraftChoice.parse("lookup,model")


@pytest.mark.parametrize("text", ["", "magic", "lookup,", "auto,lookup", "off,model", "auto,auto"])
def test_what_is_no_choice_is_an_error(text: str) -> None:
    with pytest.raises(BadInput, match=r"choose auto, off, or among lookup"):
        DraftChoice.parse(text)


@pytest.mark.parametrize(
    ("text", "choice", "model"),
    [
        ("./draft.gguf", "model", "./draft.gguf"),
        ("auto, ./Draft.step", "auto", "./Draft.step"),
        ("lookup,smollm2-135m", "lookup,model", "smollm2-135m"),
        ("hf:user/Repo:Q4_0", "model", "hf:user/Repo:Q4_0"),
    ],
)
def test_a_model_among_the_names_becomes_the_second_model(text: str, choice: str, model: str) -> None:
    assert DraftChoice.split(text) == (DraftChoice.parse(choice), model)


@pytest.mark.parametrize("text", ["lokup", "atuo", "a.gguf,b.gguf", "", "off,a.gguf"])
def test_misspelt_drafters_and_two_models_are_errors(text: str) -> None:
    with pytest.raises(BadInput, match="draft"):
        DraftChoice.split(text)
