"""One drafter made of several: their trees laid over each other under one budget, each prefix once.

Contract: `MixDrafter` is a drafter like any other. Each part is asked with the whole budget, the merged tree is cut
to it by survival, and each part hears of its own nodes in `observe`, also of those that were cut. The parts'
survivals must be calibrated, since they compete with each other. An error of a part is the mix's own.

The round loop merges several drafters as well (`spec.policy`), and there each has a plan, an acceptance profile and a
price of its own: that is right for drafters that differ in cost or in how far they can be trusted, and it is what a
list of `--draft` names becomes. A mix is for places that take one drafter: the inner drafter of a cascade, what a
pipeline falls back to, a part shared by a guard. It also costs one profile's bookkeeping instead of one per part, and
one belief for all: a part that fails drags the others along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

import numpy as np

from edgespec.spec.merging import merge
from edgespec.spec.policy import Selection, cut, through
from edgespec.spec.ports import Commit, Drafter, IntArray, Plan, Rows, SequenceId
from edgespec.spec.tree import DraftMode, DraftTree


class MixDrafter:
    """`parts`: at least one drafter; of equals the earlier one owns a node. A SAMPLED tree is used alone and uncut."""

    def __init__(self, parts: Sequence[Drafter], name: str = "mix") -> None:
        if not parts:
            raise ValueError("a mix needs at least one drafter")
        self.name = name
        self.needs = reduce(or_, (part.needs for part in parts))
        self._parts = tuple(parts)
        self._nodes: dict[SequenceId, tuple[IntArray, ...]] = {}

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        self._nodes.pop(sequence, None)
        for part in self._parts:
            part.begin(sequence, prompt)

    def behind(self, sequence: SequenceId) -> int:
        """What the slowest part must read."""
        return max(part.behind(sequence) for part in self._parts)

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        """The likeliest part of all their trees. The deadline is shared out evenly, since they work in turn."""
        share = plan
        if len(self._parts) > 1 and plan.deadline_seconds < float("inf"):
            share = replace(plan, deadline_seconds=plan.deadline_seconds / len(self._parts))
        chosen = _chosen([part.propose(sequence, share) for part in self._parts], plan)
        self._nodes[sequence] = chosen.nodes
        return chosen.tree

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        for part in self._parts:
            part.anticipate(sequence, tree)

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Tell each part where its own nodes went: through the mix into the verified tree."""
        own = self._nodes.pop(sequence, None)
        for place, part in enumerate(self._parts):
            part.observe(sequence, commit, rows, nodes if own is None else through(own[place], nodes))

    def end(self, sequence: SequenceId) -> None:
        self._nodes.pop(sequence, None)
        for part in self._parts:
            part.end(sequence)


def _chosen(trees: Sequence[DraftTree], plan: Plan) -> Selection:
    drawn = next((place for place, tree in enumerate(trees) if len(tree) and tree.mode is DraftMode.SAMPLED), None)
    if drawn is not None:
        # No verifier can treat it beside others, nor with nodes cut; what the others guessed counts as cut.
        nodes = [np.arange(len(t)) if place == drawn else np.full(len(t), -1) for place, t in enumerate(trees)]
        chosen = Selection(trees[drawn], tuple(one.astype(np.int32) for one in nodes))
    else:
        chosen = cut(*merge(trees), plan.max_nodes, plan.max_leaves)
    if not len(chosen.tree):
        return chosen
    return replace(chosen, tree=replace(chosen.tree, sources=np.zeros(len(chosen.tree), np.uint8)))
