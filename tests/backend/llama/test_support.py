"""Which models are refused, and with what words."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.support import Traits, can_roll_back, refusal, traits
from edgespec.errors import UnsupportedModel
from tests.backend.conftest import SETTINGS, Toys
from tests.backend.llama.variants import with_values
from tools.make_toy_model import Kind


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (Traits("llama"), ""),
        (Traits("mamba"), ""),
        (Traits("llama", has_vocabulary=False), "no vocabulary"),
        (Traits("t5", has_encoder=True), "encoder-decoder"),
        (Traits("t5encoder", has_encoder=True, has_decoder=False), "an embedding model"),
        (Traits("eagle3", has_encoder=True), "a draft head"),
        (Traits("dflash", has_encoder=True), "a draft head"),
        (Traits("llada", diffusion=True, causal=False), "a diffusion model"),
        (Traits("bert", causal=False), "an embedding model"),
        (Traits("qwen3", pooled=True), "an embedding model"),
    ],
    ids=str,
)
def test_a_model_that_cannot_continue_a_text_is_refused(found: Traits, why: str) -> None:
    assert (why in refusal(found)) if why else refusal(found) == ""


@pytest.mark.parametrize("kind", list(Kind))
def test_models_that_can_are_not(kind: Kind, toys: Toys) -> None:
    model = load_model(toys.path(kind), SETTINGS)
    found = traits(model.pointer)
    assert found == Traits({Kind.MOE: "llama"}.get(kind, kind.value))
    assert can_roll_back(model.pointer) == (kind not in (Kind.MAMBA, Kind.JAMBA))
    model.free()


@pytest.mark.parametrize(
    ("key", "value", "value_type"),
    [
        ("llama.attention.causal", False, gguf.GGUFValueType.BOOL),
        ("llama.pooling_type", 1, gguf.GGUFValueType.UINT32),
        ("llama.pooling_type", 4, gguf.GGUFValueType.UINT32),
    ],
)
def test_a_file_that_calls_itself_an_embedding_model_is_refused_at_load(
    key: str, value: object, value_type: gguf.GGUFValueType, toys: Toys, tmp_path: Path
) -> None:
    path = with_values(toys.path(), tmp_path / "embedding.gguf", {key: (value, value_type)})
    with pytest.raises(UnsupportedModel, match="it is an embedding model, which does not write text"):
        load_model(path, SETTINGS)


def test_a_file_that_says_it_does_not_pool_is_not(toys: Toys, tmp_path: Path) -> None:
    values = {"llama.pooling_type": (0, gguf.GGUFValueType.UINT32)}
    load_model(with_values(toys.path(), tmp_path / "plain.gguf", values), SETTINGS).free()


def test_a_file_without_a_vocabulary_is_refused_at_load(toys: Toys, tmp_path: Path) -> None:
    """The library would abort when it is asked for a token of it."""
    values = {
        "tokenizer.ggml.model": ("no_vocab", gguf.GGUFValueType.STRING),
        "llama.vocab_size": (448, gguf.GGUFValueType.UINT32),
    }
    with pytest.raises(UnsupportedModel, match="no vocabulary"):
        load_model(with_values(toys.path(), tmp_path / "mute.gguf", values), SETTINGS)
