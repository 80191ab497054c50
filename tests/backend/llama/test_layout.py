"""How trees become sequence ids: llama.cpp's own rules, checked on random trees."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.llama.layout import check_path, n_in_line, n_leaves, node_ids
from edgespec.spec.tree import DraftTree, leaves
from tests.backend.llama.driving import ids, line, random_path, random_tree, tree

trees = st.builds(
    lambda seed, n, most: random_tree(random.Random(seed), n, most),
    st.integers(0, 10**6),
    st.integers(0, 20),
    st.integers(1, 8),
)


@given(trees, st.permutations(range(8)))
def test_every_path_keeps_one_id_from_root_to_leaf(draft: DraftTree, order: list[int]) -> None:
    """And no two paths the same; along a path the sets of ids only shrink; siblings share none."""
    parents: list[int] = draft.parents.tolist()
    carried = node_ids(parents, order)
    ends = [node for node in range(len(parents)) if node not in parents]
    assert [carried[node] for node in ends] == [[order[i]] for i in range(len(ends))]
    for node, parent in enumerate(parents):
        assert set(carried[node]) <= set(carried[parent] if parent >= 0 else order)
        assert len(set(carried[node])) == len(carried[node])
        for other in range(node):
            if parents[other] == parent:
                assert not set(carried[other]) & set(carried[node])


def test_a_principal_branch_listed_first_keeps_the_first_id() -> None:
    carried = node_ids([-1, 0, 1, 0, -1], [5, 6, 7])
    assert all(5 in carried[node] for node in (0, 1, 2))
    assert carried[3:] == [[6], [7]]


@given(trees)
def test_leaves_are_counted(draft: DraftTree) -> None:
    assert n_leaves(draft.parents.tolist()) == len(leaves(draft))


@pytest.mark.parametrize(
    ("path", "n"), [([], 0), ([0], 1), ([1], 0), ([0, 1, 2], 3), ([0, 1, 3], 2), ([0, 2, 3], 1)], ids=str
)
def test_nodes_in_line_are_the_first_ones_of_the_batch(path: list[int], n: int) -> None:
    assert n_in_line(path) == n


@given(trees, st.integers(0, 10**6))
def test_a_path_of_the_tree_is_taken(draft: DraftTree, seed: int) -> None:
    path = random_path(random.Random(seed), draft)
    check_path(draft, path, ids([*draft.tokens[path].tolist(), 3]))


@pytest.mark.parametrize(
    ("path", "tokens"),
    [
        ([0], [10]),  # no bonus
        ([], [1, 2]),
        ([1], [11, 5]),  # not from the root
        ([0, 0], [10, 10, 5]),
        ([0, 1], [10, 12, 5]),  # another token
        ([3], [1, 5]),
        ([-1], [12, 5]),
    ],
    ids=str,
)
def test_anything_else_is_not(path: list[int], tokens: list[int]) -> None:
    with pytest.raises(ValueError, match="path"):
        check_path(line([10, 11, 12]), path, ids(tokens))


def test_a_side_branch_is_a_path() -> None:
    check_path(tree([1, 2, 3], [-1, -1, 1]), [1, 2], ids([2, 3, 9]))
