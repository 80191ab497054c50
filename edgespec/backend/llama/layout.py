"""How a draft tree is written into a batch: every node carries the sequence ids of the leaves below it.

Pure arithmetic; the rules it satisfies are llama.cpp's (id sets shrink from root to leaf, positions grow by one).
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt

from edgespec.spec.tree import DraftTree


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


def n_leaves(parents: Seq[int]) -> int:
    """Leaves of a tree, 0 of an empty one."""
    return len(parents) - len({parent for parent in parents if parent >= 0})


def n_in_line(path: Seq[int]) -> int:
    """How many accepted nodes from the root are also the first nodes of the batch: their cells lie where plain
    decoding would have put them.
    """
    return next((place for place, node in enumerate(path) if node != place), len(path))


def check_path(tree: DraftTree, path: Seq[int], tokens: npt.NDArray[np.int32]) -> None:
    """Raise ValueError unless `path` leads from the root of the tree along `tokens`, which hold one token more."""
    if len(tokens) != len(path) + 1:
        raise ValueError(f"{len(tokens)} tokens for a path of {len(path)} nodes")
    parent = -1
    parents, known = tree.parents.tolist(), tree.tokens.tolist()
    for node, token in zip(path, tokens.tolist(), strict=False):
        if not 0 <= node < len(known) or parents[node] != parent or known[node] != token:
            raise ValueError(f"the path {list(path)} with tokens {tokens.tolist()} does not lie in the tree")
        parent = node
