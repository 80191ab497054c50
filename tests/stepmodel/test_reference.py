"""The plain twin against llama.cpp on the same file, and against itself: rows as branches, runs of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import LlamaSettings
from edgespec.spec.ports import FloatArray
from edgespec.stepmodel.define import define
from edgespec.stepmodel.gguf_file import ARCHITECTURES, read_weights
from edgespec.stepmodel.reference import Reference
from edgespec.stepmodel.weights import Weights
from tests.backend.llama.driving import line, read, verify
from tests.stepmodel.conftest import ToyPath, ToyWeights
from tests.stepmodel.driving import Driver
from tests.stepmodel.toy_files import N_VOCAB, Variation, write_variation

SETTINGS = LlamaSettings(n_ctx=256, n_threads=1)
# Longer than gemma3's window of 32.
TEXT = [int(token) for token in np.random.default_rng(5).integers(0, 256, 56)]
N_ROWS = 16
# llama.cpp keeps keys and values in 16 bits: logits, of standard deviation 2.5, differ by about 0.005 for that. A head
# turned the wrong way, a forgotten bias or scale make differences of 1 and more.
CLOSE = 0.05


def llama_rows(path: Path) -> FloatArray:
    """float32[N_ROWS, n_vocab]: logits behind the last tokens of TEXT."""
    target = LlamaTarget(load_model(path, SETTINGS), SETTINGS)
    try:
        start = len(TEXT) - N_ROWS
        read(target, TEXT[:start])
        return np.array(verify(target, TEXT[start : start + 1], line(TEXT[start + 1 :])))
    finally:
        target.close()


def driver(weights: Weights) -> Driver:
    return Driver(weights, Reference(define(weights, N_VOCAB)).run)


def full_rows(weights: Weights, runs: Sequence[Sequence[int]]) -> FloatArray:
    """float32[n, n_vocab] of all rows."""
    driven = driver(weights)
    found = [driven.run(tokens) for tokens in runs]
    return np.concatenate([one.by_row() for one in found])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_agrees_with_llama_cpp(architecture: str, toy_path: ToyPath, toy_weights: ToyWeights) -> None:
    found = full_rows(toy_weights(architecture, "F32"), [TEXT[:30], TEXT[30:]])[-N_ROWS:]
    np.testing.assert_allclose(found, llama_rows(toy_path(architecture, "F32")), rtol=0, atol=CLOSE)


@pytest.mark.parametrize(
    "variation",
    [
        Variation(settings={"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}),
        Variation(settings={"llama.rope.freq_base": 500.0}),
        Variation("gemma3", settings={"gemma3.rope.freq_base": 1e6}, n_blocks=6),
        Variation(left_out=("output.weight",)),
    ],
)
def test_agrees_with_llama_cpp_on_what_files_may_say(variation: Variation, tmp_path: Path) -> None:
    path = write_variation(tmp_path / "toy.gguf", variation)
    found = full_rows(read_weights(path), [TEXT])[-N_ROWS:]
    wanted = llama_rows(path)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=CLOSE * max(1, float(wanted.std()) / 2.5))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_any_cut_into_runs_gives_the_same(architecture: str, toy_weights: ToyWeights) -> None:
    weights = toy_weights(architecture, "F32")
    whole = full_rows(weights, [TEXT])
    single = full_rows(weights, [[token] for token in TEXT])
    np.testing.assert_allclose(single, whole, rtol=0, atol=1e-4)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rows_as_branches_are_separate_chains(architecture: str, toy_weights: ToyWeights) -> None:
    weights = toy_weights(architecture, "F32")
    stem, twigs = TEXT[:34], ([1, 2, 3], [1, 9], [200])
    tree = driver(weights)
    tree.run(stem)
    # Cells: 34 35 36 for the first twig; 37 continues 34, 38 the stem.
    found = tree.run([1, 2, 3, 9, 200], [33, 34, 35, 34, 33])
    rows = found.by_row()
    for twig, places in zip(twigs, ([0, 1, 2], [0, 3], [4]), strict=True):
        wanted = full_rows(weights, [stem, twig])[len(stem) :]
        np.testing.assert_allclose(rows[places], wanted, rtol=0, atol=1e-4)
    # A later run may go on with a branch.
    later = tree.run([7], [37])
    wanted = full_rows(weights, [[*stem, 1, 9], [7]])[-1:]
    np.testing.assert_allclose(later.by_row(), wanted, rtol=0, atol=1e-4)


def test_log_sums_are_those_of_the_whole_row(toy_weights: ToyWeights) -> None:
    weights = toy_weights("llama", "F32")
    found = Driver(weights, Reference(define(weights, 3)).run).run(TEXT)
    rows = full_rows(weights, [TEXT]).astype(np.float64)
    np.testing.assert_allclose(found.log_sums, np.log(np.exp(rows).sum(axis=1)), rtol=0, atol=1e-4)
    assert found.ids.shape == found.logits.shape == (len(TEXT), 3)
    assert (found.ids[:, 0] == rows.argmax(axis=1)).all()


def test_fewer_layers_are_the_model_of_those_layers(toy_path: ToyPath, toy_weights: ToyWeights) -> None:
    weights = toy_weights("llama", "F32")
    cut = read_weights(toy_path("llama", "F32"), (0, 2))
    wanted = full_rows(replace(weights, blocks=(weights.blocks[0], weights.blocks[2])), [TEXT])
    assert (full_rows(cut, [TEXT]) == wanted).all()
    assert np.abs(wanted - full_rows(weights, [TEXT])).max() > 0.5


def test_inputs_of_another_shape(toy_weights: ToyWeights) -> None:
    weights = toy_weights("llama", "F32")
    reference = Reference(define(weights, 3))
    inputs = {port.name: np.zeros(port.shape(2, 8), np.float32) for port in define(weights, 3).inputs}
    with pytest.raises(ValueError, match=r"past_v_1 is \(1,\)"):
        reference.run({**inputs, "past_v_1": np.zeros(1, np.float32)})
