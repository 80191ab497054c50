from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft.branch import Branch, grow
from edgespec.draft.rates import Rates
from edgespec.spec.ports import Plan
from edgespec.spec.tree import check_tree, child_table, leaves

PRIORS = (0.2, 0.5, 0.9)


def branch_of(tokens: list[int], situations: list[int]) -> Branch:
    n = min(len(tokens), len(situations))
    return Branch(tokens[:n], situations[:n])


branches = st.lists(
    st.builds(
        branch_of, st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, len(PRIORS) - 1), max_size=8)
    ),
    max_size=4,
)


@settings(deadline=None)
@given(branches, st.integers(0, 20), st.integers(0, 4))
def test_a_grown_tree_is_valid_within_the_plan_and_made_of_the_branches(
    candidates: list[Branch], max_nodes: int, max_leaves: int
) -> None:
    tree = grow(candidates, Rates(PRIORS), Plan(max_nodes, max_leaves))
    check_tree(tree, 4)
    assert len(tree) <= max_nodes
    assert len(leaves(tree)) <= max_leaves
    assert len(child_table(tree)) == len(tree), "two siblings carry the same token"
    prefixes = {tuple(b.tokens[:n]) for b in candidates for n in range(1, len(b.tokens) + 1)}
    paths: list[tuple[int, ...]] = []
    for parent, token in zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True):
        paths.append(((*paths[parent], token)) if parent >= 0 else (token,))
    assert set(paths) <= prefixes


@settings(deadline=None)
@given(branches, st.integers(0, 20))
def test_the_likeliest_nodes_are_taken(candidates: list[Branch], max_nodes: int) -> None:
    """Without shared prefixes the greedy shares sum to the best sum of survival that the budget can buy."""
    rates = Rates(PRIORS)
    distinct = [Branch([100 * i + t for t in b.tokens], b.situations) for i, b in enumerate(candidates)]
    tree = grow(distinct, rates, Plan(max_nodes, max_leaves=4))
    offers = sorted((s for b in distinct for s in b.survival(rates)), reverse=True)
    assert float(tree.survival.sum()) == pytest.approx(sum(offers[:max_nodes]), rel=1e-5)


def test_survival_is_the_product_of_the_rates() -> None:
    assert Branch([1, 2, 3], [1, 2, 0]).survival(Rates(PRIORS)) == pytest.approx([0.5, 0.45, 0.09])


def test_one_leaf_means_the_first_branch_alone() -> None:
    tree = grow([Branch([1, 2], [0, 0]), Branch([3], [2])], Rates(PRIORS), Plan(8, max_leaves=1))
    assert tree.tokens.tolist() == [1, 2]


def test_branches_share_a_prefix_and_stay_in_order() -> None:
    tree = grow([Branch([1, 2, 3], [2, 2, 2]), Branch([1, 5], [2, 2])], Rates(PRIORS), Plan(8, max_leaves=2))
    assert tree.tokens.tolist() == [1, 2, 3, 5]
    assert tree.parents.tolist() == [-1, 0, 1, 0]
    assert not tree.sources.any()


@pytest.mark.parametrize(
    ("emitted", "seen"),
    [
        ([1, 2, 3, 9], [(0, True), (1, True), (2, True)]),
        ([1, 2, 9], [(0, True), (1, True), (2, False)]),
        ([1, 2], [(0, True), (1, True)]),
        ([9], [(0, False)]),
        ([9, 2, 3], [(0, False)]),
    ],
)
def test_only_reached_tokens_are_counted(emitted: list[int], seen: list[tuple[int, bool]]) -> None:
    learned, expected = Rates(PRIORS), Rates(PRIORS)
    Branch([1, 2, 3], [0, 1, 2]).learn(learned, emitted)
    for situation, accepted in seen:
        expected.observe(situation, accepted)
    np.testing.assert_array_equal(learned.values, expected.values)
