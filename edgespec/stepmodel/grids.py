"""GGUF's block formats as matrices, on the file's own grid where 4 or 8 bits and one scale per 32 weights carry it.

Q4_0, Q4_1, Q5_0, Q8_0: the same weights, bit for bit. Q4_K: the same to one rounding of float32. Other formats: the
nearest points of an 8-bit grid, which costs far less than their own rounding did; requantising to 4 bits does not (18
to 20 points of top-1 agreement on a 135M model). The layouts are those of ggml's `block_q*` structures.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from edgespec.spec.ports import FloatArray
from edgespec.stepmodel.extras import extra
from edgespec.stepmodel.matrix import BLOCK, ByteArray, DenseMatrix, Matrix, QuantMatrix, packed, quantised_int8

# Below this many weights a quantised matrix is no faster than a plain one.
TINY = 1 << 16
PLAIN = ("F32", "F16", "BF16")


def from_blocks(kind: str, raw: npt.NDArray[np.generic], n_in: int) -> Matrix:
    """The matrix of a GGUF tensor.

    kind: name of its GGML type. raw: its rows as the file has them, bytes or floats, [n_out, row length].
    """
    exact = _EXACT.get(kind)
    if exact is not None:
        return exact(np.ascontiguousarray(raw).view(np.uint8).reshape(raw.shape[0], -1))
    values = floats(kind, raw)
    if n_in % BLOCK or (kind in PLAIN and values.size < TINY):
        return DenseMatrix(values)
    return quantised_int8(values)


def floats(kind: str, raw: npt.NDArray[np.generic]) -> FloatArray:
    """Rows of a GGUF tensor as float32."""
    gguf = extra("gguf", "dequantise weights")
    values = gguf.quants.dequantize(np.ascontiguousarray(raw), gguf.GGMLQuantizationType[kind])
    return np.ascontiguousarray(values, dtype=np.float32)


def _q4_0(raw: ByteArray) -> QuantMatrix:
    blocks = raw.reshape(raw.shape[0], -1, 18)
    return QuantMatrix(4, packed(_halves(blocks[..., 2:])), _half(blocks, 0))


def _q4_1(raw: ByteArray) -> QuantMatrix:
    """d * q + m == d * (q - 8) + (m + 8 * d)."""
    blocks = raw.reshape(raw.shape[0], -1, 20)
    scales = _half(blocks, 0)
    return QuantMatrix(4, packed(_halves(blocks[..., 4:])), scales, _half(blocks, 2) + 8 * scales)


def _q5_0(raw: ByteArray) -> QuantMatrix:
    """d * (q - 16), with the fifth bits of a block in four bytes of their own."""
    blocks = raw.reshape(raw.shape[0], -1, 22)
    fifth = np.unpackbits(blocks[..., 2:6], axis=-1, bitorder="little")
    codes = (_halves(blocks[..., 6:]) | (fifth << 4)) + np.uint8(128 - 16)
    return QuantMatrix(8, codes, _half(blocks, 0))


def _q8_0(raw: ByteArray) -> QuantMatrix:
    blocks = raw.reshape(raw.shape[0], -1, 34)
    return QuantMatrix(8, blocks[..., 2:] ^ np.uint8(128), _half(blocks, 0))


def _q4_k(raw: ByteArray) -> QuantMatrix:
    """d * s * q - e * m, with 6-bit s and m for each of the eight blocks under one pair of d and e."""
    supers = raw.reshape(raw.shape[0], -1, 144)
    low, middle, high = supers[..., 4:8], supers[..., 8:12], supers[..., 12:16]
    factors = np.concatenate([low & 63, (high & 15) | ((low >> 2) & 48)], axis=-1)
    minima = np.concatenate([middle & 63, (high >> 4) | ((middle >> 2) & 48)], axis=-1)
    scales = _half(supers, 0)[..., None] * factors.astype(np.float32)
    offsets = 8 * scales - _half(supers, 2)[..., None] * minima.astype(np.float32)
    pairs = supers[..., 16:].reshape(*supers.shape[:2], 4, 1, BLOCK)
    codes = np.concatenate([pairs & 15, pairs >> 4], axis=3).reshape(raw.shape[0], -1, BLOCK)
    flat = (raw.shape[0], -1)
    return QuantMatrix(4, packed(codes), scales.reshape(flat), offsets.reshape(flat))


def _half(blocks: ByteArray, start: int) -> FloatArray:
    """The 16-bit float at `start` of every block."""
    return np.ascontiguousarray(blocks[..., start : start + 2]).view(np.float16)[..., 0].astype(np.float32)


def _halves(pairs: ByteArray) -> ByteArray:
    """GGUF's 4-bit order: byte i carries weight i in its low half and weight i + 16 in its high one."""
    return np.concatenate([pairs & 15, pairs >> 4], axis=-1)


_EXACT: dict[str, Callable[[ByteArray], QuantMatrix]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
}
