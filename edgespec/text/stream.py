"""Tokens in, final text out. Text once given is never taken back.

Contract: text and ids are those of decoding all tokens at once (invalid UTF-8 becomes U+FFFD) and cutting at the first
stop string, however the tokens were grouped. At every moment the ids given so far are the shortest prefix of the pushed
tokens whose bytes hold the text given so far. Knows no model and no terminal; end tokens are not pushed.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from edgespec.text.stops import StopScanner
from edgespec.text.vocab import Vocabulary


class Step(NamedTuple):
    """What one push made final. `stopped`: the text ends here, at a stop string."""

    text: str
    token_ids: tuple[int, ...]
    stopped: bool


class TextStream:
    """One answer's text. `n_kept` counts the token ids given out so far."""

    __slots__ = (
        "_decoder", "_held", "_is_whole", "_n_decoded", "_n_given", "_silent", "_stops", "_vocab", "_waiting", "n_kept",
    )  # fmt: skip

    def __init__(self, vocab: Vocabulary, stops: Sequence[str] = ()) -> None:
        """Raises BadInput for an empty stop string."""
        self._vocab = vocab
        self._stops = StopScanner(stops)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_whole = True  # no character is unfinished
        self._held = ""  # decoded, not yet given
        self._n_decoded = 0  # characters
        self._n_given = 0  # characters
        self._silent: list[int] = []  # tokens without bytes: they go with the next token that has some
        self._waiting: deque[tuple[int, list[int]]] = deque()  # (character that holds the first byte, tokens)
        self.n_kept = 0

    def push(self, token: int) -> Step:
        """One generated token. Must not be called after a step that stopped or after `finish`."""
        if self._stops.stopped:
            raise ValueError(f"token {token} was pushed after the text had ended at a stop string")
        piece = self._vocab.piece(token)
        self._silent.append(token)
        if not piece:
            return Step("", (), False)
        if self._is_whole and piece.isascii():  # what the decoder would say, for a tenth of its price
            first, text = self._n_decoded, piece.decode("ascii")
        else:
            first, text = self._character_of(piece[:1]), self._decoder.decode(piece)
            self._is_whole = not self._decoder.getstate()[0]
        self._waiting.append((first, self._silent))
        self._silent = []
        self._stops.scan(text)
        return self._give(text)

    def finish(self) -> Step:
        """No more tokens: gives the text and ids held back, unless they turn out to be a stop string."""
        if self._stops.stopped:
            return Step("", (), True)
        text = self._decoder.decode(b"", True)
        self._stops.scan(text)
        self._stops.finish()
        step = self._give(text)
        if step.stopped:
            return step
        rest, self._silent = tuple(self._silent), []
        self.n_kept += len(rest)
        return Step(step.text, step.token_ids + rest, False)

    def _character_of(self, first_byte: bytes) -> int:
        """Index of the character that a byte put after the bytes so far belongs to."""
        unfinished, _ = self._decoder.getstate()
        if not unfinished:
            return self._n_decoded
        # Two characters: the byte does not go on with the unfinished one, which thereby became U+FFFD.
        return self._n_decoded + len((unfinished + first_byte).decode("utf-8", "replace")) - 1

    def _give(self, text: str) -> Step:
        self._n_decoded += len(text)
        held = self._held + text
        n_new = self._stops.n_safe - self._n_given
        self._n_given += n_new
        self._held = held[n_new:]
        ids: list[int] = []
        while self._waiting and self._waiting[0][0] < self._n_given:
            ids += self._waiting.popleft()[1]
        self.n_kept += len(ids)
        return Step(held[:n_new], tuple(ids), self._stops.stopped)
