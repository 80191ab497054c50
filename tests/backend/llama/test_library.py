"""The library as it comes, over a toy model: greedy, endless, and nothing left of the text before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from edgespec.backend.llama.library import LibraryDefaults, default_settings
from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.errors import EngineFailure
from edgespec.spec.law import Law, SamplingSettings
from tests.planted import answer
from tools.make_toy_model import write_toy_model

PROMPT = [2, 9, 30, 31, 9, 30]
OTHER = [2, 9, 30, 4]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")


@pytest.fixture
def library(path: Path) -> Iterator[LibraryDefaults]:
    with closing(LibraryDefaults(path, 128)) as opened:
        yield opened


def said(library: LibraryDefaults, prompt: list[int], n: int) -> list[int]:
    library.read(prompt[:-1])
    return list(islice(library.generate(prompt[-1]), n))


def test_it_says_what_the_target_says(library: LibraryDefaults, path: Path) -> None:
    settings = LlamaSettings(n_ctx=128, n_threads=1)
    target = LlamaTarget(load_model(path, settings), settings)
    with closing(target):
        plain = answer(target, Law(SamplingSettings()), tuple(PROMPT), 24)
    assert said(library, PROMPT, 24) == list(plain.token_ids)


def test_a_new_text_knows_nothing_of_the_one_before(library: LibraryDefaults) -> None:
    first = said(library, PROMPT, 24)
    other = said(library, OTHER, 24)
    assert other != first
    assert said(library, PROMPT, 24) == first
    assert said(library, PROMPT[:1], 4) == said(library, PROMPT[:1], 4)


def test_what_it_chooses_by_itself() -> None:
    settings = default_settings(256)
    assert (settings.n_ctx, settings.flash_attention, settings.extra_buffers) == (256, FlashAttention.AUTO, True)
    assert settings.n_threads >= 1


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_bytes(b"GGUF")
    with pytest.raises(EngineFailure, match="--baseline"):
        LibraryDefaults(tmp_path / "no.gguf", 128)
