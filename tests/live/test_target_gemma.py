"""A real model with sliding windows of 512 tokens: rewinds at the window's edge and far beyond it, in both caches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.backend.settings import LlamaSettings
from edgespec.library.fetch import fetch
from edgespec.library.reporter import silent_reporter
from edgespec.library.resolve import find_card, installed_path, open_library
from tests.backend.llama.driving import line, peek, read, same, step, text_of, verify

pytestmark = pytest.mark.live

FULL = LlamaSettings(n_ctx=2048, n_threads=1)
# One window and one chunk: 768 cells, which a text of 1,530 tokens fills twice.
SMALL = replace(FULL.windowed(), max_sequences=1)
# Any tokens will do; those from here on are words and parts of words.
FIRST_WORD = 1000
TEXTS = ("Hello world", " Hello", "  two", "one\n\n\ttwo  ", "naïve 模型 🦊", "", "<unused9>", "\0")


@pytest.fixture(scope="module")
def gemma_model() -> Path:
    """EDGESPEC_TEST_GEMMA where it is set, else the model of the card, fetched when missing: its terms are accepted."""
    named = os.environ.get("EDGESPEC_TEST_GEMMA")
    if named:
        return Path(named)
    library = open_library()
    card = find_card("gemma-3-270m", library)
    assert card is not None
    found = installed_path(card, library)
    return found or fetch(card, library.store, silent_reporter(), offline=False, licence_accepted=True)


class Pair:
    """A target that goes back and one that never does, over one model."""

    def __init__(self, path: Path, settings: LlamaSettings) -> None:
        self.target = LlamaTarget(load_model(path, settings), settings)
        self.fresh = self.target.sibling(settings.n_ctx)
        self.text = [FIRST_WORD + token for token in text_of(1, 1600)]

    def agrees_at(self, length: int, chunk: int) -> bool:
        """Whether the next rows are those of a prefill of just so many tokens, bit for bit."""
        self.fresh.release(0)
        read(self.fresh, self.text[:length], chunk=chunk)
        draft = line(self.text[length + 1 : length + 4])
        pairs = zip(*(peek(one, [self.text[length]], draft, 8) for one in (self.target, self.fresh)), strict=True)
        return all(same(a, b) for a, b in pairs)


@pytest.fixture(scope="module", params=[FULL, SMALL], ids=["full", "small"])
def pair(gemma_model: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    one = Pair(gemma_model, request.param)
    yield one
    one.fresh.close()
    one.target.close()


def test_rewinds_at_the_edge_of_the_window(pair: Pair) -> None:
    pair.target.release(0)
    read(pair.target, pair.text[:560], chunk=10)
    for length in (530, 500):
        assert pair.target.rewind(0, length) == length
        assert pair.agrees_at(length, chunk=10)


def test_rewinds_far_beyond_the_window(pair: Pair) -> None:
    """What a small cache has dropped cannot be gone back to, and is not: the sequence is empty then."""
    pair.target.release(0)
    read(pair.target, pair.text[:1530], chunk=100)
    assert pair.target.rewind(0, 1500) == 1500
    assert pair.agrees_at(1500, chunk=100)
    kept = 800 if pair.target.settings.swa_full else 0
    assert pair.target.rewind(0, 800) == kept
    assert pair.target.length(0) == kept


def test_drafts_across_the_edge_of_the_window(pair: Pair) -> None:
    for one in (pair.target, pair.fresh):
        one.release(0)
        read(one, pair.text[:508], chunk=100)
    tokens = pair.text[508:516]
    rows = verify(pair.target, tokens[:1], line(tokens[1:]), 8)
    assert all(same(row, step(pair.fresh, token, 8)) for row, token in zip(rows, tokens, strict=True))


@pytest.mark.parametrize("text", TEXTS)
def test_its_vocabulary_gives_text_back_as_it_was(text: str, pair: Pair) -> None:
    """SentencePiece: no space is added in front, and none is lost."""
    vocab = LlamaVocabulary(pair.target._model)
    assert b"".join(map(vocab.piece, vocab.tokenize(text))) == text.encode()


def test_its_special_tokens(pair: Pair) -> None:
    vocab = LlamaVocabulary(pair.target._model)
    special = vocab.special_tokens
    assert vocab.bos == special["<bos>"] == 2
    assert vocab.bos_text == "<bos>"
    assert {"<eos>", "<unk>", "<start_of_turn>", "<end_of_turn>"} <= set(special)
    assert special["<end_of_turn>"] in vocab.end_tokens
    assert not set(vocab.tokenize("<bos><start_of_turn>user<end_of_turn>")) & set(special.values())
    assert vocab.tokenize_special("<start_of_turn>") == [special["<start_of_turn>"]]
    assert vocab.piece(special["<start_of_turn>"]) == b""
