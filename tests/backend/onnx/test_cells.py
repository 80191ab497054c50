"""What a row sees, against the set of its ancestors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.onnx.cells import UNSEEN, CellTree
from edgespec.spec.ports import FloatArray, IntArray


def ids(*values: int) -> IntArray:
    return np.array(values, dtype=np.int32)


def empty(n_rows: int, n_cells: int) -> tuple[FloatArray, FloatArray]:
    """As a run before may have left them."""
    return np.full((n_rows, n_cells), 5.0, np.float32), np.full((n_rows, n_rows), 5.0, np.float32)


def ancestors(parents: list[int], cell: int) -> list[int]:
    found = [cell]
    while parents[found[-1]] >= 0:
        found.append(parents[found[-1]])
    return found


@given(st.data())
def test_a_row_sees_its_ancestors_and_itself(data: st.DataObject) -> None:
    n_before, n, n_rows = data.draw(st.integers(0, 12)), data.draw(st.integers(1, 4)), 5
    parents = [data.draw(st.integers(max(-1, cell - 4), cell - 1)) for cell in range(n_before + n)]
    window = data.draw(st.integers(1, 6))
    tree = CellTree(32)
    if n_before:
        tree.add(0, n_before, ids(*parents[:n_before]))
    tree.add(n_before, n, ids(*parents[n_before:]))
    masks, local = empty(n_rows, 20), empty(n_rows, 20)
    tree.fill(n_before, *masks)
    tree.fill_window(n_before, window, masks, local)
    for row in range(n_rows):
        seen = ancestors(parents, n_before + row) if row < n else []
        for (mask, own), near in ((masks, seen), (local, seen[:window])):
            assert [c for c in range(20) if mask[row, c] == 0] == sorted(c for c in near if c < n_before)
            shown = {c - n_before for c in near if c >= n_before} | ({row} if row >= n else set())
            assert {c for c in range(n_rows) if own[row, c] == 0} == shown
            assert set(mask[row].tolist()) | set(own[row].tolist()) <= {0.0, float(UNSEEN)}
    assert tree.depths == [len(ancestors(parents, cell)) - 1 for cell in range(n_before + n)]


def test_the_trunk_grows_with_what_is_kept_and_shrinks_with_what_is_overwritten() -> None:
    tree = CellTree(16)
    tree.add(0, 4, None)
    assert (tree.trunk, tree.n) == (4, 4)
    tree.add(4, 3, ids(3, 3, 4))
    assert (tree.trunk, tree.n) == (5, 7)
    tree.keep([4, 6], 4)
    assert (tree.trunk, tree.n, tree.parents) == (6, 6, [-1, 0, 1, 2, 3, 4])
    tree.add(2, 1, ids(0))
    assert (tree.trunk, tree.n, tree.parents, tree.depths) == (2, 3, [-1, 0, 0], [0, 1, 1])
    tree.keep([], 1)
    assert (tree.trunk, tree.n) == (1, 1)


def test_a_branch_is_kept_behind_another_branch() -> None:
    tree = CellTree(16)
    tree.add(0, 5, ids(-1, 0, 0, 2, 2))
    tree.keep([4], 3)
    assert (tree.parents, tree.depths, tree.trunk) == ([-1, 0, 0, 2], [0, 1, 1, 2], 2)


def test_wrong_calls_change_nothing() -> None:
    tree = CellTree(4)
    tree.add(0, 3, None)
    for start, n, parents in ((4, 1, None), (-1, 1, None), (3, 2, None), (3, 1, ids(3)), (3, 1, ids(0, 1))):
        with pytest.raises(ValueError, match="cell"):
            tree.add(start, n, parents)
    for cells, start in (([1], 0), ([0, 2], 0), ([2, 1], 2), ([3], 3), ([], 4)):
        with pytest.raises(ValueError, match="cell"):
            tree.keep(cells, start)
    assert (tree.n, tree.parents, tree.trunk) == (3, [-1, 0, 1], 3)
