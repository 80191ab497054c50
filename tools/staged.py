"""Drafts of fixed shape whose rightness is chosen beforehand, to measure rounds with. Knows no model and no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows
from edgespec.spec.tree import EMPTY, DraftTree

SEED = 20250

GREEDY = SamplingSettings()
WARM = SamplingSettings(temperature=0.8, top_p=0.95, seed=SEED)


@dataclass(frozen=True, slots=True)
class Case:
    """parents: the shape of every draft. true_lines: paths of nodes that carry the true continuation, used in turn.
    asked: whether anybody is asked for guesses.
    """

    name: str
    sampling: SamplingSettings
    parents: tuple[int, ...] = ()
    true_lines: tuple[tuple[int, ...], ...] = ((),)
    asked: bool = True


# Eight nodes, four leaves: a branch of four, one of two, and two forks on the first branch.
TREE = (-1, 0, 1, 2, -1, 4, 0, 1)
TREE_LINES = ((0, 1, 2, 3), (4, 5), (0, 6), (), (0, 1, 7), (4,), (0, 1))
CHAIN = tuple(range(-1, 7))
CHAIN_LINES = (tuple(range(8)), (0, 1), (), (0, 1))

CASES = (
    Case("drafting off, greedy", GREEDY, asked=False),
    Case("plain, greedy", GREEDY),
    Case("plain, temperature 0.8, top-p 0.95", WARM),
    Case("chain of 8, greedy", GREEDY, CHAIN, CHAIN_LINES),
    Case("tree of 8 with 4 leaves, greedy", GREEDY, TREE, TREE_LINES),
    Case("tree of 8 with 4 leaves, temperature 0.8, top-p 0.95", WARM, TREE, TREE_LINES),
)


class StagedDrafter:
    """Drafts of one shape; `truth` is what the answer will say, as far as it is known."""

    name = "staged"
    needs = Needs.TOKENS

    def __init__(self, case: Case, truth: Sequence[int], n_vocab: int) -> None:
        self._case = case
        self._truth = truth
        self._n_seen = 0
        self._n_rounds = 0
        n = len(case.parents)
        # The same for every draft: the stage itself should cost little. No child is likelier than its parent.
        self._parents = np.array(case.parents, np.int32)
        self._survival = np.array([0.9 ** (1 + node) for node in range(n)], np.float32)
        self._sources = np.zeros(n, np.uint8)
        self._wrong = [(7919 * node + 11) % n_vocab for node in range(n)]

    def begin(self, sequence: int, prompt: IntArray) -> None:
        """Nothing to read."""

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        if not self._case.parents:
            return EMPTY
        line = self._case.true_lines[self._n_rounds % len(self._case.true_lines)]
        self._n_rounds += 1
        tokens = list(self._wrong)
        for node, token in zip(line, self._truth[self._n_seen : self._n_seen + len(line)], strict=False):
            tokens[node] = token
        return DraftTree(np.array(tokens, np.int32), self._parents, self._survival, self._sources)

    def behind(self, sequence: int) -> int:
        return 0

    def anticipate(self, sequence: int, tree: DraftTree) -> None:
        """Nothing to prepare."""

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._n_seen += len(commit.tokens)

    def end(self, sequence: int) -> None:
        """Nothing to forget."""
