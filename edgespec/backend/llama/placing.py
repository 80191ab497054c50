"""Writes one request of a verify pass into the batch: pending tokens, then the tree, then padding. Runs nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edgespec.backend.llama.batch import Batch
from edgespec.backend.llama.cells import CachedSequence
from edgespec.backend.llama.layout import node_ids
from edgespec.spec.ports import VerifyRequest
from edgespec.spec.tree import DraftTree, is_chain


class Placed(NamedTuple):
    """What a pass holds of one sequence, for the commit that follows. first_row: of the last pending token. end: the
    position behind its last row, padding included.
    """

    request: VerifyRequest
    first_row: int
    chain: bool
    ids: list[list[int]]  # of each node; empty for a chain
    end: int


def place(batch: Batch, cached: CachedSequence, request: VerifyRequest, n_padding: int) -> Placed:
    """Append the request's rows. The sequence must have an id for every leaf of the tree."""
    start = cached.length + len(request.pending)
    first = batch.n + len(request.pending) - 1
    batch.add_run(request.pending, cached.length, cached.id_array, 1)
    chain = is_chain(request.tree)
    ids: list[list[int]] = []
    end = start + len(request.tree)
    if chain:
        batch.add_run(request.tree.tokens, start, cached.id_array, 1)
    else:
        ids, end = _place_tree(batch, cached, request.tree, start)
    if n_padding:
        own = cached.id_array if chain else np.array(ids[-1], np.int32)
        # Thrown away, so any token will do: they prolong the path listed last, behind everything that counts.
        batch.add_run(np.full(n_padding, request.pending[-1], np.int32), end, own, 1)
    return Placed(request, first, chain, ids, end + n_padding)


def _place_tree(batch: Batch, cached: CachedSequence, tree: DraftTree, start: int) -> tuple[list[list[int]], int]:
    """Ids of each node, and the position after the last node."""
    parents: list[int] = tree.parents.tolist()
    ids = node_ids(parents, cached.ids)
    positions: list[int] = []
    for parent in parents:
        positions.append(start if parent < 0 else positions[parent] + 1)
    batch.add_nodes(tree.tokens, positions, ids)
    return ids, positions[-1] + 1
