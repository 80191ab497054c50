from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.taking import principal, take
from edgespec.spec.tree import DraftTree
from tests.spec.random_trees import line, trees


@given(trees(), st.integers(0, 11), st.integers(0, 4))
def test_what_is_taken_hangs_together_within_the_limits(tree: DraftTree, max_nodes: int, max_leaves: int) -> None:
    parents, survival = tree.parents.tolist(), tree.survival.tolist()
    taken = take(parents, survival, max_nodes, max_leaves)
    assert all(set(line(tree, node)) <= taken for node in taken)
    assert len(taken) <= max_nodes
    assert len(taken - {parents[node] for node in taken}) <= max_leaves
    branch = principal(parents, survival, taken)
    assert branch == (line(tree, branch[-1]) if branch else [])
    assert bool(branch) == bool(taken)


@given(trees(), st.integers(0, 11), st.integers(0, 4))
def test_what_is_wanted_is_taken_first(tree: DraftTree, max_nodes: int, max_leaves: int) -> None:
    parents, survival = tree.parents.tolist(), tree.survival.tolist()
    wanted = (
        set(line(tree, len(tree) - 1))
        if len(tree) and len(line(tree, len(tree) - 1)) <= max_nodes and max_leaves
        else set()
    )
    taken = take(parents, survival, max_nodes, max_leaves, wanted)
    assert wanted <= taken
    assert all(set(line(tree, node)) <= taken for node in taken)
    assert len(taken) <= max_nodes
    assert len(taken - {parents[node] for node in taken}) <= max_leaves


def test_by_hand() -> None:
    parents, survival = [-1, -1, 1, 0, 2], [0.4, 0.5, 0.5, 0.3, 0.45]
    assert take(parents, survival, 4, 2) == {0, 1, 2, 4}
    assert take(parents, survival, 9, 1) == {1, 2, 4}
    assert principal(parents, survival, {0, 1, 3}) == [1]
    assert principal(parents, survival, {0, 3}) == [0, 3]
