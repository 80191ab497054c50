from __future__ import annotations

import sys

import numpy as np
import pytest

from edgespec.errors import BadInput, MissingExtra
from edgespec.text.spelling import Spelling, TokenTree
from tests.text.toy_vocab import ToyVocabulary

TOY = ToyVocabulary()
BOS, EOS, START, END = (TOY.special_tokens[text] for text in ("<s>", "</s>", "<|im_start|>", "<|im_end|>"))


class Blank(ToyVocabulary):
    """A vocabulary that puts a blank before every text, as some that were made by SentencePiece do."""

    def tokenize(self, text: str) -> list[int]:
        return super().tokenize(" " + text)


class Stubborn(ToyVocabulary):
    """One that spells no text at all as it is."""

    def tokenize(self, text: str) -> list[int]:
        return super().tokenize(text.upper() + "!")


def pieces_of(vocab: ToyVocabulary) -> list[bytes]:
    return [vocab.piece(token) for token in range(vocab.n_vocab)]


def spelling(vocab: ToyVocabulary) -> Spelling:
    return Spelling(vocab, pieces_of(vocab))


def test_text_is_spelled_by_the_vocabulary_itself() -> None:
    for vocab in (TOY, Blank()):
        for text in ("the theme", "é the", "", "\n\n", " the", "x"):
            assert spelling(vocab)(text.encode()) == TOY.tokenize(text)


def test_bytes_spell_what_the_vocabulary_would_change() -> None:
    assert spelling(Stubborn())(b"the") == [*b"the"]


def test_tokens_that_are_no_text_cannot_be_spelled() -> None:
    tokens = spelling(TOY).tokens
    assert tokens[: 256 + 4] == pieces_of(TOY)[: 256 + 4]
    assert all(token.startswith(b"\xff<") for token in tokens[260:])
    assert len(set(tokens[260:])) == 4


def test_the_tree_knows_what_may_be_used() -> None:
    tree = TokenTree(TOY, TOY.end_tokens)
    usable = np.unpackbits(tree.usable, bitorder="little")[: TOY.n_vocab]
    assert usable.tolist() == [1] * 260 + [int(token in TOY.end_tokens) for token in (BOS, EOS, START, END)]
    assert tree.tokenizer.vocab_size == TOY.n_vocab
    assert tree.tokenizer.tokenize_str("the x") == TOY.tokenize("the x")


def test_the_vocabularys_own_end_comes_first() -> None:
    assert TokenTree(TOY, frozenset({EOS, END})).ends == [EOS, END]
    assert TokenTree(ToyVocabulary(specials=("<s>", "<eos>", "<0>", "<1>")), frozenset({260, 261, 263})).ends == [
        261,
        260,
        263,
    ]


def test_a_vocabulary_without_an_end_is_refused() -> None:
    with pytest.raises(BadInput, match="no end token"):
        TokenTree(TOY, frozenset())


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(MissingExtra, match="pip install llguidance"):
        TokenTree(TOY, TOY.end_tokens)
