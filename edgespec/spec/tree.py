"""A draft: guessed tokens as a tree hanging from the last committed token. Knows nothing of models or text.

Trees have at most some 64 nodes and are handled every round, so small Python loops over lists beat array tricks here.
A node map is int32[n]: for each old node its index in the new tree, or -1 where it was cut.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]


class DraftMode(Enum):
    """How children were chosen: POINT deterministically, COUPLED with the target's own noise, SAMPLED from a law q."""

    POINT = auto()
    COUPLED = auto()
    SAMPLED = auto()


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Nodes in an order where parents come before children; parent -1 is the last committed token.

    tokens: int32[n]. parents: int32[n]. survival: float32[n], the estimated probability that a node lies on the
    accepted path, for planning and never for correctness. sources: uint8[n], which drafter guessed the node.
    """

    tokens: IntArray
    parents: IntArray
    survival: npt.NDArray[np.float32]
    sources: npt.NDArray[np.uint8]
    mode: DraftMode = DraftMode.POINT

    def __len__(self) -> int:
        return len(self.tokens)


def tree_of(
    tokens: Seq[int],
    parents: Seq[int],
    survival: Seq[float],
    sources: Seq[int] | None = None,
    mode: DraftMode = DraftMode.POINT,
) -> DraftTree:
    """A tree from plain lists; without `sources` every node has source 0."""
    return DraftTree(
        np.array(tokens, dtype=np.int32),
        np.array(parents, dtype=np.int32),
        np.array(survival, dtype=np.float32),
        np.zeros(len(tokens), np.uint8) if sources is None else np.array(sources, dtype=np.uint8),
        mode,
    )


EMPTY = tree_of((), (), ())


def chain(
    tokens: Seq[int] | IntArray,
    survival: Seq[float] | npt.NDArray[np.float32],
    source: int = 0,
    mode: DraftMode = DraftMode.POINT,
) -> DraftTree:
    """One branch: each token the child of the one before. `survival` has one value per token."""
    n = len(tokens)
    return DraftTree(
        np.array(tokens, dtype=np.int32),
        np.arange(-1, n - 1, dtype=np.int32),
        np.array(survival, dtype=np.float32),
        np.full(n, source, dtype=np.uint8),
        mode,
    )


def check_tree(tree: DraftTree, n_vocab: int) -> None:
    """Raise ValueError unless the tree keeps every promise of DraftTree and its tokens lie in the vocabulary."""
    n = len(tree.tokens)
    for name, dtype in (("tokens", np.int32), ("parents", np.int32), ("survival", np.float32), ("sources", np.uint8)):
        values = getattr(tree, name)
        if not isinstance(values, np.ndarray) or values.dtype != dtype or values.shape != (n,):
            raise ValueError(f"{name} must be {np.dtype(dtype)}[{n}]")
    if n == 0:
        return
    if tree.tokens.min() < 0 or tree.tokens.max() >= n_vocab:
        raise ValueError(f"token ids must lie in [0, {n_vocab})")
    if tree.parents.min() < -1 or (tree.parents >= np.arange(n)).any():
        raise ValueError("a parent must be -1 or an earlier node")
    # Index -1 of `above` is the root's survival, 1; NaN fails the comparisons.
    above = np.append(tree.survival, np.float32(1.0))[tree.parents]
    if not ((tree.survival >= 0.0) & (tree.survival <= above)).all():
        raise ValueError("survival must lie in [0, 1] and never grow from parent to child")


def is_chain(tree: DraftTree) -> bool:
    """True if every node's parent is the node before it; an empty tree is a chain."""
    parents: list[int] = tree.parents.tolist()
    return parents == list(range(-1, len(parents) - 1))


def depths(tree: DraftTree) -> IntArray:
    """int32[n]: nodes on the path from the last committed token; its children have depth 1."""
    found: list[int] = []
    for parent in tree.parents.tolist():
        found.append(1 if parent < 0 else found[parent] + 1)
    return np.array(found, dtype=np.int32)


def leaves(tree: DraftTree) -> IntArray:
    """int32[k]: the nodes without children, in node order."""
    inner = set(tree.parents.tolist())
    return np.array([node for node in range(len(tree)) if node not in inner], dtype=np.int32)


def child_table(tree: DraftTree) -> dict[tuple[int, int], int]:
    """(parent, token) -> node. Of siblings that carry the same token the first one counts."""
    table: dict[tuple[int, int], int] = {}
    for node, place in enumerate(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True)):
        table.setdefault(place, node)
    return table


def prune(tree: DraftTree, keep_mask: BoolArray) -> tuple[DraftTree, IntArray]:
    """Keep the nodes of bool[n] `keep_mask` whose ancestors are all kept too; returns (tree, node map)."""
    order: list[int] = []
    kept: set[int] = {-1}
    for node, (parent, keep) in enumerate(zip(tree.parents.tolist(), keep_mask.tolist(), strict=True)):
        if keep and parent in kept:
            kept.add(node)
            order.append(node)
    return _select(tree, order)


def best_first(tree: DraftTree, max_nodes: int, max_leaves: int) -> tuple[DraftTree, IntArray]:
    """The likeliest prefix-closed part of a tree within both limits; returns (tree, node map).

    Nodes are taken greedily by survival, the earlier one among equals; one that would open a branch too many is left
    out with everything below it. The result lists its principal branch first (from the root always the likeliest child,
    the earlier among equals), contiguous, then the other nodes in their old order.
    """
    if is_chain(tree) and max_leaves > 0:
        return _head(tree, max_nodes)
    taken = _take(tree.parents.tolist(), tree.survival.tolist(), max_nodes, max_leaves)
    principal = _principal(tree, taken)
    return _select(tree, principal + sorted(taken.difference(principal)))


def merge(trees: Seq[DraftTree]) -> tuple[DraftTree, list[IntArray]]:
    """Lay the trees of several drafters over each other; returns (tree, one node map per input tree).

    Same parent and same token is the same node: the first drafter to guess it owns it, its survival is the largest
    one. `sources` becomes the drafter's place in `trees`. Raises ValueError if a SAMPLED tree meets another one, since
    no verifier could then tell which law its children were drawn from.
    """
    filled = [place for place, tree in enumerate(trees) if len(tree)]
    if len(filled) <= 1 and all(is_chain(tree) for tree in trees):
        return _merge_one(trees, filled[0] if filled else -1)
    modes = {trees[place].mode for place in filled}
    if len(filled) > 1 and DraftMode.SAMPLED in modes:
        raise ValueError("a SAMPLED tree cannot be merged with another tree")
    return _overlay(trees, next((m for m in reversed(DraftMode) if m in modes), DraftMode.POINT))


def _select(tree: DraftTree, order: list[int]) -> tuple[DraftTree, IntArray]:
    """The nodes of `order`, which must list parents before children and leave out no parent."""
    node_map = np.full(len(tree), -1, dtype=np.int32)
    index = np.array(order, dtype=np.intp)
    node_map[index] = np.arange(len(order), dtype=np.int32)
    old_parents = tree.parents[index]
    parents = np.where(old_parents < 0, np.int32(-1), node_map[old_parents]) if order else old_parents
    return replace(
        tree, tokens=tree.tokens[index], parents=parents, survival=tree.survival[index], sources=tree.sources[index]
    ), node_map


def _head(tree: DraftTree, n: int) -> tuple[DraftTree, IntArray]:
    """The first n nodes, which are prefix-closed in any tree."""
    node_map = np.arange(len(tree), dtype=np.int32)
    if n >= len(tree):
        return tree, node_map
    n = max(n, 0)
    node_map[n:] = -1
    return replace(
        tree, tokens=tree.tokens[:n], parents=tree.parents[:n], survival=tree.survival[:n], sources=tree.sources[:n]
    ), node_map


def _take(parents: list[int], survival: list[float], max_nodes: int, max_leaves: int) -> set[int]:
    # A stable sort keeps parents before their equally likely children.
    taken: set[int] = set()
    inner: set[int] = set()
    n_leaves = 0
    for node in sorted(range(len(parents)), key=survival.__getitem__, reverse=True):
        parent = parents[node]
        if len(taken) >= max_nodes:
            break
        if parent >= 0 and parent not in taken:
            continue
        # The first child takes over its parent's leaf; at the root, and for every later child, a leaf is added.
        added = 0 if parent >= 0 and parent not in inner else 1
        if n_leaves + added > max_leaves:
            continue
        n_leaves += added
        inner.add(parent)
        taken.add(node)
    return taken


def _principal(tree: DraftTree, taken: set[int]) -> list[int]:
    best: dict[int, int] = {}
    survival = tree.survival.tolist()
    parents = tree.parents.tolist()
    for node in sorted(taken):
        rival = best.get(parents[node])
        if rival is None or survival[node] > survival[rival]:
            best[parents[node]] = node
    branch: list[int] = []
    node = -1
    while node in best:
        node = best[node]
        branch.append(node)
    return branch


def _merge_one(trees: Seq[DraftTree], place: int) -> tuple[DraftTree, list[IntArray]]:
    maps = [np.arange(len(tree), dtype=np.int32) for tree in trees]
    if place < 0:
        return EMPTY, maps
    return replace(trees[place], sources=np.full(len(trees[place]), place, dtype=np.uint8)), maps


def _overlay(trees: Seq[DraftTree], mode: DraftMode) -> tuple[DraftTree, list[IntArray]]:
    table: dict[tuple[int, int], int] = {}
    survival: list[float] = []
    sources: list[int] = []
    maps: list[IntArray] = []
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
    return tree_of([token for _, token in table], [parent for parent, _ in table], survival, sources, mode), maps
