"""Logits of a pass, looked up only when asked for. Knows where a row lies in the batch, not how it was computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgespec.errors import StaleRows
from edgespec.spec.ports import FloatArray

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget


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
