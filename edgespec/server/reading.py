"""From what a request wants to the tokens and options that the engine is given: chat template, stops, checks.

Safe to use from any thread. Knows no HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgespec.choice import WITH_MODEL
from edgespec.engine import Engine, GenerateOptions
from edgespec.server.refusals import Refusal
from edgespec.server.wire import Chat, Wanted
from edgespec.text.template import load_template
from edgespec.text.vocab import Segment


@dataclass(frozen=True, slots=True)
class Read:
    """prediction: the tokens of the text that the caller predicted."""

    tokens: list[int]
    options: GenerateOptions
    prediction: tuple[int, ...]


class PromptReader:
    """`template` is a built-in name or a jinja2 file; None takes the card's or the model's own. Raises BadInput."""

    def __init__(self, engine: Engine, template: str | None = None) -> None:
        card, vocab = engine.card, engine.vocab
        own = (card.chat_template if card else None) or engine.header.chat_template
        self._engine = engine
        self._template = load_template(template, own, vocab.bos_text, vocab.eos_text)
        self._stops = self._template.stops + (card.stop_strings if card else ())

    def read(self, wanted: Wanted) -> Read:
        """Raises Refusal and BadInput."""
        options, prediction = wanted.options, wanted.options.prediction
        if self._engine.partner is None and any(options.draft.asks(name) for name in WITH_MODEL):
            why, remedy = "this server has no second model", f"leave {' and '.join(WITH_MODEL)} out"
            raise Refusal("edgespec.draft", why, remedy, code="invalid_value", param="edgespec.draft")
        if isinstance(wanted.prompt, Chat):
            missing = tuple(stop for stop in self._stops if stop not in options.stop)
            options = replace(options, stop=options.stop + missing)
        predicted = self._engine.vocab.tokenize(prediction) if prediction else []
        return Read(self._tokens(wanted), options, tuple(predicted))

    def _tokens(self, wanted: Wanted) -> list[int]:
        encoder = self._engine.encoder
        if isinstance(wanted.prompt, Chat):
            return encoder.encode(self._template.render_segments(wanted.prompt.messages, True, encoder.specials))
        if isinstance(wanted.prompt, str):
            return encoder.encode([Segment(wanted.prompt, trusted=False)])
        return list(wanted.prompt)
