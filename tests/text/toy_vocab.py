"""A small byte vocabulary with special tokens, for tests of everything that reads or writes tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgespec.text.vocab import SpecialTexts, Vocabulary


class ToyVocabulary:
    """Ids 0..255 are bytes, then multi-byte `pieces` (the first that fits is taken), then `specials`.

    The first special token begins a sequence, the second ends it, the others are turn markers.
    """

    def __init__(
        self,
        pieces: Sequence[bytes] = (b"the", b" the", "é".encode(), b"\xf0\x9f"),
        specials: Sequence[str] = ("<s>", "</s>", "<|im_start|>", "<|im_end|>"),
        wants_bos: bool = True,
    ) -> None:
        self._pieces = [bytes([value]) for value in range(256)] + list(pieces) + [b""] * len(specials)
        self._first_special = 256 + len(pieces)
        self._long = [(piece, 256 + index) for index, piece in enumerate(pieces)]
        self._specials = {text: self._first_special + index for index, text in enumerate(specials)}
        self._finder = SpecialTexts(specials)
        self._bos = self._first_special if wants_bos else None
        self.bos_text, self.eos_text = specials[:2]

    @property
    def n_vocab(self) -> int:
        return len(self._pieces)

    @property
    def bos(self) -> int | None:
        return self._bos

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset((self._first_special + 1, self._first_special + 3))

    @property
    def special_tokens(self) -> Mapping[str, int]:
        return self._specials

    def tokenize(self, text: str) -> list[int]:
        data = text.encode()
        tokens: list[int] = []
        at = 0
        while at < len(data):
            byte = (data[at : at + 1], data[at])
            piece, token = next((pair for pair in self._long if data.startswith(pair[0], at)), byte)
            tokens.append(token)
            at += len(piece)
        return tokens

    def tokenize_special(self, text: str) -> list[int]:
        tokens: list[int] = []
        for stretch, special in self._finder.cut(text):
            tokens += [self._specials[stretch]] if special else self.tokenize(stretch)
        return tokens

    def piece(self, token: int) -> bytes:
        return self._pieces[token]


def as_vocabulary(vocab: ToyVocabulary) -> Vocabulary:
    """The type checker's proof that the toy fits the socket."""
    return vocab
