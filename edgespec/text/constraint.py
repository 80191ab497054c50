"""A grammar over one model's tokens: what may follow an output, and what must. By llguidance, loaded when first used.

Contract: `after` and `forced` are functions of the output's tokens and of nothing else, in whatever order they are
asked. One matcher stands where it was asked last and goes back and forth from there; the plain twin is a new matcher
that reads the whole output. Special tokens are never allowed inside, end tokens exactly where the grammar can end, and
nothing but them once it has. Where bytes are forced and one tokenisation of them is the model's own, only that is.

JSON is written on one line, ", " and ": " between its parts and no other white space, so that more of it is forced and
no answer can go on with blanks for ever; a schema's "x-guidance" object may say otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from edgespec.errors import BadInput, EngineFailure
from edgespec.spec.allowed import AllowedTokens, ForcedTokens, Forcing, Mask
from edgespec.text.grammar import Grammar, GrammarKind
from edgespec.text.spelling import TokenTree
from edgespec.text.vocab import Vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher

# A matcher's shared lexer grows as it is used: as many grammars as a program has at once, not all it ever had.
_MAX_COMPILED = 8
# An error is one sentence on a terminal, and the library adds the whole grammar to some of its own.
_LONGEST_REASON = 200


class GrammarCompiler:
    """Makes constraints for one vocabulary. Its token tree is built when the first grammar comes; a grammar's own lexer
    is shared by all constraints made of it. `ends`: the tokens that end an answer. Safe to use from several threads.
    """

    def __init__(self, vocab: Vocabulary, ends: frozenset[int]) -> None:
        self._vocab = vocab
        self._ends = ends
        self._compiled: dict[Grammar, LLMatcher] = {}
        self._lock = threading.Lock()

    def compile(self, grammar: Grammar) -> Constraint:
        """Raises BadInput with the library's reason for a schema or grammar that it cannot read, MissingExtra."""
        with self._lock:
            matcher = self._compiled.pop(grammar, None) or self._matcher(grammar)
            self._compiled[grammar] = matcher
            if len(self._compiled) > _MAX_COMPILED:
                del self._compiled[next(iter(self._compiled))]  # the one asked for longest ago
            return Constraint(matcher.deep_copy(), self._tokens, grammar.name)

    @property
    def n_compiled(self) -> int:
        """Grammars kept."""
        return len(self._compiled)

    @cached_property
    def _tokens(self) -> TokenTree:
        return TokenTree(self._vocab, self._ends)

    def _matcher(self, grammar: Grammar) -> LLMatcher:
        tokenizer = self._tokens.tokenizer
        from llguidance import LLMatcher

        try:
            matcher = LLMatcher(tokenizer, source(grammar, LLMatcher), log_level=0)
        except ValueError as error:
            raise _refused(grammar, str(error)) from error
        if matcher.is_error():
            raise _refused(grammar, matcher.get_error())
        _try_to_begin(grammar, matcher.deep_copy())
        return matcher


class Constraint:
    """What a grammar says about one output. Made by a GrammarCompiler; used by one thread at a time."""

    __slots__ = ("_matcher", "_name", "_read", "_tokens")

    def __init__(self, matcher: LLMatcher, tokens: TokenTree, name: str) -> None:
        """`matcher` has read nothing yet."""
        self._matcher = matcher
        self._tokens = tokens
        self._name = name
        self._read: list[int] = []

    def fork(self) -> Constraint:
        """The same constraint for somebody else, who may ask about other outputs."""
        matcher = self._matcher.deep_copy()
        matcher.rollback(len(self._read))
        return Constraint(matcher, self._tokens, self._name)

    def mask(self, n_prompt: int) -> Mask:
        """For the law: it is asked by prompt and output together, and the output begins after `n_prompt` tokens."""
        return lambda history: self.after(history[n_prompt:])

    def after(self, output: Sequence[int]) -> AllowedTokens:
        """What may come next; nothing at all after an output that the grammar does not allow.

        Raises EngineFailure when the grammar turns out too complex for the library's limits, BadInput when it asks for
        something that no token spells.
        """
        if not self._move(list(output)):
            return AllowedTokens(np.zeros_like(self._tokens.usable))
        try:
            bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)[: len(self._tokens.usable)]
        except ValueError as error:
            raise self._broken(str(error)) from error
        allowed = AllowedTokens(bits & self._tokens.usable)
        if self._matcher.is_error():
            raise self._broken(self._matcher.get_error())
        if not allowed.bits.any():
            raise BadInput(self._name, "no token of this model can follow here", "name no special tokens in it")
        return allowed

    def forced(self, output: Sequence[int], limit: int, end: int | None = None) -> ForcedTokens:
        """At most `limit` tokens that must come next, or probably must, with the reason for each.

        Where bytes are forced, but not their tokens, the vocabulary's own tokenisation of them is guessed; `end` is the
        guess for an end token among several, the vocabulary's own one if None.
        """
        found = ForcedTokens([], [])
        if not self._move(list(output)):
            return found
        tokens, reasons = found.tokens, found.reasons
        more, why = self._next()
        while more and len(tokens) < limit:
            n = self._matcher.try_consume_tokens(more)
            tokens += more[:n]
            reasons += why[:n]
            more, why = self._next() if n == len(more) else ([], [])
        n_read = len(tokens)
        if self._is_complete():
            tokens.append(self._tokens.ends[0] if end is None else end)
            reasons.append(Forcing.END if len(self._tokens.ends) > 1 else Forcing.SOLE)
        self._matcher.rollback(n_read)
        return ForcedTokens(tokens[:limit], reasons[:limit])

    def _next(self) -> tuple[list[int], list[Forcing]]:
        certain = self._matcher.compute_ff_tokens()
        if certain:
            return certain, [Forcing.SOLE] * len(certain)
        spelled = self._matcher.compute_ff_bytes()
        if spelled:
            guess = self._tokens.tokenizer.tokenize_bytes(spelled)
            return guess, [Forcing.INNER] * (len(guess) - 1) + [Forcing.EDGE]
        return [], []

    def _is_complete(self) -> bool:
        """Whether only end tokens are left. The matcher notices by itself only with its next mask."""
        if not self._matcher.is_accepting():
            return False
        self._matcher.compute_bitmask()
        return self._matcher.is_stopped()

    def _move(self, output: list[int]) -> bool:
        """Put the matcher behind `output`, or as far as the grammar allows; whether that is all of it."""
        n = _n_common(self._read, output)
        if n < len(self._read):
            self._matcher.rollback(len(self._read) - n)
            del self._read[n:]
        rest = output[n:]
        n_allowed = self._matcher.try_consume_tokens(rest) if rest else 0
        if self._matcher.is_error():
            raise self._broken(self._matcher.get_error())
        self._read += rest[:n_allowed]
        return n_allowed == len(rest)

    def _broken(self, reason: str) -> EngineFailure:
        return EngineFailure(self._name, f"it cannot be followed: {_first_line(reason)}", "give a simpler one")


def _n_common(a: list[int], b: list[int]) -> int:
    """Length of the longest common prefix. Mostly one is a prefix of the other, which a comparison of lists finds in
    2 ns per token.
    """
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return next(place for place in range(n) if a[place] != b[place])


def source(grammar: Grammar, matchers: type[LLMatcher]) -> str:
    """In the library's own notation. Raises ValueError."""
    if grammar.kind is GrammarKind.LARK:
        return matchers.grammar_from_lark(grammar.text)
    return matchers.grammar_from_json_schema(
        grammar.text, defaults={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    )


def _try_to_begin(grammar: Grammar, matcher: LLMatcher) -> None:
    """Only then the library sees that a grammar has no text, or is too complex. Raises BadInput."""
    try:
        matcher.compute_bitmask()
        reason = matcher.get_error() if matcher.is_error() else ""
    except ValueError as error:
        reason = str(error)
    if reason:
        raise _refused(grammar, f"no answer can begin with it: {_first_line(reason)}")


def _refused(grammar: Grammar, reason: str) -> BadInput:
    if grammar.kind is GrammarKind.LARK and "::=" in grammar.text:
        why = "'::=' is GBNF, llama.cpp's own form, and this reads Lark"
        return BadInput(grammar.name, why, "write each rule as 'name: ...', and 'start' for 'root'")
    return BadInput(grammar.name, _first_line(reason), f"correct the {grammar.kind.value}")


def _first_line(reason: str) -> str:
    """The library's reason without the pictures below it."""
    lines = [line for line in reason.splitlines() if line.strip()]
    said = lines[0] if lines else "the library gives no reason"
    # "regex parse error:" and the like say what it is about on the lines that follow.
    said = " ".join(" ".join(lines[:4] if said.endswith(":") else [said]).split())
    return said[:_LONGEST_REASON]
