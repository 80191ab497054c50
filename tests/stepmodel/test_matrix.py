from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.stepmodel.matrix import (
    DenseMatrix,
    Matrix,
    QuantMatrix,
    alike,
    dequantised,
    packed,
    quantised_int8,
    stacked,
    taken,
    unpacked,
)


def random_matrix(rng: np.random.Generator, form: str, n_out: int = 5, n_blocks: int = 2) -> Matrix:
    """form: 'dense', or bits and whether there are offsets, as in '4' and '4+'."""
    if form == "dense":
        return DenseMatrix(rng.normal(size=(n_out, 32 * n_blocks)).astype(np.float32))
    bits = int(form[0])
    codes = rng.integers(0, 256, (n_out, n_blocks, 4 * bits), dtype=np.uint8)
    scales = rng.uniform(0.01, 0.1, (n_out, n_blocks)).astype(np.float32)
    offsets = rng.normal(size=(n_out, n_blocks)).astype(np.float32) if form.endswith("+") else None
    return QuantMatrix(bits, codes, scales, offsets)


FORMS = ("dense", "4", "4+", "8", "8+")


@given(st.binary(min_size=32, max_size=32))
def test_packing_keeps_every_code(data: bytes) -> None:
    codes = np.frombuffer(data, dtype=np.uint8).reshape(1, 32) & np.uint8(15)
    assert (unpacked(packed(codes)) == codes).all()


def test_even_code_is_in_the_low_half() -> None:
    assert packed(np.array([[1, 2, 3, 4]], dtype=np.uint8)).tolist() == [[0x21, 0x43]]


def test_weights_are_scaled_codes_and_offsets() -> None:
    codes = packed(np.tile(np.arange(16, dtype=np.uint8), 2)[None, None])
    matrix = QuantMatrix(4, codes, np.array([[0.5]], np.float32), np.array([[3.0]], np.float32))
    assert dequantised(matrix)[0, :16].tolist() == [0.5 * (code - 8) + 3 for code in range(16)]


@pytest.mark.parametrize("form", FORMS)
def test_stacking_and_taking_agree_with_the_plain_weights(form: str) -> None:
    rng = np.random.default_rng(1)
    parts = [random_matrix(rng, form, n_out) for n_out in (3, 5, 2)]
    whole = stacked(parts)
    plain = np.concatenate([dequantised(part) for part in parts])
    rows = np.array([9, 0, 4, 4], dtype=np.int32)
    assert (whole.n_out, whole.n_in) == plain.shape
    assert (dequantised(whole) == plain).all()
    assert (dequantised(taken(whole, rows)) == plain[rows]).all()


def test_only_one_form_is_alike() -> None:
    rng = np.random.default_rng(2)
    for a in FORMS:
        for b in FORMS:
            assert alike(random_matrix(rng, a), random_matrix(rng, b, 7)) == (a == b)
        assert not alike(random_matrix(rng, a), random_matrix(rng, a, n_blocks=3))


def test_int8_is_within_half_a_step_and_keeps_the_extremes() -> None:
    values = np.random.default_rng(3).normal(size=(4, 96)).astype(np.float32)
    values[1, 32:64] = 0
    matrix = quantised_int8(values)
    found = dequantised(matrix).reshape(4, 3, 32)
    wanted = values.reshape(4, 3, 32)
    assert (np.abs(found - wanted) <= matrix.scales[..., None] * 0.5001).all()
    np.testing.assert_allclose(np.abs(found).max(-1), np.abs(wanted).max(-1), rtol=1e-6)
    assert (found[1, 1] == 0).all()
