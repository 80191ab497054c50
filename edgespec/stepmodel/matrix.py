"""Matrices of a model: quantised in blocks of 32 weights, on whatever grid their file had, or plain floats.

A quantised weight is `scale * (code - zero) + offset`, with `zero` half the code range (8 or 128), one scale per block,
and offsets only where the grid is not symmetric. Knows no file format and no inference library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.spec.ports import FloatArray, IntArray

ByteArray = npt.NDArray[np.uint8]

# Every grid used here has blocks of this many weights along a row.
BLOCK = 32
INT8_MOST = 127.0


@dataclass(frozen=True, slots=True)
class QuantMatrix:
    """codes: uint8[n_out, n_blocks, 4 * bits]; 4-bit codes in pairs, the even one in the low half. scales and offsets:
    float32[n_out, n_blocks].
    """

    bits: int
    codes: ByteArray
    scales: FloatArray
    offsets: FloatArray | None = None

    @property
    def n_out(self) -> int:
        return int(self.codes.shape[0])

    @property
    def n_in(self) -> int:
        return int(self.codes.shape[1]) * BLOCK

    @property
    def zero(self) -> int:
        return 1 << (self.bits - 1)


@dataclass(frozen=True, slots=True)
class DenseMatrix:
    """values: float32[n_out, n_in]."""

    values: FloatArray

    @property
    def n_out(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_in(self) -> int:
        return int(self.values.shape[1])


Matrix = QuantMatrix | DenseMatrix


def dequantised(matrix: Matrix) -> FloatArray:
    """float32[n_out, n_in]."""
    if isinstance(matrix, DenseMatrix):
        return matrix.values
    codes = unpacked(matrix.codes) if matrix.bits == 4 else matrix.codes
    blocks: FloatArray = (codes.astype(np.float32) - np.float32(matrix.zero)) * matrix.scales[..., None]
    if matrix.offsets is not None:
        blocks += matrix.offsets[..., None]
    flat: FloatArray = blocks.reshape(matrix.n_out, matrix.n_in)
    return flat


def packed(codes: ByteArray) -> ByteArray:
    """4-bit codes uint8[..., 32] as pairs uint8[..., 16], the even one in the low half."""
    pairs: ByteArray = codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4))
    return pairs


def unpacked(pairs: ByteArray) -> ByteArray:
    """The inverse of `packed`."""
    return np.stack([pairs & 0x0F, pairs >> 4], axis=-1).reshape(*pairs.shape[:-1], -1)


def quantised_int8(values: FloatArray) -> QuantMatrix:
    """The nearest points of a symmetric 8-bit grid, whose ends are the largest magnitude of each block.

    values: float32[n_out, n_in], n_in a multiple of 32.
    """
    blocks = values.reshape(values.shape[0], -1, BLOCK)
    scales = (np.abs(blocks).max(axis=2) / np.float32(INT8_MOST)).astype(np.float32)
    steps = np.rint(blocks / np.where(scales == 0, 1, scales)[..., None])
    return QuantMatrix(8, (steps + 128).astype(np.uint8), scales)


def alike(a: Matrix, b: Matrix) -> bool:
    """Whether the two can be stacked: same kind, input width and grid."""
    if isinstance(a, QuantMatrix) and isinstance(b, QuantMatrix):
        return (a.bits, a.n_in, a.offsets is None) == (b.bits, b.n_in, b.offsets is None)
    return isinstance(a, DenseMatrix) and isinstance(b, DenseMatrix) and a.n_in == b.n_in


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """One matrix whose outputs are those of all `parts`, which are alike, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, DenseMatrix):
        return DenseMatrix(np.concatenate([part.values for part in parts if isinstance(part, DenseMatrix)]))
    quantised = [part for part in parts if isinstance(part, QuantMatrix)]
    offsets = [part.offsets for part in quantised if part.offsets is not None]
    return QuantMatrix(
        first.bits,
        np.concatenate([part.codes for part in quantised]),
        np.concatenate([part.scales for part in quantised]),
        np.concatenate(offsets) if offsets else None,
    )


def taken(matrix: Matrix, rows: IntArray) -> Matrix:
    """Some outputs of a matrix, in the order given."""
    if isinstance(matrix, DenseMatrix):
        return DenseMatrix(matrix.values[rows])
    offsets = None if matrix.offsets is None else matrix.offsets[rows]
    return QuantMatrix(matrix.bits, matrix.codes[rows], matrix.scales[rows], offsets)
