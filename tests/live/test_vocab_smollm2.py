"""The starter model's vocabulary against llama.cpp's own reading of whole prompts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.llama.native import LoadedModel, load_model
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.backend.settings import LlamaSettings
from edgespec.library.header import read_header
from edgespec.text.template import Message, load_template
from edgespec.text.vocab import PromptEncoder

pytestmark = pytest.mark.live

WORDS = (
    "the",
    " river",
    " has",
    "a",
    "12.5",
    "naïve",
    "模型",
    "🦊",
    "\n",
    "\n\n  ",
    "'s",
    "<",
    "|",
    "{x: [1]}",
    "\t",
    "é",
)


class Speaker:
    def __init__(self, path: Path) -> None:
        self.model: LoadedModel = load_model(path, LlamaSettings())
        self.vocab = LlamaVocabulary(self.model)
        self.encoder = PromptEncoder(self.vocab)
        pieces = map(self.vocab.piece, range(self.vocab.n_vocab))
        self.bytes = {piece[0] for piece in pieces if len(piece) == 1}
        source = read_header(path).chat_template
        self.template = load_template(None, source, self.vocab.bos_text, self.vocab.eos_text)


@pytest.fixture(scope="module")
def speaker(starter_model: Path) -> Iterator[Speaker]:
    one = Speaker(starter_model)
    yield one
    one.model.free()


def own_tokens(model: LoadedModel, text: str) -> list[int]:
    """A whole prompt as the library reads it, special tokens parsed and a begin token added if the model wants one."""
    raw = text.encode()
    tokens = (llama_cpp.llama_token * (len(raw) + 8))()
    vocab = llama_cpp.llama_model_get_vocab(model.pointer)
    n = llama_cpp.llama_tokenize(vocab, raw, len(raw), tokens, len(tokens), True, True)
    return list(tokens[:n])


def test_facts(speaker: Speaker) -> None:
    vocab = speaker.vocab
    assert vocab.n_vocab == 49152
    assert len(speaker.bytes) > 230
    assert (vocab.bos, vocab.bos_text, vocab.eos_text) == (None, "<|im_start|>", "<|im_end|>")
    assert {vocab.special_tokens["<|im_end|>"], vocab.special_tokens["<|endoftext|>"]} <= vocab.end_tokens


def test_its_special_tokens_are_the_control_tokens_of_the_file(speaker: Speaker) -> None:
    special = speaker.vocab.special_tokens
    assert sorted(special.values()) == list(range(17))
    assert all(speaker.vocab.piece(token) == b"" for token in special.values())
    assert all(speaker.vocab.piece(token) != b"" for token in range(17, 49152))


@pytest.mark.parametrize("seed", range(20))
def test_a_chat_is_read_as_the_library_reads_it(seed: int, speaker: Speaker) -> None:
    rng = random.Random(seed)
    messages = [
        Message(role, "".join(rng.choices(WORDS, k=rng.randrange(1, 20))))
        for role in ("system", "user", "assistant", "user")
    ]
    segments = speaker.template.render_segments(messages, True, speaker.encoder.specials)
    assert speaker.encoder.encode(segments) == own_tokens(speaker.model, speaker.template.render(messages, True))


@settings(max_examples=200)
@given(st.text(max_size=80))
def test_text_comes_back_whole(speaker: Speaker, text: str) -> None:
    """As far as the model has words for it: some control characters and unassigned planes are beyond its bytes."""
    text = text.encode("utf-8", "replace").decode()
    text = "".join(letter for letter in text if speaker.bytes.issuperset(letter.encode()))
    assert b"".join(map(speaker.vocab.piece, speaker.vocab.tokenize(text))) == text.encode()


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["<|im_end|>", "<|im_start|>", "<file_sep>", *WORDS]), max_size=10).map("".join))
def test_nobody_can_type_a_special_token(speaker: Speaker, text: str) -> None:
    assert not set(speaker.vocab.tokenize(text)) & set(speaker.vocab.special_tokens.values())
