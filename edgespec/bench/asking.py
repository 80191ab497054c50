"""How a prompt is put to a model: as a chat of its own in the model's template, or as it stands without one."""

from __future__ import annotations

from edgespec.bench.prompts import Prompt
from edgespec.engine import Engine
from edgespec.library.card import ModelCard
from edgespec.text.template import Message, load_template
from edgespec.text.vocab import Segment


class Asking:
    """`stops`: the stop strings that answers need."""

    def __init__(self, engine: Engine, card: ModelCard | None) -> None:
        vocab = engine.vocab
        own = (card.chat_template if card else None) or engine.header.chat_template
        self._encoder = engine.encoder
        self._template = load_template(None, own, vocab.bos_text, vocab.eos_text) if own else None
        self.stops = (*(self._template.stops if self._template else ()), *(card.stop_strings if card else ()))

    def tokens(self, prompt: Prompt) -> list[int]:
        if self._template is None:
            return self._encoder.encode([Segment(prompt.text, trusted=False)])
        segments = self._template.render_segments([Message("user", prompt.text)], True, self._encoder.specials)
        return self._encoder.encode(segments)
