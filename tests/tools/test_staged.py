from __future__ import annotations

import numpy as np
import pytest

from edgespec.errors import StaleRows
from edgespec.spec.ports import Commit, FloatArray, Plan
from edgespec.spec.tree import check_tree, leaves
from tools.staged import CASES, Case, StagedDrafter


class NoRows:
    def logits(self, row: int) -> FloatArray:
        raise StaleRows(f"row {row} was asked for")


DRAFTED = [case for case in CASES if case.parents]


@pytest.mark.parametrize("case", DRAFTED, ids=lambda case: case.name)
def test_true_lines_lead_from_the_root(case: Case) -> None:
    for line in case.true_lines:
        assert [case.parents[node] for node in line] == [-1, *line[:-1]][: len(line)]


@pytest.mark.parametrize("case", DRAFTED, ids=lambda case: case.name)
def test_drafts_have_the_shape_and_carry_the_truth(case: Case) -> None:
    truth = list(range(1000, 1400))
    drafter = StagedDrafter(case, truth, 49152)
    n_seen = 0
    for line in case.true_lines * 2:
        tree = drafter.propose(0, Plan(8, 4))
        check_tree(tree, 49152)
        assert len(tree) == 8
        assert len(leaves(tree)) == (4 if "tree" in case.name else 1)
        assert tree.tokens[list(line)].tolist() == truth[n_seen : n_seen + len(line)]
        assert not set(np.delete(tree.tokens, list(line)).tolist()) & set(truth)
        emitted = np.array(truth[n_seen : n_seen + len(line) + 1], np.int32)
        drafter.observe(0, Commit(np.array(line, np.int32), emitted), NoRows(), np.arange(8, dtype=np.int32))
        n_seen += len(emitted)
