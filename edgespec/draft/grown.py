"""A tree grown node by node, the likeliest first, and what it teaches once the truth is known.

Contract: `grow` asks a drafter for the children of one node at a time, so a drafter opens only the nodes that are
worth a row. Nodes come in falling survival, hence parents before children. Does not know where children come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from edgespec.draft.rates import Rates
from edgespec.spec.ports import Plan
from edgespec.spec.tree import EMPTY, DraftTree, tree_of

# What a drafter knows of a node, for finding its children.
S = TypeVar("S")

# P(right | parent accepted), token, situation that this chance belongs to, state.
Child = tuple[float, int, int, S]

# Children looked at per node; the tokens after them are seen too seldom to be worth a row.
_MAX_CHILDREN = 4

# Below this survival a row is worth its price on no machine, and the rest of its branch is not worth looking at.
HOPELESS = 0.05


class Draft:
    """A tree with the situation of each node."""

    __slots__ = ("parents", "situations", "survival", "tokens")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.survival: list[float] = []
        self.situations: list[int] = []

    def add(self, token: int, parent: int, survival: float, situation: int) -> int:
        self.tokens.append(token)
        self.parents.append(parent)
        self.survival.append(survival)
        self.situations.append(situation)
        return len(self.tokens) - 1

    def tree(self) -> DraftTree:
        return tree_of(self.tokens, self.parents, self.survival) if self.tokens else EMPTY

    def learn(self, rates: Rates, emitted: Sequence[int]) -> int:
        """Count every node whose parent came true and whose own truth is in `emitted`, verified or not.

        Returns the length of the path that came true.
        """
        depths = {-1: 0}
        for node, (token, parent) in enumerate(zip(self.tokens, self.parents, strict=True)):
            depth = depths.get(parent, len(emitted))
            if depth < len(emitted):
                right = token == emitted[depth]
                rates.observe(self.situations[node], right)
                if right:
                    depths[node] = depth + 1
        return max(depths.values())


def grow(root: S, children: Callable[[S, list[int]], Sequence[Child[S]]], plan: Plan) -> Draft:
    """The likeliest nodes within the plan; of equals the one found first.

    children(state, path): different tokens that may follow the node at the end of `path` (the tokens from the root's
    child to it), the likeliest first.
    """
    draft = Draft()
    if plan.max_nodes <= 0 or plan.max_leaves <= 0:
        return draft
    floor = max(HOPELESS, plan.min_survival)
    heap: list[tuple[float, int, int, int, int, S, list[int]]] = []
    inner: set[int] = set()
    n_children = 1 if plan.max_leaves == 1 else _MAX_CHILDREN
    n_leaves = n_found = 0
    node, survival, state, path = -1, 1.0, root, list[int]()
    while True:
        for chance, token, situation, below in children(state, path)[:n_children]:
            if survival * chance < floor:
                break
            heappush(heap, (-survival * chance, n_found, node, token, situation, below, path))
            n_found += 1
        while heap:
            negative, _, parent, token, situation, state, path = heappop(heap)
            # The first child takes over its parent's leaf; at the root, and for every later child, a leaf is added.
            added = 0 if parent >= 0 and parent not in inner else 1
            if n_leaves + added <= plan.max_leaves:
                break
        else:
            return draft
        n_leaves += added
        inner.add(parent)
        survival = -negative
        node = draft.add(token, parent, survival, situation)
        if node + 1 == plan.max_nodes:
            return draft
        path = [*path, token]
