"""The buffers of runs with one number of rows, bound to a session once, so that a run hands over no array.

Knows shapes and names, and neither tokens nor the tree of cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from edgespec.backend.onnx.session import first_line
from edgespec.errors import EngineFailure
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.stepfile import StepFile

if TYPE_CHECKING:
    import onnxruntime

# Buckets are these times a power of two: 64, 96, 128, 192, 256, ... A masked cell costs as much as one that counts, and
# every other size means new buffers.
_BUCKETS = (64, 96)


def bucket_for(n_cells: int, n_ctx: int) -> int:
    """The smallest bucket that holds so many cells; the largest one is `n_ctx` itself."""
    small, large = _BUCKETS
    while small < n_cells:
        small, large = large, 2 * small
    return min(small, n_ctx)


def new_cells(file: StepFile, n_cells: int) -> FloatArray:
    """float32[2 * n_blocks, n_kv_heads, n_cells, head_dim]: the keys of each block, then the values of each. Zeros: a
    NaN would reach every sum, masked or not.
    """
    return np.zeros((2 * file.n_blocks, file.n_kv_heads, n_cells, file.head_dim), dtype=np.float32)


def row_inputs(file: StepFile, n_rows: int) -> dict[str, FloatArray]:
    """By input name: those whose shape does not depend on the number of cells, float32 zeros."""
    half = file.head_dim // 2
    shapes = {"x": (n_rows, file.width), "cos": (n_rows, half), "sin": (n_rows, half), "own_mask": (n_rows, n_rows)}
    if len(file.rope) > 1:
        shapes |= {"cos_local": (n_rows, half), "sin_local": (n_rows, half)}
    if file.windowed:
        shapes["own_mask_local"] = (n_rows, n_rows)
    return {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}


class Lane:
    """n_rows: of every run. inputs: to be filled before it. ids, logits, log_sums: what the last run gave; new: the
    keys and values of its rows, as in `new_cells`.
    """

    def __init__(self, session: onnxruntime.InferenceSession, file: StepFile, n_rows: int, cells: FloatArray) -> None:
        """`cells`, as of `new_cells`, is the cache that it reads; it stays the caller's."""
        self._session = session
        self.inputs = row_inputs(file, n_rows)
        for name in ("mask", "mask_local")[: 1 + file.windowed]:
            self.inputs[name] = np.zeros((n_rows, cells.shape[2]), dtype=np.float32)
        self.ids: IntArray = np.zeros((n_rows, file.n_ranked), dtype=np.int32)
        self.logits: FloatArray = np.zeros((n_rows, file.n_ranked), dtype=np.float32)
        self.log_sums: FloatArray = np.zeros(n_rows, dtype=np.float32)
        self.new = new_cells(file, n_rows)
        self._cells = cells  # bound by its address alone, which this keeps alive
        self._binding = session.io_binding()
        for name, array in (*self.inputs.items(), *_by_block("past", cells)):
            self._binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        outputs: list[tuple[str, FloatArray | IntArray]] = [
            *(("ids", self.ids), ("logits", self.logits), ("log_sums", self.log_sums)),
            *_by_block("new", self.new),
        ]
        for name, output in outputs:
            self._binding.bind_output(name, "cpu", 0, output.dtype.type, output.shape, output.ctypes.data)

    def run(self) -> None:
        """Raises EngineFailure."""
        try:
            self._session.run_with_iobinding(self._binding)
        # ONNX Runtime's exceptions have no class in common but Exception.
        except Exception as error:
            raise EngineFailure("the draft's step failed", first_line(error), "see 'edgespec doctor'") from error


def _by_block(word: str, arrays: FloatArray) -> list[tuple[str, FloatArray]]:
    n = len(arrays) // 2
    names = [f"{word}_k_{block}" for block in range(n)] + [f"{word}_v_{block}" for block in range(n)]
    return list(zip(names, arrays, strict=True))
