from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from edgespec.errors import BadInput
from edgespec.spec.ports import FloatArray
from edgespec.stepmodel.define import define
from edgespec.stepmodel.graph import Graph, Linear
from edgespec.stepmodel.matrix import Matrix, QuantMatrix, dequantised, quantised_int8
from edgespec.stepmodel.reference import Reference
from edgespec.stepmodel.weights import Block, Weights
from tests.stepmodel.conftest import ToyWeights
from tests.stepmodel.driving import Driver
from tests.stepmodel.toy_files import HEAD_DIM, N_KV_HEADS, N_VOCAB, WIDTH

TEXT = [72, 101, 108, 108, 111, 32, 300, 400, 261, 5]


def shapes(graph: Graph, n_rows: int, n_cells: int) -> dict[str, tuple[int, ...]]:
    return {port.name: port.shape(n_rows, n_cells) for port in (*graph.inputs, *graph.outputs)}


def rows_of(weights: Weights) -> FloatArray:
    graph = define(weights, N_VOCAB)
    return Driver(weights, Reference(graph).run).run(TEXT).by_row()


def test_inputs_and_outputs_of_a_step_model(toy_weights: ToyWeights) -> None:
    found = shapes(define(toy_weights("llama", "F32"), 16), 2, 64)
    cache, new = (N_KV_HEADS, 64, HEAD_DIM), (N_KV_HEADS, 2, HEAD_DIM)
    assert found == {
        "x": (2, WIDTH),
        "cos": (2, HEAD_DIM // 2),
        "sin": (2, HEAD_DIM // 2),
        "mask": (2, 64),
        "own_mask": (2, 2),
        "ids": (2, 16),
        "logits": (2, 16),
        "log_sums": (2,),
        **{f"past_{kind}_{i}": cache for i in range(3) for kind in "kv"},
        **{f"new_{kind}_{i}": new for i in range(3) for kind in "kv"},
    }


def test_windows_bring_their_own_masks_and_rotary_tables(toy_weights: ToyWeights) -> None:
    found = shapes(define(toy_weights("gemma3", "F32"), 4), 3, 8)
    assert found["mask_local"] == (3, 8)
    assert found["own_mask_local"] == (3, 3)
    assert found["cos_local"] == found["sin_local"] == (3, HEAD_DIM // 2)


def test_matrices_of_one_grid_become_one_product(toy_weights: ToyWeights) -> None:
    """Four products a layer, and the head."""
    graph = define(toy_weights("llama", "Q4_0"), 16)
    assert sum(isinstance(node, Linear) for node in graph.nodes) == 3 * 4 + 1


def finer(matrix: Matrix) -> QuantMatrix:
    return quantised_int8(dequantised(matrix))


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_matrices_of_different_grids_give_the_same(architecture: str, toy_weights: ToyWeights) -> None:
    weights = toy_weights(architecture, "F32")
    changes: list[Callable[[Block], Block]] = [
        lambda block: replace(block, query=finer(block.query)),
        lambda block: replace(block, key=finer(block.key)),
        lambda block: replace(block, value=finer(block.value)),
        lambda block: replace(block, gate=finer(block.gate)),
        lambda block: replace(block, up=finer(block.up)),
    ]
    for change in changes:
        mixed = replace(weights, blocks=tuple(map(change, weights.blocks)))
        np.testing.assert_allclose(rows_of(mixed), rows_of(weights), rtol=0, atol=0.5)


def test_trimmed_head_has_the_rows_of_its_ids(toy_weights: ToyWeights) -> None:
    weights = toy_weights("llama", "F32")
    ids = np.array([1, 7, 300], dtype=np.int32)
    graph = define(weights, 3, ids)
    assert (dequantised(graph.matrices["head_0"]) == dequantised(weights.head)[ids]).all()


@pytest.mark.parametrize("n_ranked", [0, 4])
def test_more_ranked_than_there_are(n_ranked: int, toy_weights: ToyWeights) -> None:
    with pytest.raises(BadInput, match=f"{n_ranked} ranked tokens: the head has 3 rows"):
        define(toy_weights("llama", "F32"), n_ranked, np.array([1, 7, 300], dtype=np.int32))
