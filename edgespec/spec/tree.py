"""A draft: guessed tokens as a tree hanging from the last committed token. Knows nothing of models or text.

Trees have at most some 64 nodes and are handled every round, so small Python loops over lists beat array tricks here.
A node map is int32[n]: for each old node its index in the new tree, or -1 where it was cut.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from operator import ge

import numpy as np
import numpy.typing as npt

from edgespec.spec.drawn import Laws, check_laws
from edgespec.spec.pins import check_pins, fit, kept, none_pinned, pins
from edgespec.spec.taking import principal, take

IntArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]


class DraftMode(Enum):
    """How children were chosen: POINT deterministically, COUPLED with the target's own noise, SAMPLED from a law q,
    without replacement, REPEATED from it independently, so that siblings may be equal.
    """

    POINT = auto()
    COUPLED = auto()
    SAMPLED = auto()
    REPEATED = auto()

    @property
    def is_drawn(self) -> bool:
        return self in (DraftMode.SAMPLED, DraftMode.REPEATED)


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Nodes in an order where parents come before children; parent -1 is the last committed token.

    tokens: int32[n]. parents: int32[n]. survival: float32[n], the estimated probability that a node lies on the
    accepted path, for planning and never for correctness. sources: uint8[n], which drafter guessed the node.
    laws: of a SAMPLED tree n + 1 entries, laws[parent + 1] the law that the children of `parent` were drawn from, None
    for a leaf; else empty. Without them no verifier that divides by q can treat a SAMPLED tree. A tree with laws is
    kept or dropped as a whole: a node cut for its token's sake would bias such a verifier.
    pinned: bool[n], the nodes that their drafter wants for the sake of their rows, and only all together; bool[0] where
    there are none. What a pinned node hangs from is pinned too.
    """

    tokens: IntArray
    parents: IntArray
    survival: npt.NDArray[np.float32]
    sources: npt.NDArray[np.uint8]
    mode: DraftMode = DraftMode.POINT
    laws: Laws = ()
    pinned: BoolArray = field(default_factory=none_pinned)

    def __len__(self) -> int:
        return len(self.tokens)


def tree_of(
    tokens: Seq[int],
    parents: Seq[int],
    survival: Seq[float],
    sources: Seq[int] | None = None,
    mode: DraftMode = DraftMode.POINT,
    pinned: Seq[bool] = (),
) -> DraftTree:
    """A tree from plain lists; without `sources` every node has source 0, without `pinned` none is."""
    return DraftTree(
        np.array(tokens, dtype=np.int32),
        np.array(parents, dtype=np.int32),
        np.array(survival, dtype=np.float32),
        np.zeros(len(tokens), np.uint8) if sources is None else np.array(sources, dtype=np.uint8),
        mode,
        pinned=pins(list(pinned)),
    )


EMPTY = tree_of((), (), ())
_NUMBERS = np.arange(256, dtype=np.int32)
_NUMBERS.flags.writeable = False
_FIELDS = (
    ("tokens", np.dtype(np.int32)),
    ("parents", np.dtype(np.int32)),
    ("survival", np.dtype(np.float32)),
    ("sources", np.dtype(np.uint8)),
)


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
    for name, dtype in _FIELDS:
        values = getattr(tree, name)
        if not isinstance(values, np.ndarray) or values.dtype != dtype or values.shape != (n,):
            raise ValueError(f"{name} must be {dtype}[{n}]")
    if n == 0:
        return
    tokens = tree.tokens.tolist()
    if min(tokens) < 0 or max(tokens) >= n_vocab:
        raise ValueError(f"token ids must lie in [0, {n_vocab})")
    parents = tree.parents.tolist()
    if min(parents) < -1 or any(map(ge, parents, range(n))):
        raise ValueError("a parent must be -1 or an earlier node")
    # Index -1 of `known` is the root's survival, 1; NaN fails the comparisons.
    survival = tree.survival.tolist()
    known = [*survival, 1.0]
    if not all(0.0 <= chance <= known[parent] for parent, chance in zip(parents, survival, strict=True)):
        raise ValueError("survival must lie in [0, 1] and never grow from parent to child")
    if tree.laws and not tree.mode.is_drawn:
        raise ValueError("only a tree drawn from laws has them")
    if tree.laws:
        check_laws(tree.laws, tokens, parents)
    check_pins(tree.pinned, parents)


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


def n_pinned(tree: DraftTree) -> int:
    """Nodes that are wanted for their rows."""
    return int(np.count_nonzero(tree.pinned)) if len(tree.pinned) else 0


def n_leaves(tree: DraftTree) -> int:
    """Nodes without children."""
    inner = set(tree.parents.tolist())
    inner.discard(-1)
    return len(tree) - len(inner)


def child_table(tree: DraftTree) -> dict[tuple[int, int], int]:
    """(parent, token) -> node. Of siblings that carry the same token the first one counts."""
    table: dict[tuple[int, int], int] = {}
    if not len(tree):
        return table
    for node, place in enumerate(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True)):
        table.setdefault(place, node)
    return table


def prune(tree: DraftTree, keep_mask: BoolArray) -> tuple[DraftTree, IntArray]:
    """Keep the nodes of bool[n] `keep_mask` whose ancestors are all kept too; returns (tree, node map).

    A tree with laws is kept only if every node is, else dropped as a whole; so are the pinned nodes of a tree.
    """
    if tree.laws:
        return _whole(tree, bool(keep_mask.all()))
    if len(tree.pinned) and not keep_mask[tree.pinned].all():
        keep_mask = keep_mask & ~tree.pinned
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
    the earlier among equals), contiguous, then the other nodes in their old order. A tree with laws comes back as it
    was drawn if it fits, else it is dropped as a whole. Pinned nodes are taken before all others if they fit, and
    left out with everything below them if they do not.
    """
    if tree.laws:
        return _whole(tree, len(tree) <= max_nodes and n_leaves(tree) <= max_leaves)
    if len(tree.pinned) and not fit(tree.pinned, tree.parents, max_nodes, max_leaves):
        rest, rest_map = unpinned(tree)
        best, node_map = best_first(rest, max_nodes, max_leaves)
        return best, through(rest_map, node_map)
    if is_chain(tree) and max_leaves > 0:
        return _head(tree, max_nodes)
    parents, survival = tree.parents.tolist(), tree.survival.tolist()
    if len(tree) <= max_nodes and n_leaves(tree) <= max_leaves:
        taken = set(range(len(tree)))
    else:
        wanted = np.flatnonzero(tree.pinned).tolist() if len(tree.pinned) else ()
        taken = take(parents, survival, max_nodes, max_leaves, wanted)
    main = principal(parents, survival, taken)
    order = main + sorted(taken.difference(main))
    if order == list(range(len(tree))):
        return tree, identity(len(tree))
    return _select(tree, order)


def unpinned(tree: DraftTree) -> tuple[DraftTree, IntArray]:
    """The tree without its pinned nodes and all that hangs from them; returns (tree, node map)."""
    if not len(tree.pinned):
        return tree, identity(len(tree))
    return prune(tree, ~tree.pinned)


def through(nodes: IntArray, node_map: IntArray) -> IntArray:
    """Node numbers taken through one more map; -1 stays -1."""
    final = [*node_map.tolist(), -1]
    return np.array([final[node] for node in nodes.tolist()], np.int32)


def identity(n: int) -> IntArray:
    """The node map under which nothing changes; read-only."""
    return _NUMBERS[:n] if n <= len(_NUMBERS) else np.arange(n, dtype=np.int32)


def none_kept(tree: DraftTree) -> IntArray:
    """The node map of a tree of which nothing is left."""
    return np.full(len(tree), -1, np.int32) if len(tree) else _NUMBERS[:0]


def _whole(tree: DraftTree, keep: bool) -> tuple[DraftTree, IntArray]:
    """The tree as it is, or none of it."""
    if keep:
        return tree, identity(len(tree))
    return replace(EMPTY, mode=tree.mode), np.full(len(tree), -1, np.int32)


def _select(tree: DraftTree, order: list[int]) -> tuple[DraftTree, IntArray]:
    """The nodes of `order`, which must list parents before children and leave out no parent."""
    parents = tree.parents.tolist()
    node_map = [-1] * (len(tree) + 1)  # index -1, the root's, stays -1
    for new, old in enumerate(order):
        node_map[old] = new
    index = np.array(order, dtype=np.intp)
    selected = DraftTree(
        tree.tokens[index],
        np.array([node_map[parents[old]] for old in order], dtype=np.int32),
        tree.survival[index],
        tree.sources[index],
        tree.mode,
        pinned=kept(tree.pinned, index),
    )
    return selected, np.array(node_map[:-1], dtype=np.int32)


def _head(tree: DraftTree, n: int) -> tuple[DraftTree, IntArray]:
    """The first n nodes, which are prefix-closed in any tree."""
    if n >= len(tree):
        return tree, identity(len(tree))
    n = max(n, 0)
    head = DraftTree(
        tree.tokens[:n], tree.parents[:n], tree.survival[:n], tree.sources[:n], tree.mode,
        pinned=kept(tree.pinned, slice(n)),
    )  # fmt: skip
    return head, np.array([node if node < n else -1 for node in range(len(tree))], dtype=np.int32)
