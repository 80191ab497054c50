"""A vocabulary as llguidance reads it: the tree of its tokens' bytes, its own tokeniser, and what is no text.

Building the tree takes some 0.6 s for 50,000 tokens, and 4 s for 260,000. Knows no grammar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from edgespec.errors import BadInput, MissingExtra
from edgespec.text.vocab import Vocabulary

if TYPE_CHECKING:
    from llguidance import LLTokenizer

EXTRA = "run: pip install llguidance"


class TokenTree:
    """ends: ids of the end tokens, the vocabulary's own first. usable: uint8[ceil(n_vocab / 8)], a bit for every token
    that is plain text or an end token.
    """

    def __init__(self, vocab: Vocabulary, ends: frozenset[int]) -> None:
        """Raises MissingExtra, and BadInput for a vocabulary without an end token."""
        if not ends:
            raise BadInput("a grammar", "this model has no end token, so no answer could end", "use another model")
        own = vocab.special_tokens.get(vocab.eos_text)
        self.ends = sorted(ends, key=lambda token: (token != own, token))
        special = {*vocab.special_tokens.values(), *ends}
        pieces = [b"" if token in special else vocab.piece(token) for token in range(vocab.n_vocab)]
        usable = np.array([bool(piece) for piece in pieces])
        usable[self.ends] = True
        self.usable: npt.NDArray[np.uint8] = np.packbits(usable, bitorder="little")
        self.tokenizer = _tokenizer(Spelling(vocab, pieces), self.ends)


class Spelling:
    """What llguidance's wrapper asks of a tokeniser; the names are its own."""

    bos_token_id = None
    eos_token_id = 0  # the end tokens are handed over beside it
    special_token_ids: tuple[int, ...] = ()

    def __init__(self, vocab: Vocabulary, pieces: list[bytes]) -> None:
        # 0xff begins no UTF-8; for the library it marks a token that text never spells.
        self.tokens = [piece or b"\xff<%d>" % token for token, piece in enumerate(pieces)]
        self._vocab = vocab
        self._pieces = pieces
        self._newline = vocab.tokenize("\n")
        self._alone = {piece: token for token, piece in reversed(list(enumerate(pieces))) if len(piece) == 1}

    def __call__(self, raw: bytes) -> list[int]:
        """The vocabulary's own tokens of a text. Some put a blank before every text: those are asked for it behind a
        line's end, where they put none. Single bytes spell what even that does not.
        """
        text = raw.decode("utf-8", "replace")
        tokens = self._vocab.tokenize(text)
        if self._spell(tokens) == raw:
            return tokens
        n = len(self._newline)
        tokens = self._vocab.tokenize("\n" + text)
        if tokens[:n] == self._newline and self._spell(tokens[n:]) == raw:
            return tokens[n:]
        return [self._alone[raw[place : place + 1]] for place in range(len(raw))]

    def _spell(self, tokens: list[int]) -> bytes:
        return b"".join(self._pieces[token] for token in tokens)


def _tokenizer(spelling: Spelling, ends: list[int]) -> LLTokenizer:
    """Raises MissingExtra."""
    try:
        from llguidance import LLTokenizer, TokenizerWrapper
    except ImportError as error:
        raise MissingExtra("cannot follow a grammar", "llguidance is not installed", EXTRA) from error
    return LLTokenizer(TokenizerWrapper(spelling), eos_token=ends)
