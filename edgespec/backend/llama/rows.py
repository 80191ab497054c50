"""Logits of a pass, looked up only when asked for. Knows where a row lies in the batch, not how it was computed."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import llama_cpp
import numpy as np

from edgespec.backend.llama.log import log
from edgespec.errors import EngineFailure, StaleRows
from edgespec.spec.ports import FloatArray

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget


# llama_get_logits, but giving the address as a number: asked in every pass, where an object of ctypes costs 10 us.
_logits_address = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(
    ctypes.cast(llama_cpp.llama_get_logits, ctypes.c_void_p).value or 0
)


class Logits:
    """Where a context keeps its logits. Asking it for single rows would cost a call and a new array each."""

    def __init__(self, context: llama_cpp.llama_context_p, max_rows: int, n_vocab: int) -> None:
        self._context = context
        self._max_rows = max_rows
        self._n_vocab = n_vocab
        self._address = 0
        self._generation = 0
        self._rows: FloatArray = np.empty((0, n_vocab), np.float32)

    def rows(self, generation: int) -> FloatArray:
        """float32[max_rows, n_vocab], a read-only view: the rows of this pass, which all have an output, come first.

        What lies beyond the pass must not be read. Raises EngineFailure when there are no logits.
        """
        if generation != self._generation:
            self._locate()
            self._generation = generation
        return self._rows

    def _locate(self) -> None:
        address = _logits_address(self._context)
        if not address:
            raise EngineFailure("cannot read the logits", log().reason(), "see 'edgespec doctor'")
        if address != self._address:  # it moves only when it has to grow
            buffer = (ctypes.c_float * (self._max_rows * self._n_vocab)).from_address(address)
            flat = np.frombuffer(memoryview(buffer).toreadonly(), np.float32)
            self._rows = flat.reshape(self._max_rows, self._n_vocab)
            self._address = address


class LlamaRows:
    """ports.Rows of one request: `n_rows` rows of the latest pass from `first_row` on."""

    def __init__(self, target: LlamaTarget, first_row: int, n_rows: int) -> None:
        self._target = target
        self._first_row = first_row
        self._n_rows = n_rows
        self._generation = target.generation

    def logits(self, row: int) -> FloatArray:
        """float32[n_vocab], read-only. Raises StaleRows after the target's next pass, ValueError for no such row."""
        if self._generation != self._target.generation:
            raise StaleRows("these logits belong to an earlier pass of the target")
        if not 0 <= row < self._n_rows:
            raise ValueError(f"row {row} of {self._n_rows}")
        return self._target.row(self._first_row + row)
