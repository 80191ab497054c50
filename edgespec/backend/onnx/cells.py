"""Which cells a row sees. Cells form a tree; nearly all of them are the trunk, a chain from cell 0 on, so that only the
few behind it are walked. Knows no keys and no values.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np

from edgespec.spec.ports import FloatArray, IntArray

# Added to a score that must not count: its exponential is 0 in float32, and no sum of it overflows.
UNSEEN = np.float32(-1e9)


class CellTree:
    """n: known cells. parents[c] < c is the cell that c continues, -1 for none; depths[c] its position in the text.

    Of the cells below `trunk` each continues the one before it.
    """

    def __init__(self, n_ctx: int) -> None:
        self.n_ctx = n_ctx
        self.n = 0
        self.trunk = 0
        self.parents: list[int] = []
        self.depths: list[int] = []
        self._depths = np.zeros(n_ctx, dtype=np.int32)

    def add(self, start: int, n: int, parents: IntArray | None) -> None:
        """Cells start .. start + n - 1 are written; what was known behind `start` is forgotten. Raises ValueError."""
        if not 0 <= start <= self.n:
            raise ValueError(f"cell {start}, and {self.n} are known")
        if start + n > self.n_ctx:
            raise ValueError(f"cells up to {start + n} of {self.n_ctx}")
        above = list(range(start - 1, start + n - 1)) if parents is None else parents.tolist()
        if len(above) != n or any(not -1 <= parent < start + i for i, parent in enumerate(above)):
            raise ValueError(f"parents {above} of cells {start} to {start + n - 1}")
        self.cut(start)
        for parent in above:
            self.parents.append(parent)
            self.depths.append(self.depths[parent] + 1 if parent >= 0 else 0)
        self._depths[start : start + n] = self.depths[start:]
        self._settle()

    def cut(self, n: int) -> None:
        del self.parents[n:], self.depths[n:]
        self.n = n
        self.trunk = min(self.trunk, n)

    def keep(self, cells: Seq[int], start: int) -> None:
        """See `StepModel.keep`. Raises ValueError for what is no branch."""
        before = start - 1
        if not 0 <= start <= self.n:
            raise ValueError(f"cell {start}, and {self.n} are known")
        for cell in cells:
            if not before < cell < self.n or self.parents[cell] != before:
                raise ValueError(f"cells {list(cells)} are no branch that continues cell {start - 1}")
            before = cell
        depths = [self.depths[cell] for cell in cells]
        self.cut(start)
        self.parents += range(start - 1, start - 1 + len(depths))
        self.depths += depths
        self._depths[start : start + len(depths)] = depths
        self._settle()

    def _settle(self) -> None:
        self.n = len(self.parents)
        while self.trunk < self.n and self.parents[self.trunk] == self.trunk - 1:
            self.trunk += 1

    # -- masks --------------------------------------------------------------------------------------------------

    def fill(self, start: int, mask: FloatArray, own_mask: FloatArray) -> None:
        """For the rows of cells start .. n - 1. mask: float32[rows, S], their sight of the cells before `start`.
        own_mask: float32[rows, rows], that of each other. Rows of padding see themselves alone, so no row sees nothing.
        """
        n = self.n - start
        own_mask[:] = UNSEEN
        own_mask.flat[:: len(own_mask) + 1] = 0.0
        mask[:] = UNSEEN
        if self.trunk == self.n:
            mask[:n, :start] = 0.0
            for i in range(1, n):
                own_mask[i, :i] = 0.0
            return
        for i in range(n):
            parent = self.parents[start + i]
            if parent >= start:
                mask[i] = mask[parent - start]
                own_mask[i, :i] = own_mask[parent - start, :i]
                own_mask[i, parent - start] = 0.0
            else:
                self._open(mask[i], parent)

    def _open(self, row: FloatArray, cell: int) -> None:
        """Show the cell and its ancestors."""
        while cell >= self.trunk:
            row[cell] = 0.0
            cell = self.parents[cell]
        row[: cell + 1] = 0.0

    def fill_window(
        self, start: int, window: int, masks: tuple[FloatArray, FloatArray], local: tuple[FloatArray, FloatArray]
    ) -> None:
        """The same sight, less what lies `window` positions or more before a row."""
        n = self.n - start
        depths = self._depths[start : self.n, None]
        (mask, own_mask), (mask_local, own_mask_local) = masks, local
        mask_local[:] = mask
        own_mask_local[:] = own_mask
        mask_local[:n, :start][depths - self._depths[:start] >= window] = UNSEEN
        own_mask_local[:n, :n][depths - self._depths[start : self.n] >= window] = UNSEEN
