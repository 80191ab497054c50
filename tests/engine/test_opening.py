"""Opening a real file, with a toy model that is written in a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.engine import Engine, GenerateOptions
from edgespec.engine.opening import (
    Opened,
    no_rollback,
    open_model,
    require_language_model,
)
from edgespec.engine.options import EngineOptions
from edgespec.engine.sockets import Model
from edgespec.errors import EngineFailure, UnsupportedModel
from edgespec.events import Notice
from tests.engine.toy_engine import done, header
from tools.make_toy_model import Kind, write_toy_model

OPTIONS = EngineOptions(ctx_size=512, threads=1, gpu_layers=0)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _isolated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(home))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")


@pytest.fixture
def opened(toy: Path) -> Iterator[Opened]:
    one = open_model(toy, OPTIONS, lambda _: None)
    with closing(one.target):
        yield one


def test_what_is_opened_is_a_model_to_the_engine(toy: Path) -> None:
    parts: list[float] = []

    def progress(part: float) -> bool:
        parts.append(part)
        return True

    model: Model = open_model(toy, OPTIONS, lambda _: None, progress)
    with Engine(model, "toy", []) as engine:
        assert (engine.settings.n_ctx, engine.settings.n_threads) == (512, 1)
        completion = done(engine.complete("the river", GenerateOptions(max_tokens=5)))
    assert completion.usage.completion_tokens == 5
    assert parts == sorted(parts)
    assert parts[-1] == 1.0


def test_giving_up_while_loading(toy: Path) -> None:
    with pytest.raises(EngineFailure):
        open_model(toy, OPTIONS, lambda _: None, lambda _: False)


def test_a_model_that_cannot_roll_back_is_decoded_plainly_and_says_so(tmp_path: Path) -> None:
    notices: list[Notice] = []
    opened = open_model(write_toy_model(tmp_path / "mamba.gguf", Kind.MAMBA), OPTIONS, notices.append)
    with closing(opened.target):
        assert opened.width_class(notices.append) == (1,)
    assert notices == [no_rollback("mamba")]


def test_other_things_that_gguf_files_hold() -> None:
    require_language_model(header())
    with pytest.raises(UnsupportedModel, match="of the kind 'adapter'"):
        require_language_model(replace(header(), kind="adapter"))
