"""From what a request wants to the tokens and options that the engine is given: chat template, stops, checks.

Safe to use from any thread. Knows no HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgespec.choice import WITH_MODEL
from edgespec.engine import Engine, GenerateOptions
from edgespec.errors import MissingExtra
from edgespec.server.refusals import Refusal
from edgespec.server.tools import ToolChoice, ToolUse, prescribed
from edgespec.server.wire import Chat, Wanted
from edgespec.text.grammar import Grammar
from edgespec.text.toolcalls import BEGIN, CallForm
from edgespec.text.vocab import Segment


@dataclass(frozen=True, slots=True)
class Read:
    """prediction: the tokens of the text that the caller predicted. functions: names of those that may be called."""

    tokens: list[int]
    options: GenerateOptions
    prediction: tuple[int, ...]
    functions: frozenset[str] = frozenset()


class PromptReader:
    """`template` is a built-in name or a jinja2 file; None takes the card's or the model's own. Raises BadInput."""

    def __init__(self, engine: Engine, template: str | None = None) -> None:
        card = engine.card
        self._engine = engine
        self._template = engine.template(template)
        self._stops = self._template.stops + (card.stop_strings if card else ())

    def read(self, wanted: Wanted) -> Read:
        """Raises Refusal and BadInput."""
        options, prediction = wanted.options, wanted.options.prediction
        if self._engine.partner is None and any(options.draft.asks(name) for name in WITH_MODEL):
            why, remedy = "this server has no second model", f"leave {' and '.join(WITH_MODEL)} out"
            raise Refusal("edgespec.draft", why, remedy, code="invalid_value", param="edgespec.draft")
        if isinstance(wanted.prompt, Chat):
            missing = tuple(stop for stop in self._stops if stop not in options.stop)
            grammar = self._grammar(wanted.tools, options.grammar) if wanted.tools.tools else options.grammar
            options = replace(options, stop=options.stop + missing, grammar=grammar)
        predicted = self._engine.vocab.tokenize(prediction) if prediction else []
        return Read(self._tokens(wanted), options, tuple(predicted), wanted.tools.names)

    def _grammar(self, use: ToolUse, answer: Grammar | None) -> Grammar | None:
        form = self._template.call_form
        if use.choice is ToolChoice.AUTO and form is CallForm.TAGGED and BEGIN in self._engine.vocab.special_tokens:
            return answer  # no grammar could let a call begin
        grammar = prescribed(use, form, answer)
        if grammar is None or answer is not None or use.choice is not ToolChoice.AUTO:
            return grammar
        try:
            self._engine.compile(grammar)
        except MissingExtra:
            return None  # a call that the model writes by itself is read all the same
        return grammar

    def _tokens(self, wanted: Wanted) -> list[int]:
        encoder = self._engine.encoder
        if isinstance(wanted.prompt, Chat):
            messages, tools = wanted.prompt.messages, wanted.tools.tools
            return encoder.encode(self._template.render_segments(messages, True, encoder.specials, tools))
        if isinstance(wanted.prompt, str):
            return encoder.encode([Segment(wanted.prompt, trusted=False)])
        return list(wanted.prompt)
