"""Exports of a toy model by the real engines, from end to end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.onnx import OnnxStep
from edgespec.errors import BadInput, CorruptModel, DiskFull, EdgeSpecError, ModelNotFound, UnsupportedModel
from edgespec.exporting.job import Exported, Layers, Order, Stage, export, nearest_folder
from edgespec.exporting.prompts import PromptSets
from edgespec.stepfile import FACTS, read_step
from tools.make_toy_model import N_VOCAB, SPECIALS, Kind, write_toy_model

PROMPTS = PromptSets(("Hello there.", "Once upon a time"), ("How are you?", "Yes or no?"))
Export = Callable[..., Exported]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _isolated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(home))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@pytest.fixture
def order(source: Path, tmp_path: Path) -> Order:
    return Order(source, tmp_path / "made" / "toy.step", Layers.ALL, None, 0, PROMPTS)


def made(order: Order) -> tuple[Exported, list[Stage]]:
    """And the stages in the order in which they were first told."""
    stages: dict[Stage, list[float]] = {}
    found = export(order, lambda _: None, lambda stage, done: stages.setdefault(stage, []).append(done))
    assert all(0.0 <= done <= 1.0 for told in stages.values() for done in told)
    return found, list(stages)


def test_plain(order: Order) -> None:
    found, stages = made(order)
    assert stages == [Stage.READING, Stage.WRITING]
    assert (found.path, found.cut, found.agreement, found.seconds) == (order.out, None, None, None)
    folder = read_step(order.out)
    assert folder.file == found.file
    assert found.file.layers == (0, 1, 2)
    assert found.file.n_vocab == N_VOCAB
    assert found.file.source_fingerprint
    assert found.n_bytes == folder.n_bytes
    assert [entry.name for entry in order.out.parent.iterdir()] == ["toy.step"]


def test_verified(order: Order) -> None:
    found, stages = made(replace(order, n_positions=60))
    assert stages == [Stage.READING, Stage.WRITING, Stage.ANSWERS, Stage.COMPARING, Stage.TIMING]
    assert found.agreement is not None
    assert found.seconds is not None
    assert found.agreement.n_positions == 60
    assert found.agreement.top1 >= 0.9
    assert found.agreement.mean_tv < 0.05
    assert found.agreement.max_logit_error < 0.5
    assert min(found.seconds.step, found.seconds.target) > 0


def test_cut_and_trimmed(order: Order) -> None:
    """What is left out is left out, and the comparison shows that it is missed."""
    found, stages = made(replace(order, layers=(0, 2), n_vocabulary=64, n_positions=60))
    assert stages[0] is Stage.ANSWERS
    assert found.file.layers == (0, 2)
    assert found.agreement is not None
    assert found.agreement.top1 < 0.9
    folder = read_step(order.out)
    assert folder.head_ids is not None
    assert len(folder.head_ids) == 64
    assert set(range(256, 256 + len(SPECIALS))) <= set(folder.head_ids.tolist())
    ranked = OnnxStep(folder).run(np.array([5, 6], dtype=np.int32), 0)
    assert set(ranked.ids.ravel().tolist()) <= set(folder.head_ids.tolist())


def test_layers_chosen(order: Order) -> None:
    found, stages = made(replace(order, layers=Layers.AUTO))
    assert stages == [Stage.ANSWERS, Stage.SLICING, Stage.CUTTING, Stage.READING, Stage.WRITING]
    assert found.cut is not None
    assert found.file.layers == found.cut.layers
    assert 0 < found.cut.worth.acceptance <= 1
    assert found.cut.layers in ((0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,))


def refusal(order: Order) -> EdgeSpecError:
    with pytest.raises(EdgeSpecError) as caught:
        made(order)
    assert not (order.out / FACTS).exists()
    return caught.value


@pytest.mark.parametrize("n_positions", [0, 60])
def test_another_architecture_is_refused_by_name(order: Order, tmp_path: Path, n_positions: int) -> None:
    path = write_toy_model(tmp_path / "mamba.gguf", Kind.MAMBA)
    error = refusal(replace(order, source=path, n_positions=n_positions))
    assert isinstance(error, UnsupportedModel)
    assert "its architecture is 'mamba', and step models know llama, qwen2, qwen3, gemma3" in str(error)


def test_files_that_are_no_model(order: Order, tmp_path: Path) -> None:
    assert isinstance(refusal(replace(order, source=tmp_path / "none.gguf")), ModelNotFound)
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"no GGUF at all, but text")
    assert isinstance(refusal(replace(order, source=damaged)), CorruptModel)


def test_orders_that_cannot_be(order: Order) -> None:
    error = refusal(replace(order, layers=(1, 3), n_positions=60))
    assert str(error) == "layer 3: the model has 0 to 2; keep some of these."
    error = refusal(replace(order, n_vocabulary=N_VOCAB + 1))
    assert f"a vocabulary of {N_VOCAB + 1} tokens" in str(error)


def test_what_exists_stays(order: Order) -> None:
    order.out.mkdir(parents=True)
    error = refusal(replace(order, n_positions=60))
    assert isinstance(error, BadInput)
    assert str(error) == f"cannot write {order.out}: it exists already; remove it, or give another --out."


def test_a_full_disk_is_known_before(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(shutil.disk_usage(order.source))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
    error = refusal(order)
    assert isinstance(error, DiskFull)
    assert "0 MB are free" in str(error)


def test_ctrl_c_leaves_nothing(order: Order) -> None:
    def pressed(stage: Stage, _done: float) -> None:
        if stage is Stage.WRITING:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(order, lambda _: None, pressed)
    assert list(order.out.parent.iterdir()) == []


def test_the_nearest_folder(tmp_path: Path) -> None:
    assert nearest_folder(tmp_path / "a" / "b" / "c.step") == tmp_path
    assert nearest_folder(tmp_path / "c.step") == tmp_path
