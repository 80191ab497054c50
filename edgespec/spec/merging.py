"""Trees of several drafters laid over each other. A node map is as in `spec.tree`. Knows nothing of models or text."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np

from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, IntArray, identity, tree_of


def merge(trees: Seq[DraftTree]) -> tuple[DraftTree, list[IntArray]]:
    """Lay the trees of several drafters over each other; returns (tree, one node map per input tree).

    Same parent and same token is the same node: the first drafter to guess it owns it, its survival is the largest
    one, and it is pinned if anybody pins it. `sources` becomes the drafter's place in `trees`. Raises ValueError if a
    SAMPLED tree meets another one, since no verifier could then tell which law its children were drawn from.
    """
    filled = [place for place, tree in enumerate(trees) if len(tree)]
    # Twins of a tree with laws are two draws, and a verifier tries both.
    if len(filled) <= 1 and not any(_has_twins(trees[place]) for place in filled if not trees[place].laws):
        return _merge_one(trees, filled[0] if filled else -1)
    modes = {trees[place].mode for place in filled}
    if len(filled) > 1 and any(mode.is_drawn for mode in modes):
        raise ValueError("a SAMPLED tree cannot be merged with another tree")
    return _overlay(trees, next((m for m in reversed(DraftMode) if m in modes), DraftMode.POINT))


def _has_twins(tree: DraftTree) -> bool:
    """Are there siblings with the same token?"""
    return len(set(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True))) < len(tree)


def _merge_one(trees: Seq[DraftTree], place: int) -> tuple[DraftTree, list[IntArray]]:
    maps = [identity(len(tree)) for tree in trees]
    if place < 0:
        return EMPTY, maps
    tree = trees[place]
    if tree.sources.tolist() == [place] * len(tree):
        return tree, maps
    return replace(tree, sources=np.full(len(tree), place, dtype=np.uint8)), maps


def _overlay(trees: Seq[DraftTree], mode: DraftMode) -> tuple[DraftTree, list[IntArray]]:
    table: dict[tuple[int, int], int] = {}
    survival: list[float] = []
    sources: list[int] = []
    maps: list[IntArray] = []
    wanted: set[int] = set()
    for source, tree in enumerate(trees):
        nodes: list[int] = []
        for parent, token, chance in zip(
            tree.parents.tolist(), tree.tokens.tolist(), tree.survival.tolist(), strict=True
        ):
            place = (parent if parent < 0 else nodes[parent], token)
            node = table.setdefault(place, len(survival))
            if node == len(survival):
                survival.append(chance)
                sources.append(source)
            elif chance > survival[node]:
                survival[node] = chance
            nodes.append(node)
        maps.append(np.array(nodes, dtype=np.int32))
        if len(tree.pinned):
            wanted.update(maps[-1][tree.pinned].tolist())
    pinned = [node in wanted for node in range(len(survival))] if wanted else ()
    tokens, parents = [token for _, token in table], [parent for parent, _ in table]
    return tree_of(tokens, parents, survival, sources, mode, pinned), maps
