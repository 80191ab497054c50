"""Toy models, each written and read once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgespec.stepmodel.gguf_file import read_weights
from edgespec.stepmodel.weights import Weights
from tests.live.conftest import starter_model as starter_model
from tests.stepmodel.toy_files import write_model

ToyPath = Callable[[str, str], Path]
ToyWeights = Callable[[str, str], Weights]


@pytest.fixture(scope="session")
def toy_path(tmp_path_factory: pytest.TempPathFactory) -> ToyPath:
    """toy_path(architecture, stored)"""
    folder = tmp_path_factory.mktemp("steps")

    def path(architecture: str, stored: str) -> Path:
        found = folder / f"{architecture}-{stored}.gguf"
        return found if found.exists() else write_model(found, architecture, stored)

    return path


@pytest.fixture(scope="session")
def toy_weights(toy_path: ToyPath) -> ToyWeights:
    known: dict[tuple[str, str], Weights] = {}

    def weights(architecture: str, stored: str) -> Weights:
        if (architecture, stored) not in known:
            known[architecture, stored] = read_weights(toy_path(architecture, stored))
        return known[architecture, stored]

    return weights
