"""How a draft tree is written into a batch: every node carries the sequence ids of the leaves below it.

Pure arithmetic; the rules it satisfies are llama.cpp's (id sets shrink from root to leaf, positions grow by one).
"""

from __future__ import annotations

from collections.abc import Sequence as Seq


def node_ids(parents: Seq[int], ids: Seq[int]) -> list[list[int]]:
    """For each node the ids it carries, given at least as many ids as the tree has leaves.

    The first leaf in node order gets ids[0], so the principal branch of a tree that lists it first keeps the
    principal id.
    """
    n = len(parents)
    below: list[list[int]] = [[] for _ in range(n)]
    inner = set(parents)
    leaf = 0
    for node in range(n):
        if node not in inner:
            below[node].append(ids[leaf])
            leaf += 1
    for node in range(n - 1, -1, -1):  # parents come before children
        if parents[node] >= 0:
            below[parents[node]] += below[node]
    return below


def is_contiguous(path: Seq[int]) -> bool:
    """Whether the accepted nodes are the first nodes of the batch, so that their cells lie where plain decoding would
    put them.
    """
    return all(node == i for i, node in enumerate(path))
