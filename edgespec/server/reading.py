"""From what a request wants to the tokens and options that the engine is given: chat template, stops, checks.

Safe to use from any thread. Knows no HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from edgespec.choice import WITH_MODEL
from edgespec.engine import Engine, GenerateOptions
from edgespec.engine.checks import check_prompt, check_sampling
from edgespec.errors import ContextOverflow, MissingExtra
from edgespec.server.refusals import Refusal, about
from edgespec.server.tools import ToolChoice, ToolUse, prescribed
from edgespec.server.wire import Chat, Wanted
from edgespec.text.grammar import Grammar
from edgespec.text.toolcalls import BEGIN, CallForm
from edgespec.text.vocab import Segment

# Characters of a token in long texts of any kind: what is shorter than the context by this measure is not looked into.
LEAST_PIECE = 16


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
        tokens = self._tokens(wanted)
        with about("messages" if wanted.is_chat else "prompt"):
            engine = self._engine
            check_prompt(tokens, engine.vocab.n_vocab, engine.settings.n_ctx, engine.header.context_length)
        with about("logit_bias"):
            check_sampling(options.sampling, self._engine.vocab.n_vocab)
        if isinstance(wanted.prompt, Chat):
            missing = tuple(stop for stop in self._stops if stop not in options.stop)
            grammar = self._grammar(wanted.tools, options.grammar)
            options = replace(options, stop=options.stop + missing, grammar=grammar)
        predicted = self._engine.vocab.tokenize(prediction) if prediction else []
        options = replace(options, prediction=self._drafted_from(prediction, predicted))
        return Read(tokens, options, tuple(predicted), wanted.tools.names)

    def _grammar(self, use: ToolUse, answer: Grammar | None) -> Grammar | None:
        """Ready to be used, so that one which cannot be read is refused under its parameter's name."""
        if answer is not None:
            with about("response_format"):
                self._engine.compile(answer)
        if not use.tools:
            return answer
        with about("tools"):
            return self._with_calls(use, answer)

    def _with_calls(self, use: ToolUse, answer: Grammar | None) -> Grammar | None:
        form = self._template.call_form
        if use.choice is ToolChoice.AUTO and form is CallForm.TAGGED and BEGIN in self._engine.vocab.special_tokens:
            return answer  # no grammar could let a call begin
        grammar = prescribed(use, form, answer)
        if grammar is None:
            return None
        try:
            self._engine.compile(grammar)
        except MissingExtra:
            if answer is not None or use.choice is not ToolChoice.AUTO:
                raise
            return None  # a call that the model writes by itself is read all the same
        return grammar

    def _drafted_from(self, prediction: str, tokens: Sequence[int]) -> str:
        """Its beginning, as many tokens as an answer could have: the engine does nothing else while it gets to know a
        prediction, which takes seconds for one of megabytes.
        """
        most = self._engine.settings.n_ctx
        if len(tokens) <= most:
            return prediction
        return b"".join(map(self._engine.vocab.piece, tokens[:most])).decode("utf-8", "ignore")

    @cached_property
    def _longest_piece(self) -> int:
        """Characters that one token can stand for, at most."""
        vocab = self._engine.vocab
        pieces = max(len(vocab.piece(token)) for token in range(vocab.n_vocab))
        return max(pieces, *map(len, vocab.special_tokens), 1)

    def _encoded(self, segments: Sequence[Segment]) -> list[int]:
        """Raises ContextOverflow for what cannot fit: tokenisers take minutes for megabytes."""
        n_characters, n_ctx = sum(len(segment.text) for segment in segments), self._engine.settings.n_ctx
        if n_characters > n_ctx * LEAST_PIECE and n_characters > n_ctx * self._longest_piece:
            what, why = f"a prompt of {n_characters} characters", f"the context holds {n_ctx} tokens"
            raise ContextOverflow(what, why, "shorten it")
        return self._engine.encoder.encode(segments)

    def _tokens(self, wanted: Wanted) -> list[int]:
        encoder = self._engine.encoder
        if isinstance(wanted.prompt, Chat):
            messages, tools = wanted.prompt.messages, wanted.tools.tools
            return self._encoded(self._template.render_segments(messages, True, encoder.specials, tools))
        if isinstance(wanted.prompt, str):
            return self._encoded([Segment(wanted.prompt, trusted=False)])
        return list(wanted.prompt)
