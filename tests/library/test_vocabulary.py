"""Vocabularies read from headers are those of the reference reader; bytes that are no text stay apart."""

from __future__ import annotations

import hashlib
from pathlib import Path

import gguf
import numpy as np
import pytest

from edgespec.errors import CorruptModel, ModelNotFound, UnsupportedModel
from edgespec.library.vocabulary import TokenKind, Vocabulary, read_vocabulary
from tests.library.toy_gguf import raw_header, raw_tensor, raw_text, write_model, write_part, write_vocabulary
from tools.make_toy_model import BOS, EOS, N_VOCAB, PAD, TURN_END, write_toy_model


def test_it_is_that_of_the_reference_reader(tmp_path: Path) -> None:
    path = write_toy_model(tmp_path / "toy.gguf")
    fields = gguf.GGUFReader(path).fields
    vocabulary = read_vocabulary(path)
    assert vocabulary.name == "toy.gguf"
    assert list(vocabulary.spellings) == fields["tokenizer.ggml.tokens"].contents()
    assert list(vocabulary.kinds) == fields["tokenizer.ggml.token_type"].contents()
    assert (vocabulary.model, vocabulary.pre, vocabulary.adds_bos) == ("gpt2", "gpt-2", True)
    assert (vocabulary.bos, vocabulary.eos, vocabulary.eot) == (BOS, EOS, TURN_END)
    assert (len(vocabulary), vocabulary.kind(PAD), vocabulary.kind(5)) == (N_VOCAB, TokenKind.CONTROL, TokenKind.NORMAL)


def test_a_long_one_is_kept_whole(tmp_path: Path) -> None:
    vocabulary = read_vocabulary(write_vocabulary(tmp_path / "long.gguf", 5000))
    assert vocabulary.spellings == tuple(f"token{number}" for number in range(5000))
    assert (vocabulary.kinds, vocabulary.kind(7)) == ((), TokenKind.NORMAL)


def test_what_is_not_stated_is_not_made_up(tmp_path: Path) -> None:
    vocabulary = read_vocabulary(write_model(tmp_path / "bare.gguf"))
    assert vocabulary == Vocabulary("bare.gguf", ("a", "b", "c"))


def test_bytes_that_are_no_text_are_told_apart(tmp_path: Path) -> None:
    """Damaged spellings must neither be taken for each other nor for what is written in their place."""
    path = tmp_path / "odd.gguf"
    texts = (b"\xff", b"\xfe", "\ufffd".encode())
    body = raw_text(b"tokenizer.ggml.tokens") + np.array([9, 8], "<u4").tobytes() + np.array([3], "<u8").tobytes()
    header = raw_header(1, 1, body + b"".join(map(raw_text, texts)) + raw_tensor(b"t", (32,), 0, 0))
    path.write_bytes(header + bytes(256))
    spellings = read_vocabulary(path).spellings
    assert len(set(spellings)) == 3
    assert [text.encode("utf-8", "surrogateescape") for text in spellings] == list(texts)


def test_the_hash_is_of_lengths_and_spellings() -> None:
    vocabulary = Vocabulary("toy", ("a", "bé", ""))
    whole = hashlib.sha256(b"\x01\0\0\0a" + b"\x03\0\0\0b\xc3\xa9" + b"\0\0\0\0").hexdigest()
    assert vocabulary.token_hash() == vocabulary.token_hash(3) == whole
    assert vocabulary.token_hash(1) == hashlib.sha256(b"\x01\0\0\0a").hexdigest()
    assert Vocabulary("toy", ("ab",)).token_hash() != Vocabulary("toy", ("a", "b")).token_hash()


def test_files_without_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        read_vocabulary(tmp_path / "none.gguf")
    with pytest.raises(UnsupportedModel, match="no vocabulary"):
        read_vocabulary(write_part(tmp_path / "part.gguf", 0, 1))
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(write_toy_model(tmp_path / "toy.gguf").read_bytes()[:3000])
    with pytest.raises(CorruptModel):
        read_vocabulary(cut)
