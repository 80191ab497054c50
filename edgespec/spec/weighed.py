"""One round's proposals made comparable: calibrated, merged, and ranked by how likely they are to be accepted.

Knows no costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

from edgespec.spec.acceptance import Acceptance, Watch
from edgespec.spec.merging import merge
from edgespec.spec.policy import Offer, Selection, cut
from edgespec.spec.ports import IntArray
from edgespec.spec.tree import EMPTY, DraftTree, best_first, is_chain, n_pinned, through, unpinned


@dataclass(frozen=True, slots=True)
class Weighed:
    """One sequence's trees as one, with calibrated survival; `nodes` are the node maps of the merge.

    likely: survivals of the part that keeps to the plans' limits, descending. watches: for each drafter that proposed
    something, what will score it. position: tokens committed before the round. n_pinned: nodes that come before the
    likely ones, since their drafters want them for their rows and pay for them; none of them is among the likely.
    """

    tree: DraftTree
    nodes: tuple[IntArray, ...]
    likely: list[float]
    max_leaves: int
    watches: dict[str, Watch]
    position: int
    n_pinned: int = 0

    def select(self, n_nodes: int) -> Selection:
        """The pinned nodes and the `n_nodes` likeliest others."""
        n_nodes = self.n_pinned + max(0, n_nodes)
        if n_nodes <= 0:
            return Selection(EMPTY, tuple(np.full(len(own), -1, np.int32) for own in self.nodes))
        return cut(self.tree, self.nodes, n_nodes, self.max_leaves)


def is_worth_a_look(offer: Offer, least_claim: float) -> bool:
    """Does any tree begin with such a claim? Where padding is free, and where rows are wanted for themselves, every
    guess is worth it.
    """
    trees = [one.tree for one in offer.proposed if len(one.tree)]
    return any(float(tree.survival[0]) >= least_claim or offer.state.exact or len(tree.pinned) > 0 for tree in trees)


def weigh(offer: Offer, acceptance: Acceptance, keeps_pinned: bool = False) -> Weighed:
    """Pinned nodes are dropped before the merge, with all below them, or kept if all of them fit together.

    Raises ValueError if a SAMPLED tree meets another one, as `merge` does.
    """
    position = len(offer.state.tokens)
    trees: list[DraftTree] = []
    watches: dict[str, Watch] = {}
    own_maps: list[IntArray | None] = []
    max_nodes, max_leaves = 0, 1
    for source, one in enumerate(offer.proposed):
        tree, own_map = (one.tree, None) if keeps_pinned or not len(one.tree.pinned) else unpinned(one.tree)
        own_maps.append(own_map)
        if len(tree):
            tree, watches[one.drafter] = acceptance.calibrate(offer.state.id, one.drafter, source, tree, position)
        trees.append(tree)
        max_nodes, max_leaves = max(max_nodes, one.plan.max_nodes), max(max_leaves, one.plan.max_leaves)
    merged, nodes = merge(trees)
    nodes = [own if old is None else through(old, own) for old, own in zip(own_maps, nodes, strict=True)]
    likely: list[float] = merged.survival.tolist()
    n_kept = 0
    if not is_chain(merged) or len(merged.pinned):
        best, _ = best_first(merged, max_nodes, max_leaves)
        n_kept = n_pinned(best)
        likely = sorted((best.survival[~best.pinned] if n_kept else best.survival).tolist(), reverse=True)
    return Weighed(merged, tuple(nodes), likely[: max_nodes - n_kept], max_leaves, watches, position, n_kept)


def ranked(weighed: Seq[Weighed]) -> list[float]:
    """Survivals of all sequences' nodes, descending."""
    if len(weighed) == 1:
        return weighed[0].likely
    return sorted((survival for one in weighed for survival in one.likely), reverse=True)


def shares(weighed: Seq[Weighed], n_nodes: int) -> list[int]:
    """How many of the `n_nodes` likeliest nodes of all sequences are each one's; of equals the earlier one's first."""
    if len(weighed) == 1:
        return [n_nodes]
    places = [(survival, -index) for index, one in enumerate(weighed) for survival in one.likely]
    counts = Counter(-index for _, index in sorted(places, reverse=True)[:n_nodes])
    return [counts[index] for index in range(len(weighed))]
