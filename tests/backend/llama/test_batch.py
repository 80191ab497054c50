"""The batch that libllama is handed: what is written into numpy arrays is what the C structure shows."""

from __future__ import annotations

import numpy as np
import pytest

from edgespec.backend.llama.batch import Batch
from tests.backend.llama.driving import ids

Row = tuple[int, int, list[int], int]


def rows(batch: Batch) -> list[Row]:
    """(token, position, sequence ids, output) of every row, read through the C pointers."""
    c = batch.struct()
    return [(c.token[i], c.pos[i], c.seq_id[i][: c.n_seq_id[i]], c.logits[i]) for i in range(c.n_tokens)]


def test_runs_and_nodes_are_written_in_order() -> None:
    batch = Batch(8, 3)
    batch.add_run(ids([7, 8]), 40, ids([2, 0]), 0)
    batch.add_nodes(ids([9, 8]), [42, 43], [[0, 2], [2]])
    batch.add_run(ids([5]), 42, ids([2]), 1)
    assert batch.n == 5
    assert rows(batch) == [(7, 40, [2, 0], 0), (8, 41, [2, 0], 0), (9, 42, [0, 2], 1), (8, 43, [2], 1), (5, 42, [2], 1)]


def test_a_batch_is_filled_anew() -> None:
    batch = Batch(4, 2)
    batch.add_run(ids([1, 2, 3, 4]), 0, ids([0, 1]), 1)
    batch.clear()
    assert rows(batch) == []
    batch.add_nodes(ids([6]), [9], [[1]])
    assert rows(batch) == [(6, 9, [1], 1)]


def test_nothing_is_written_beyond_its_room() -> None:
    batch = Batch(3, 2)
    with pytest.raises(ValueError, match="broadcast"):
        batch.add_run(ids([1, 2, 3, 4]), 0, ids([0]), 1)
    with pytest.raises(IndexError):
        batch.add_run(ids([1]), 0, ids([0, 1, 2]), 1)
    batch.clear()
    batch.add_run(ids([1, 2, 3]), 0, ids([0]), 1)
    with pytest.raises(IndexError):
        batch.add_nodes(ids([4]), [3], [[0]])
    assert [row[0] for row in rows(batch)] == [1, 2, 3]


def test_the_highest_token_shows_foreign_ones() -> None:
    batch = Batch(4, 1)
    assert batch.highest_token() == 0
    batch.add_run(ids([3, 7, 1]), 0, ids([0]), 1)
    assert batch.highest_token() == 7
    batch.add_nodes(ids([-1]), [3], [[0]])
    assert batch.highest_token() == 0xFFFFFFFF
    batch.clear()
    batch.add_nodes(ids([2]), [0], [[0]])
    assert batch.highest_token() == 2


def test_the_arrays_live_as_long_as_the_batch() -> None:
    batches = [Batch(64, 4) for _ in range(50)]
    for token, batch in enumerate(batches):
        batch.add_run(np.full(64, token, np.int32), 0, ids([0, 1, 2, 3]), 1)
    assert [{row[0] for row in rows(batch)} for batch in batches] == [{token} for token in range(50)]
