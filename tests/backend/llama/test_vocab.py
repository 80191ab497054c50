"""The model's own vocabulary: what is special, what text becomes, and what the library must never be asked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import gguf
import llama_cpp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.llama.native import LoadedModel, load_model
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.errors import EngineFailure
from edgespec.text.template import Message, load_template
from edgespec.text.vocab import PromptEncoder, Segment
from tests.backend.conftest import SETTINGS, Toys
from tests.backend.llama.variants import with_values
from tools.make_toy_model import BOS, CHAT_TEMPLATE, EOS, N_VOCAB, SPECIALS, TURN_END

WORDS = ("the", "river", "has", "a", "memory", "12", "+", "é", "模型", "🦊", "\n", "  ", "<", "|", ">", "im_", "end")


@pytest.fixture(scope="module")
def model(toys: Toys) -> Iterator[LoadedModel]:
    loaded = load_model(toys.path(), SETTINGS)
    yield loaded
    loaded.free()


@pytest.fixture(scope="module")
def vocab(model: LoadedModel) -> LlamaVocabulary:
    return LlamaVocabulary(model)


def spelled(vocab: LlamaVocabulary, tokens: list[int]) -> bytes:
    return b"".join(map(vocab.piece, tokens))


def own_tokens(model: LoadedModel, text: str, add_special: bool) -> list[int]:
    """The library's own reading of a whole prompt, special tokens parsed."""
    raw = text.encode()
    tokens = (llama_cpp.llama_token * (len(raw) + 8))()
    vocab = llama_cpp.llama_model_get_vocab(model.pointer)
    n = llama_cpp.llama_tokenize(vocab, raw, len(raw), tokens, len(tokens), add_special, True)
    return list(tokens[:n])


def test_facts(vocab: LlamaVocabulary) -> None:
    assert vocab.n_vocab == N_VOCAB
    assert vocab.bos == BOS
    assert (vocab.bos_text, vocab.eos_text) == ("<|bos|>", "<|eos|>")
    assert vocab.end_tokens == {EOS, TURN_END}


def test_control_tokens_are_special_and_nothing_else(vocab: LlamaVocabulary) -> None:
    assert vocab.special_tokens == dict(zip(SPECIALS, range(256, 261), strict=True))
    assert all(vocab.piece(token) == b"" for token in vocab.special_tokens.values())
    assert all(vocab.tokenize_special(text) == [token] for text, token in vocab.special_tokens.items())


def test_unknown_tokens_are_special_and_tokens_added_to_the_text_are_not(toys: Toys, tmp_path: Path) -> None:
    """Types 2 and 4 of the file: the library finds a user-defined token in any text, an unknown one in none."""
    source = gguf.GGUFReader(toys.path()).fields["tokenizer.ggml.token_type"].contents()
    types = [{300: 2, 301: 4}.get(token, kind) for token, kind in enumerate(source)]
    path = with_values(toys.path(), tmp_path / "types.gguf", {}, arrays={"tokenizer.ggml.token_type": types})
    model = load_model(path, SETTINGS)
    vocab = LlamaVocabulary(model)
    assert set(vocab.special_tokens.values()) == {*range(256, 261), 300}
    assert vocab.piece(300) == b""
    assert vocab.piece(301) != b""
    assert 301 in vocab.tokenize("".join(["a", vocab.piece(301).decode(), "b"]))
    model.free()


@settings(max_examples=300)
@given(st.text(max_size=60))
def test_text_comes_back_whole(vocab: LlamaVocabulary, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
    assert spelled(vocab, vocab.tokenize(text)) == text.encode()


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*SPECIALS, *WORDS]), max_size=12).map("".join))
def test_nobody_can_type_a_special_token(vocab: LlamaVocabulary, text: str) -> None:
    tokens = vocab.tokenize(text)
    assert not set(tokens) & set(vocab.special_tokens.values())
    assert spelled(vocab, tokens) == text.encode()


def test_half_characters_are_replaced(vocab: LlamaVocabulary) -> None:
    assert spelled(vocab, vocab.tokenize("a\ud83db")) == b"a?b"


@pytest.mark.parametrize("text", ["", "\0", "a\0b", "x" * 100_000, "1" * 30_000, " " * 30_000, "\n" * 3_000, "é" * 9])
def test_any_length_of_anything_is_read(vocab: LlamaVocabulary, text: str) -> None:
    assert spelled(vocab, vocab.tokenize(text)) == text.encode()


def test_every_byte_can_be_spelled(vocab: LlamaVocabulary) -> None:
    assert [vocab.piece(token) for token in range(256)] == [bytes([byte]) for byte in range(256)]


@pytest.mark.parametrize("token", [-1, N_VOCAB, 1 << 31])
def test_a_token_that_does_not_exist_is_an_error_of_python(vocab: LlamaVocabulary, token: int) -> None:
    with pytest.raises(ValueError, match=f"token {token} of 448"):
        vocab.piece(token)


def test_long_pieces_come_whole(toys: Toys, tmp_path: Path) -> None:
    """Some vocabularies have tokens of a hundred spaces."""
    tokens = gguf.GGUFReader(toys.path()).fields["tokenizer.ggml.tokens"].contents()
    tokens[400] = "a" * 500
    path = with_values(toys.path(), tmp_path / "long.gguf", {}, arrays={"tokenizer.ggml.tokens": tokens})
    model = load_model(path, SETTINGS)
    assert LlamaVocabulary(model).piece(400) == b"a" * 500
    model.free()


@pytest.mark.parametrize("adds", [True, False])
def test_a_begin_token_is_given_only_when_the_model_wants_one(adds: bool, toys: Toys, tmp_path: Path) -> None:
    values = {"tokenizer.ggml.add_bos_token": (adds, gguf.GGUFValueType.BOOL)}
    model = load_model(with_values(toys.path(), tmp_path / "bos.gguf", values), SETTINGS)
    vocab = LlamaVocabulary(model)
    assert vocab.bos == (BOS if adds else None)
    assert vocab.bos_text == "<|bos|>"
    prompt = PromptEncoder(vocab).encode([Segment("the river", trusted=False)])
    assert prompt == own_tokens(model, "the river", add_special=True)
    model.free()


@pytest.mark.parametrize("seed", range(30))
def test_a_chat_is_read_as_the_library_reads_it(seed: int, model: LoadedModel, vocab: LlamaVocabulary) -> None:
    """Where nobody typed a special token, the careful reading and the library's own agree to the last token."""
    rng = random.Random(seed)
    encoder = PromptEncoder(vocab)
    messages = [
        Message(role, "".join([*rng.choices(WORDS, k=rng.randrange(12)), "<"]))
        for role in ("system", "user", "assistant", "user")
    ]
    template = load_template(None, CHAT_TEMPLATE, vocab.bos_text, vocab.eos_text)
    segments = template.render_segments(messages, True, encoder.specials)
    whole = template.render(messages, True)
    assert any(not segment.trusted for segment in segments)
    assert encoder.encode(segments) == own_tokens(model, whole, add_special=True)


def test_a_vocabulary_of_a_closed_model_says_so(toys: Toys) -> None:
    model = load_model(toys.path(), SETTINGS)
    vocab = LlamaVocabulary(model)
    known = vocab.piece(65), vocab.n_vocab
    model.free()
    assert (vocab.piece(65), vocab.n_vocab) == known
    for call in (lambda: vocab.tokenize("a"), lambda: vocab.piece(66), lambda: vocab.end_tokens):
        with pytest.raises(EngineFailure, match="it has been closed"):
            call()
