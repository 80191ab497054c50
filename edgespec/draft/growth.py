"""One proposal as it grows: run the likeliest guesses, add what follows them, until no further run is worth it.

A chain where one leaf is allowed or the draft knows no branches (then the next-ranked tokens of its rows hang beside
the chain as free leaves, never run), else a tree, level by level, the likeliest part of all candidates first. A SAMPLED
tree is one chain: several children by growth would be chosen for their tokens' sake. Knows no request and no commit.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

from edgespec.draft.sparse import SparseLaw
from edgespec.draft.trunk import Trunk
from edgespec.spec.law import Sparse
from edgespec.spec.ports import Plan
from edgespec.spec.step import Ranked
from edgespec.spec.taking import take
from edgespec.spec.tree import EMPTY, DraftTree, best_first, tree_of
from edgespec.spec.verify import Prefix

Clock = Callable[[], float]


class Deadline:
    """When to stop. Asked between two steps: no, once a step as long as the longest so far would end too late."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._last = clock()
        self._end = self._last + seconds
        self._longest = 0.0

    def go_on(self) -> bool:
        now = self._clock()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        return now + self._longest <= self._end


def grow(trunk: Trunk, law: SparseLaw, text: list[int], plan: Plan, stop_below: float, deadline: Deadline) -> DraftTree:
    """A tree behind `text` of nodes with a survival of at least `stop_below`.

    EMPTY where the text is empty or does not fit the draft's cells, or could not be read in time; in the last case the
    next call goes on from what was read. Raises EngineFailure if the network fails.
    """
    if min(plan.max_nodes, plan.max_leaves) <= 0 or not 1 <= len(text) <= trunk.limits.n_ctx:
        return EMPTY
    ranked = trunk.rank(text, deadline.go_on)
    if ranked is None:
        return EMPTY
    growth = _Growth(trunk, law, text, plan, stop_below)
    growth.add(ranked, [-1])
    while (nodes := growth.due()) and deadline.go_on():
        growth.add(growth.run(nodes), nodes)
    return growth.tree()


class _Growth:
    """Candidate nodes, parents before children; those that were run have a cell."""

    def __init__(self, trunk: Trunk, law: SparseLaw, text: list[int], plan: Plan, stop_below: float) -> None:
        self._trunk = trunk
        self._law = law
        self._text = text
        self._plan = plan
        self._stop_below = stop_below
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._survival: list[float] = []
        self._branches = trunk.limits.branches
        # Index -1 of these two belongs to the root and is kept last.
        self._cells: list[int] = [len(text) - 1]
        self._paths: list[list[int]] = [[]]
        self._laws: dict[int, Sparse] = {}
        # Without branches only the best child of the row that was run last can be run.
        self._tip = -1

    def add(self, ranked: Ranked, nodes: Seq[int]) -> None:
        """Make the next tokens of `nodes`, row by row, candidates."""
        n_children = 1 if self._law.mode.is_drawn else self._plan.max_leaves
        for row, node in enumerate(nodes):
            above = self._survival[node] if node >= 0 else 1.0
            path = self._paths[node]
            children = self._law.children(
                ranked.ids[row],
                ranked.logits[row],
                float(ranked.log_sums[row]),
                Prefix(self._text, path),
                n_children,
                self._stop_below / above,
            )
            if children.law is not None:
                self._laws[node] = children.law
            self._tip = len(self._tokens)
            for token, claim in zip(children.tokens, children.claims, strict=True):
                self._parents.append(node)
                self._tokens.append(token)
                self._survival.append(above * claim)
                self._cells.insert(-1, -1)
                self._paths.insert(-1, [*path, token])

    def due(self) -> list[int]:
        """The nodes to run next, one row each: the likeliest whose children could still find a place."""
        plan, limits = self._plan, self._trunk.limits
        taken = take(self._parents, self._survival, plan.max_nodes, plan.max_leaves)
        floor = min(self._survival[node] for node in taken) if len(taken) >= plan.max_nodes else 0.0
        waiting = [n for n in taken if self._cells[n] < 0 and self._survival[n] > floor]
        n_rows = min(limits.max_rows, self._trunk.room)
        if not self._branches:
            waiting = [n for n in waiting if n == self._tip]
        return sorted(sorted(waiting, key=lambda n: (-self._survival[n], n))[: max(0, n_rows)])

    def run(self, nodes: list[int]) -> Ranked:
        first = self._trunk.n_cells
        tokens, parents = [self._tokens[n] for n in nodes], [self._cells[self._parents[n]] for n in nodes]
        ranked = self._trunk.extend(tokens, parents)
        for cell, node in enumerate(nodes, first):
            self._cells[node] = cell
        return ranked

    def tree(self) -> DraftTree:
        n = len(self._tokens)
        if not n:
            return EMPTY
        grown = tree_of(self._tokens, self._parents, self._survival, mode=self._law.mode)
        if self._laws:
            laws = tuple(self._laws.get(node) for node in range(-1, n))
            return DraftTree(grown.tokens, grown.parents, grown.survival, grown.sources, grown.mode, laws)
        return best_first(grown, self._plan.max_nodes, self._plan.max_leaves)[0]
