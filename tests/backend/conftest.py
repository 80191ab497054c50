"""Tiny models for the real library, each written once, and targets that are closed when a test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import LlamaSettings
from tools.make_toy_model import SHAPES, Format, Kind, write_toy_model

# One thread: on a busy machine two of them wait for each other at every barrier.
SETTINGS = LlamaSettings(n_ctx=1024, n_threads=1)

OpenTarget = Callable[..., LlamaTarget]


class Toys:
    """Toy models by what they are made of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(
        self, kind: Kind = Kind.LLAMA, weights: Format = Format.F32, window: int = 32, head_size: int = 16
    ) -> Path:
        """`window` is for the kind that has one. head_size: a multiple of 32 is needed for quantised KV caches."""
        path = self._folder / f"{kind.value}-{weights.value}-{window}-{head_size}.gguf"
        if not path.exists():
            shape = replace(SHAPES[kind], weights=weights, n_embd=4 * head_size)
            write_toy_model(path, kind, shape=replace(shape, sliding_window=window) if shape.sliding_window else shape)
        return path


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Toys:
    return Toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture
def open_target() -> Iterator[OpenTarget]:
    """open_target(path, settings=SETTINGS): a target that is closed afterwards."""
    opened: list[LlamaTarget] = []

    def make(path: Path, settings: LlamaSettings = SETTINGS) -> LlamaTarget:
        opened.append(LlamaTarget(load_model(path, settings), settings))
        return opened[-1]

    yield make
    for target in opened:
        target.close()
