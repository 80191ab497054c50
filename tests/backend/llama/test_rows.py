"""Rows of a real pass: each one the row that the library holds at its place in the batch."""

from __future__ import annotations

import numpy as np
import pytest

from edgespec.backend.llama.rows import LlamaRows
from edgespec.errors import StaleRows
from tests.backend.conftest import OpenTarget, Toys
from tests.backend.llama.driving import ids, line, verify


def test_rows_are_counted_from_the_first_one_of_their_request(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    verify(target, [1, 2, 3], line([4, 5]))
    rows = LlamaRows(target, first_row=2, n_rows=3)
    assert all(np.array_equal(rows.logits(row), target.row(2 + row)) for row in range(3))
    assert not np.array_equal(rows.logits(0), rows.logits(1))


def test_no_other_row_and_no_later_pass_is_read(toys: Toys, open_target: OpenTarget) -> None:
    """Beyond its buffer the library would read foreign memory, and count a negative row from the end."""
    target = open_target(toys.path())
    verify(target, [1, 2, 3], line([4, 5]))
    rows = LlamaRows(target, first_row=2, n_rows=2)
    for row in (-1, 2, 3, 100):
        with pytest.raises(ValueError, match=f"row {row} of 2"):
            rows.logits(row)
    target.extend(7, ids([1]))
    with pytest.raises(StaleRows, match="an earlier pass"):
        rows.logits(0)
