"""A subset of a sliced model ranks first what the step model of these layers ranks first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.onnx import OnnxStep
from edgespec.exporting.sliced import Layers, SlicedModel
from edgespec.exporting.texts import Text
from edgespec.spec.ports import IntArray
from edgespec.stepfile import write_step
from edgespec.stepmodel.build import BuildOptions, build_step
from edgespec.stepmodel.gguf_file import read_weights
from tools.make_toy_model import N_VOCAB, SHAPES, Format, Kind, write_toy_model

KINDS = (Kind.LLAMA, Kind.GEMMA3)


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.value)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = replace(SHAPES[request.param], weights=Format.F32)
    return write_toy_model(tmp_path_factory.mktemp("toys") / "toy.gguf", request.param, shape=shape)


def prompts() -> list[IntArray]:
    """One is longer than the sliding window, so that it matters."""
    draw = np.random.default_rng(0)
    return [draw.integers(0, N_VOCAB, n).astype(np.int32) for n in (3, 40)]


def greedy(step: OnnxStep, prompt: IntArray, n: int) -> Text:
    tokens = prompt.tolist()
    for _ in range(n):
        done = 0 if len(tokens) == len(prompt) else len(tokens) - 1
        for i in range(done, len(tokens)):
            best = int(step.run(np.array(tokens[i : i + 1], dtype=np.int32), i).ids[0, 0])
        tokens.append(best)
    return Text(prompt, np.array(tokens[len(prompt) :], dtype=np.int32))


def step_model(source: Path, layers: Layers, folder: Path) -> OnnxStep:
    options = BuildOptions(layers=layers, n_ranked=4)
    write_step(folder, lambda path: build_step(source, path, options))
    return OnnxStep.open(folder)


def test_subsets_are_the_step_models_of_their_layers(source: Path, tmp_path: Path) -> None:
    """What the step model of a subset says is what that subset ranks first, and no other one."""
    weights = read_weights(source)
    n = len(weights.blocks)
    subsets: list[Layers] = [tuple(range(n)), tuple(range(0, n, 2)), (0,), (n - 1,), tuple(range(1, n))]
    for number, layers in enumerate(subsets):
        step = step_model(source, layers, tmp_path / f"{number}.step")
        model = SlicedModel(weights, [greedy(step, prompt, 12) for prompt in prompts()])
        shares = [model.hits(subset) for subset in subsets]
        assert shares[number] >= 0.95  # a near-tie may turn with the number of rows
        assert all(share < 0.95 for other, share in zip(subsets, shares, strict=True) if other != layers)


def test_what_is_remembered_changes_nothing(source: Path, tmp_path: Path) -> None:
    weights = read_weights(source)
    n = len(weights.blocks)
    step = step_model(source, tuple(range(n)), tmp_path / "toy.step")
    written = [greedy(step, prompt, 8) for prompt in prompts()]
    model = SlicedModel(weights, written)
    whole = tuple(range(n))
    asked = [whole, *(whole[:i] + whole[i + 1 :] for i in range(n))]
    fresh = [SlicedModel(weights, written).hits(layers) for layers in asked]
    for base in (whole, whole[1:], whole[:-1], whole):
        model.settle(base)
        assert [model.hits(layers) for layers in asked] == fresh


def test_shares_are_of_bytes(source: Path) -> None:
    weights = read_weights(source)
    model = SlicedModel(weights, [Text(prompts()[0], prompts()[0])])
    whole = tuple(range(model.n_blocks))
    assert model.share(whole) == 1.0
    shares = [model.share(whole[:n]) for n in range(1, model.n_blocks + 1)]
    steps = np.diff(shares)
    assert (steps > 0).all()
    assert steps == pytest.approx(steps[0])
    assert shares[0] > steps[0]  # there is the head too


def test_without_texts(source: Path) -> None:
    with pytest.raises(ValueError, match="no texts"):
        SlicedModel(read_weights(source), [])
