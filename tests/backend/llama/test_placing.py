"""A request in the batch: which token sits where, under which ids, and what is padded."""

from __future__ import annotations

import pytest

from edgespec.backend.llama.batch import Batch
from edgespec.backend.llama.cells import CachedSequence
from edgespec.backend.llama.placing import Placed, place
from edgespec.spec.ports import VerifyRequest
from edgespec.spec.tree import EMPTY, DraftTree
from tests.backend.llama.driving import ids, line, tree
from tests.backend.llama.test_batch import Row, rows


def placed(
    pending: list[int], draft: DraftTree, n_padding: int = 0, names: tuple[int, ...] = (4, 5, 6)
) -> tuple[Placed, list[Row]]:
    """Of a sequence of 40 tokens with these ids, in a batch that holds one row already."""
    batch = Batch(16, 4)
    batch.add_run(ids([99]), 7, ids([0]), 1)
    cached = CachedSequence(list(names), length=40)
    found = place(batch, cached, VerifyRequest(1, ids(pending), draft, False), n_padding)
    assert all(row[3] == 1 for row in rows(batch))  # every row of a verify pass has logits
    return found, rows(batch)[1:]


def test_pending_tokens_alone() -> None:
    found, written = placed([7, 8], EMPTY)
    assert written == [(7, 40, [4, 5, 6], 1), (8, 41, [4, 5, 6], 1)]
    assert (found.first_row, found.chain, found.ids) == (2, True, [])


def test_a_chain_goes_on_under_every_id() -> None:
    found, written = placed([7], line([1, 2]), n_padding=2, names=(4,))
    assert written == [(token, 40 + i, [4], 1) for i, token in enumerate([7, 1, 2, 7, 7])]
    assert (found.first_row, found.chain) == (1, True)


def test_nodes_of_a_tree_sit_at_their_depth() -> None:
    found, written = placed([7, 8], tree([1, 2, 3, 4], [-1, 0, -1, 2]))
    assert [row[:2] for row in written] == [(7, 40), (8, 41), (1, 42), (2, 43), (3, 42), (4, 43)]
    assert [row[2] for row in written[2:]] == found.ids == [[4], [4], [5], [5]]
    assert (found.first_row, found.chain) == (2, False)


@pytest.mark.parametrize(("parents", "end"), [([-1, 0, -1], 42), ([-1, 0, 0], 43), ([-1, -1, 0], 43)], ids=str)
def test_padding_prolongs_the_path_listed_last(parents: list[int], end: int) -> None:
    """So that no row that counts can see it; the second leaf has the second id."""
    _, written = placed([7], tree([1, 2, 3], parents), n_padding=2)
    assert written[3] == (3, end - 1, [5], 1)
    assert written[4:] == [(7, end, [5], 1), (7, end + 1, [5], 1)]
