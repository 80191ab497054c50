"""A few everyday prompts of several kinds, as a model reads them: what a draft is tried on before its first answer.

In the model's own chat template where it has one, else the beginnings of texts. Runs no model.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.errors import BadInput
from edgespec.library.card import ModelCard, ModelKind
from edgespec.text.template import Message, load_template
from edgespec.text.vocab import PromptEncoder, Segment, Vocabulary

# Talk, facts, a list, a program, sums, another wording of a given text: how often a draft is right differs by kind.
QUESTIONS = (
    "My neighbour asked me to water her plants while she is away. How do I do that well?",
    "Write a Python function that counts how often every word occurs in a text.",
    "Why is the sky blue at noon and red in the evening? Explain it to a child.",
    "Write this more politely: You sent me the wrong shoes. Send the right ones and take these back.",
    "A train leaves at 9:40 and arrives at 12:15. How long is the journey? Show each step.",
    "Name six things to pack for a weekend in the mountains.",
)
# For models that go on with a text and were not taught to answer.
OPENINGS = (
    "The old harbour lies at the mouth of the river. In the morning the boats",
    "def count_words(text):\n    counts = {}\n",
    "Water boils at a lower temperature on a high mountain because",
    "Dear Sir or Madam,\n\nthank you for your letter of last week. We are sorry that",
    "First take two eggs, some flour and a little milk. Then",
    "The meeting began at nine o'clock. The first point on the list was",
)


@dataclass(frozen=True, slots=True)
class Everyday:
    """Token ids of prompts, and the tokens that end an answer to them."""

    prompts: tuple[tuple[int, ...], ...]
    ends: frozenset[int]


def everyday(vocab: Vocabulary, chat_template: str | None, card: ModelCard | None, ends: frozenset[int]) -> Everyday:
    """chat_template: the model's own. A template that is wrong is not used: whoever chats with it will be told."""
    own = (card.chat_template if card else None) or chat_template
    asked = [] if own is None or _is_base(card) else _asked(vocab, own)
    encoder = PromptEncoder(vocab)
    prompts = asked or [encoder.encode([Segment(text, trusted=False)]) for text in OPENINGS]
    return Everyday(tuple(map(tuple, prompts)), ends)


def _is_base(card: ModelCard | None) -> bool:
    return card is not None and card.kind is ModelKind.BASE


def _asked(vocab: Vocabulary, source: str) -> list[list[int]]:
    encoder = PromptEncoder(vocab)
    try:
        template = load_template(None, source, vocab.bos_text, vocab.eos_text)
        said = [template.render_segments([Message("user", text)], True, encoder.specials) for text in QUESTIONS]
    except BadInput:
        return []
    return [encoder.encode(segments) for segments in said]
