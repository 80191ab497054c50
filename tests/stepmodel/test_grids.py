from __future__ import annotations

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from edgespec.stepmodel.grids import TINY, floats, from_blocks
from edgespec.stepmodel.matrix import DenseMatrix, QuantMatrix, dequantised

N_OUT, N_IN = 7, 512
# Where each format keeps its 16-bit floats, by block size in bytes: random bytes there would be no numbers.
HALVES = {"Q4_0": (18, (0,)), "Q4_1": (20, (0, 2)), "Q5_0": (22, (0,)), "Q8_0": (34, (0,)), "Q4_K": (144, (0, 2))}


def random_blocks(kind: str, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Every code there is, under scales of a model's size."""
    rng = np.random.default_rng(seed)
    n_bytes, starts = HALVES[kind]
    n_weights = 256 if kind.endswith("_K") else 32
    blocks = rng.integers(0, 256, (N_OUT, N_IN // n_weights, n_bytes), dtype=np.uint8)
    for start in starts:
        scales = rng.normal(0, 0.05, blocks.shape[:2]).astype(np.float16)
        blocks[..., start : start + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(N_OUT, -1)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_grid_is_kept_exactly(kind: str) -> None:
    raw = random_blocks(kind)
    matrix = from_blocks(kind, raw, N_IN)
    assert isinstance(matrix, QuantMatrix)
    assert matrix.bits == (4 if kind.startswith("Q4") else 8)
    assert (dequantised(matrix) == gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])).all()


def test_q4_k_is_kept_to_one_rounding() -> None:
    raw = random_blocks("Q4_K")
    matrix = from_blocks("Q4_K", raw, N_IN)
    wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.Q4_K)
    assert isinstance(matrix, QuantMatrix)
    assert matrix.bits == 4
    np.testing.assert_allclose(dequantised(matrix), wanted, rtol=0, atol=np.abs(wanted).max() * 2**-22)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q5_1"])
def test_other_formats_come_to_an_8_bit_grid(kind: str) -> None:
    stored = gguf.GGMLQuantizationType[kind]
    values = np.random.default_rng(1).normal(size=(TINY // N_IN, N_IN)).astype(np.float32)
    raw = gguf.quants.quantize(values, stored)
    matrix = from_blocks(kind, raw, N_IN)
    assert isinstance(matrix, QuantMatrix)
    assert matrix.bits == 8
    error = np.abs(dequantised(matrix) - gguf.quants.dequantize(raw, stored)).reshape(len(values), -1, 32)
    assert (error <= matrix.scales[..., None] * 0.5001).all()


@pytest.mark.parametrize("n_in", [N_IN, 40])
def test_small_or_odd_plain_matrices_stay_plain(n_in: int) -> None:
    values = np.random.default_rng(2).normal(size=(3, n_in)).astype(np.float32)
    matrix = from_blocks("F32", values, n_in)
    assert isinstance(matrix, DenseMatrix)
    assert (matrix.values == values).all()


def test_floats_of_a_quantised_row() -> None:
    raw = random_blocks("Q8_0")
    assert (floats("Q8_0", raw[2:3]) == dequantised(from_blocks("Q8_0", raw, N_IN))[2:3]).all()
