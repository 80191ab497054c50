from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from edgespec.backend.onnx.session import OnnxSettings, find_provider, open_session
from edgespec.errors import BadInput, CorruptModel, EdgeSpecError, MissingExtra
from edgespec.stepfile import FACTS, GRAPH, StepFile, read_step
from tests.backend.onnx.toy_graph import FILE, WINDOWED, Toy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Toy().write(tmp_path / "toy.step")


def refusal(folder: Path, settings: OnnxSettings | None = None) -> EdgeSpecError:
    with pytest.raises(EdgeSpecError) as caught:
        open_session(read_step(folder), settings or OnnxSettings())
    return caught.value


def test_threads_are_few_and_do_not_spin(folder: Path) -> None:
    options = open_session(read_step(folder), OnnxSettings(n_threads=2)).get_session_options()
    assert options.intra_op_num_threads == 2
    assert options.inter_op_num_threads == 1
    assert options.execution_mode.name == "ORT_SEQUENTIAL"
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with pytest.raises(BadInput, match="n_threads 0"):
        OnnxSettings(n_threads=0)


def test_providers_are_found_by_either_name() -> None:
    here = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    assert find_provider("cpu", here) == find_provider("CPUExecutionProvider", here) == "CPUExecutionProvider"
    assert find_provider("Cuda", here) == "CUDAExecutionProvider"


def test_a_provider_that_is_not_there(folder: Path) -> None:
    error = refusal(folder, OnnxSettings(provider="Abacus"))
    assert isinstance(error, BadInput)
    assert str(error).startswith("provider 'Abacus': this build of ONNX Runtime has ")
    assert "CPU" in str(error)


def test_without_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    error = refusal(folder)
    assert isinstance(error, MissingExtra)
    assert error.remedy == "run: pip install onnxruntime"


def test_a_damaged_graph(folder: Path) -> None:
    whole = (folder / GRAPH).read_bytes()
    for damaged in (b"no graph at all", whole[: len(whole) // 2]):
        (folder / GRAPH).write_bytes(damaged)
        error = refusal(folder)
        assert isinstance(error, CorruptModel)
        assert str(error).startswith(f"step model {folder}: ONNX Runtime cannot load model.onnx: ")
        assert "\n" not in str(error)


def state(folder: Path, file: StepFile) -> None:
    (folder / FACTS).write_text(file.to_json())


def test_facts_of_another_graph(folder: Path) -> None:
    state(folder, replace(FILE, head_dim=10))
    assert "the input cos of model.onnx is ('n', 4), and step.json speaks of (None, 5)" in str(refusal(folder))
    state(folder, replace(FILE, n_ranked=4))
    assert "the output ids of model.onnx is ('n', 5)" in str(refusal(folder))
    state(folder, replace(FILE, n_blocks=3, layers=(0, 1, 2)))
    assert "the input past_k_2 is in one of model.onnx and step.json only" in str(refusal(folder))
    state(folder, replace(WINDOWED))
    assert "the input cos_local is in one of model.onnx and step.json only" in str(refusal(folder))


def test_a_graph_of_something_else(folder: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "other", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / GRAPH)
    assert isinstance(refusal(folder), CorruptModel)
