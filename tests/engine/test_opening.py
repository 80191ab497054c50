"""Opening a real file, with a toy model that is written in a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from edgespec.backend import cores
from edgespec.backend.cores import CoreUse
from edgespec.backend.llama.native import library_fingerprint
from edgespec.backend.settings import LlamaSettings
from edgespec.engine import Engine, GenerateOptions
from edgespec.engine.choosing import known_tuning
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
from edgespec.spec.cost import CostTable
from edgespec.tune import tuner
from edgespec.tune.store import Forced, tuning_records
from edgespec.tune.tuning import Choice, Tuned, Tuning
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


TABLE = CostTable((0,), (1, 2), ((0.01, 0.02),))


def tuning_for(settings: LlamaSettings) -> Tuning:
    return Tuning((Choice(512, Tuned(settings, TABLE, TABLE)),), (0,), (), settings, 1.0, (2, 3, 4), False, "")


def test_the_class_of_a_tuning_counts_only_for_the_settings_it_was_measured_with(opened: Opened) -> None:
    def opened_with(tuning: Tuning) -> tuple[int, ...]:
        one = Opened(opened.header, opened.target, opened.vocab, "library", Forced(), tuning)
        return one.width_class(lambda _: None)

    assert opened_with(tuning_for(opened.settings)) == (2, 3, 4)
    other = opened_with(tuning_for(replace(opened.settings, extra_buffers=not opened.settings.extra_buffers)))
    assert other == opened.width_class(lambda _: None) != (2, 3, 4)


class Cores:
    """The processor as the tuner sees it, with programs that use so much of it."""

    others = 0.0

    def __init__(self, _pids: object) -> None:
        pass

    def use(self) -> CoreUse:
        return CoreUse(1.0, 2, 1.0, self.others)


def test_what_was_measured_beside_busy_programs_is_not_handed_over(
    opened: Opened, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "CoreReader", Cores)
    monkeypatch.setattr(tuner, "tune", partial(tuner.tune, cap_seconds=3.0))
    monkeypatch.setenv("EDGESPEC_HOME", str(home / "busy"))
    monkeypatch.setattr(Cores, "others", 1.0)
    assert opened.measure(lambda: False) is None
    monkeypatch.setattr(Cores, "others", 0.0)
    found = opened.measure(lambda: False)
    assert found is not None
    assert known_tuning(opened.header.path, library_fingerprint(), OPTIONS, tuning_records()) == found


def test_other_things_that_gguf_files_hold() -> None:
    require_language_model(header())
    with pytest.raises(UnsupportedModel, match="of the kind 'adapter'"):
        require_language_model(replace(header(), kind="adapter"))
