"""What a draft is tried on, in the words of a toy vocabulary."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgespec.engine.pair.everyday import OPENINGS, QUESTIONS, everyday
from edgespec.library.card import ModelCard, ModelKind
from tests.library.toy_card import toy_card
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
ENDS = frozenset({3})
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
CHAT = replace(toy_card(b""), kind=ModelKind.CHAT, chat_template=None)
BASE = replace(CHAT, kind=ModelKind.BASE)


def texts(chat_template: str | None, card: ModelCard | None) -> list[str]:
    found = everyday(VOCAB, chat_template, card, ENDS)
    assert found.ends == ENDS
    assert len(found.prompts) == len(QUESTIONS)
    assert all(prompt[0] == VOCAB.bos for prompt in found.prompts)
    return [b"".join(map(VOCAB.piece, prompt)).decode() for prompt in found.prompts]


@pytest.mark.parametrize("card", [None, CHAT])
def test_a_model_with_a_template_is_asked_in_it(card: ModelCard | None) -> None:
    turn = VOCAB.special_tokens["<|im_start|>"]
    assert texts(TEMPLATE, card) == list(QUESTIONS)
    assert all(turn in prompt for prompt in everyday(VOCAB, TEMPLATE, card, ENDS).prompts)


def test_the_cards_template_comes_first() -> None:
    assert texts(TEMPLATE, replace(CHAT, chat_template="Q: " + TEMPLATE))[0] == "Q: " + QUESTIONS[0]


@pytest.mark.parametrize(
    ("chat_template", "card"), [(None, None), (None, CHAT), (TEMPLATE, BASE), ("{{ nothing.at.all }}", None)]
)
def test_others_go_on_with_a_text(chat_template: str | None, card: ModelCard | None) -> None:
    assert texts(chat_template, card) == list(OPENINGS)
