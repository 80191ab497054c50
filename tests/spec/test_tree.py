from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.law import Sparse
from edgespec.spec.tree import (
    EMPTY,
    DraftMode,
    DraftTree,
    IntArray,
    best_first,
    chain,
    check_tree,
    child_table,
    depths,
    is_chain,
    leaves,
    n_pinned,
    prune,
    through,
    tree_of,
    unpinned,
)
from tests.spec.random_trees import N_VOCAB, is_pinned, line, path, same, trees


def is_part(part: DraftTree, node_map: IntArray, whole: DraftTree, kept: Seq[int]) -> None:
    """`part` holds exactly the nodes `kept` of `whole`, hanging as they did, and the map says where they went."""
    check_tree(part, N_VOCAB)
    assert part.mode == whole.mode
    assert node_map.dtype == np.int32
    assert np.flatnonzero(node_map >= 0).tolist() == sorted(kept)
    assert sorted(node_map[list(kept)].tolist()) == list(range(len(part)))
    for old in kept:
        new = int(node_map[old])
        assert path(part, new) == path(whole, old)
        assert [int(node_map[n]) for n in line(whole, old)] == line(part, new)
        assert (part.survival[new], part.sources[new]) == (whole.survival[old], whole.sources[old])
        assert is_pinned(part, new) == is_pinned(whole, old)


def within(tree: DraftTree, nodes: Seq[int], max_nodes: int, max_leaves: int) -> bool:
    tips = [node for node in nodes if node not in tree.parents[list(nodes)]]
    return len(nodes) <= max_nodes and len(tips) <= max_leaves


def below_pins(tree: DraftTree) -> list[bool]:
    return [any(is_pinned(tree, n) for n in line(tree, node)) for node in range(len(tree))]


def plain_best(tree: DraftTree, max_nodes: int, max_leaves: int) -> list[int]:
    """Greedy by definition: again and again the likeliest node, if the set with it is a tree within both limits."""
    taken = [node for node in range(len(tree)) if is_pinned(tree, node)]
    if not within(tree, taken, max_nodes, max_leaves):
        taken = []
        tree = replace(tree, survival=np.where(below_pins(tree), np.float32(-1), tree.survival))
    for node in sorted(
        (n for n in range(len(tree)) if n not in taken and tree.survival[n] >= 0), key=lambda n: (-tree.survival[n], n)
    ):
        if set(line(tree, node)) <= {*taken, node} and within(tree, [*taken, node], max_nodes, max_leaves):
            taken = [*taken, node]
    return taken


def plain_principal(tree: DraftTree, taken: Seq[int]) -> list[int]:
    branch = [-1]
    while below := [node for node in sorted(taken) if tree.parents[node] == branch[-1]]:
        branch.append(max(below, key=lambda node: (tree.survival[node], -node)))
    return branch[1:]


def test_a_chain_hangs_each_token_from_the_one_before() -> None:
    tree = chain([7, 8, 9], [0.9, 0.5, 0.1], source=3, mode=DraftMode.COUPLED)
    check_tree(tree, 10)
    assert same(tree, tree_of([7, 8, 9], [-1, 0, 1], [0.9, 0.5, 0.1], [3, 3, 3]))
    assert tree.mode == DraftMode.COUPLED
    assert same(chain(np.array([7], np.int64), np.array([0.9])), tree_of([7], [-1], [0.9]))


def test_empty_trees() -> None:
    check_tree(EMPTY, 1)
    assert len(EMPTY) == len(depths(EMPTY)) == len(leaves(EMPTY)) == len(child_table(EMPTY)) == 0
    assert is_chain(EMPTY)
    assert same(chain([], []), EMPTY)
    for small in (prune(EMPTY, np.zeros(0, bool)), best_first(EMPTY, 3, 3)):
        assert same(small[0], EMPTY)
        assert small[1].dtype == np.int32
        assert len(small[1]) == 0


@given(trees())
def test_shape_questions_agree_with_paths(tree: DraftTree) -> None:
    check_tree(tree, N_VOCAB)
    assert depths(tree).tolist() == [len(path(tree, node)) for node in range(len(tree))]
    assert depths(tree).dtype == leaves(tree).dtype == np.int32
    assert leaves(tree).tolist() == [node for node in range(len(tree)) if node not in tree.parents]
    assert is_chain(tree) == all(line(tree, node) == list(range(node + 1)) for node in range(len(tree)))


@given(trees())
def test_the_child_table_names_the_first_of_equal_siblings(tree: DraftTree) -> None:
    table = child_table(tree)
    for parent in range(-1, len(tree)):
        for token in range(N_VOCAB):
            found = np.flatnonzero((tree.parents == parent) & (tree.tokens == token)).tolist()
            assert table.get((parent, token)) == (found[0] if found else None)


@given(trees(), st.lists(st.booleans(), min_size=10, max_size=10))
def test_prune_keeps_what_hangs_together(tree: DraftTree, wanted: list[bool]) -> None:
    all_pins = all(keep or not is_pinned(tree, node) for node, keep in zip(range(len(tree)), wanted, strict=False))
    kept = [
        node
        for node in range(len(tree))
        if all(wanted[n] and (all_pins or not is_pinned(tree, n)) for n in line(tree, node))
    ]
    part, node_map = prune(tree, np.array(wanted[: len(tree)], dtype=bool))
    is_part(part, node_map, tree, kept)
    assert node_map[kept].tolist() == list(range(len(kept)))


@given(trees(), st.integers(0, 11), st.integers(0, 4))
def test_best_first_agrees_with_its_definition(tree: DraftTree, max_nodes: int, max_leaves: int) -> None:
    part, node_map = best_first(tree, max_nodes, max_leaves)
    taken = plain_best(tree, max_nodes, max_leaves)
    is_part(part, node_map, tree, taken)
    principal = plain_principal(tree, taken)
    order = principal + [node for node in sorted(taken) if node not in principal]
    assert node_map[order].tolist() == list(range(len(part)))


def test_best_first_by_hand() -> None:
    tree = tree_of([1, 2, 3, 0, 1], [-1, -1, 1, 0, 2], [0.4, 0.5, 0.5, 0.3, 0.45])
    whole, node_map = best_first(tree, 9, 9)
    assert whole.tokens.tolist() == [2, 3, 1, 1, 0]
    assert node_map.tolist() == [3, 0, 1, 4, 2]
    assert best_first(tree, 9, 1)[0].tokens.tolist() == [2, 3, 1]
    assert best_first(tree, 4, 2)[0].tokens.tolist() == [2, 3, 1, 1]


def drawn(ids: Seq[int], p: Seq[float]) -> Sparse:
    return Sparse(np.array(ids, np.int32), np.array(p, np.float64))


def sampled(tokens: Seq[int], parents: Seq[int], laws: Seq[Sparse | None]) -> DraftTree:
    return replace(tree_of(tokens, parents, [0.5] * len(tokens), mode=DraftMode.SAMPLED), laws=tuple(laws))


LAW, ROOT_LAW = drawn([0, 2], [0.25, 0.75]), drawn([1, 2, 3], [0.5, 0.25, 0.25])
FORK = sampled([2, 1, 0], [-1, -1, 0], [ROOT_LAW, LAW, None, None])


@pytest.mark.parametrize("fits", [True, False])
def test_a_tree_with_laws_is_kept_or_dropped_as_a_whole(fits: bool) -> None:
    check_tree(FORK, N_VOCAB)
    mask = np.array([True, fits, True])
    for part, node_map in (prune(FORK, mask), best_first(FORK, 3 if fits else 2, 2), best_first(FORK, 3, 1 + fits)):
        assert part.mode is DraftMode.SAMPLED
        assert node_map.dtype == np.int32
        if fits:
            assert part is FORK
            assert node_map.tolist() == [0, 1, 2]
        else:
            assert (len(part), part.laws, node_map.tolist()) == (0, (), [-1, -1, -1])


@pytest.mark.parametrize(
    ("laws", "message"),
    [
        ([ROOT_LAW, LAW, None], "needs 4 laws, not 3"),
        ([ROOT_LAW, None, None, None], "node 0 must have a law"),
        ([ROOT_LAW, LAW, LAW, None], "node 1 must have a law"),
        ([None, LAW, None, None], "node -1 must have a law"),
        ([drawn([2, 1], [0.5, 0.5]), LAW, None, None], "ascend"),
        ([drawn([1, 1, 2], [0.25, 0.25, 0.5]), LAW, None, None], "ascend"),
        ([drawn([1, 2], [0.5]), LAW, None, None], "one probability each"),
        ([drawn([1, 2], [0.5, 0.5 + 1e-8]), LAW, None, None], "sum to 1"),
        ([drawn([1, 2, 3], [0.5, 0.75, -0.25]), LAW, None, None], "negative"),
        ([drawn([1, 2], [0.5, np.nan]), LAW, None, None], "negative"),
        ([drawn([1, 3], [0.5, 0.5]), LAW, None, None], "cannot draw"),
        ([drawn([1, 2], [1.0, 0.0]), LAW, None, None], "cannot draw"),
    ],
)
def test_broken_laws_are_named(laws: list[Sparse | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_tree(replace(FORK, laws=tuple(laws)), N_VOCAB)


def test_only_sampled_trees_have_laws() -> None:
    with pytest.raises(ValueError, match="only a tree drawn from laws"):
        check_tree(replace(FORK, mode=DraftMode.COUPLED), N_VOCAB)
    check_tree(replace(FORK, laws=()), N_VOCAB)


def test_pinned_nodes_come_first_or_not_at_all() -> None:
    tree = tree_of(
        [1, 2, 3, 0, 1], [-1, -1, 1, 1, 0], [0.9, 0.1, 0.1, 0.05, 0.8], pinned=[False, True, True, False, False]
    )
    check_tree(tree, 4)
    assert n_pinned(tree) == 2
    assert best_first(tree, 3, 2)[0].tokens.tolist() == [1, 2, 3]
    assert best_first(tree, 2, 2)[0].tokens.tolist() == [2, 3]
    for left, node_map in (best_first(tree, 1, 2), best_first(tree, 1, 1), prune(tree, np.arange(5) < 2)):
        assert left.tokens.tolist() == [1]
        assert (n_pinned(left), len(left.pinned)) == (0, 0)
        assert node_map.tolist() == [0, -1, -1, -1, -1]
    rest, node_map = unpinned(tree)
    assert (rest.tokens.tolist(), node_map.tolist()) == ([1, 1], [0, -1, -1, -1, 1])
    assert through(node_map, np.array([5, 3], np.int32)).tolist() == [5, -1, -1, -1, 3]


def test_a_pinned_chain_is_not_cut_short() -> None:
    tree = replace(chain([1, 2, 3], [0.5, 0.5, 0.1]), pinned=np.array([True, True, False]))
    assert best_first(tree, 2, 1)[0].pinned.tolist() == [True, True]
    assert len(best_first(tree, 1, 1)[0]) == 0
    assert len(best_first(tree, 3, 0)[0]) == 0


def test_without_pins_all_trees_share_one_array() -> None:
    assert chain([1], [0.5]).pinned is EMPTY.pinned
    assert unpinned(GOOD)[0] is GOOD
    assert n_pinned(GOOD) == 0


GOOD = tree_of([0, 1, 2], [-1, 0, 0], [0.5, 0.5, 0.25])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (replace(GOOD, tokens=GOOD.tokens.astype(np.int64)), "tokens must be int32"),
        (replace(GOOD, parents=GOOD.parents[:2]), r"parents must be int32\[3\]"),
        (replace(GOOD, survival=GOOD.survival.astype(np.float64)), "survival must be float32"),
        (replace(GOOD, sources=GOOD.sources.reshape(3, 1)), "sources must be uint8"),
        (replace(GOOD, tokens=np.array([0, 1, 3], np.int32)), "token ids"),
        (replace(GOOD, tokens=np.array([0, -1, 2], np.int32)), "token ids"),
        (replace(GOOD, parents=np.array([-1, 1, 0], np.int32)), "parent"),
        (replace(GOOD, parents=np.array([-2, 0, 0], np.int32)), "parent"),
        (replace(GOOD, parents=np.array([-1, 2, 0], np.int32)), "parent"),
        (replace(GOOD, survival=np.array([0.5, 0.6, 0.2], np.float32)), "survival"),
        (replace(GOOD, survival=np.array([1.5, 0.5, 0.2], np.float32)), "survival"),
        (replace(GOOD, survival=np.array([0.5, 0.5, -0.1], np.float32)), "survival"),
        (replace(GOOD, survival=np.array([0.5, np.nan, 0.1], np.float32)), "survival"),
        (replace(GOOD, survival=np.array([np.inf, 0.5, 0.1], np.float32)), "survival"),
        (replace(GOOD, pinned=np.array([True, False])), r"pinned must be bool\[3\]"),
        (replace(GOOD, pinned=np.zeros(3, np.uint8)), "pinned must be bool"),
        (replace(GOOD, pinned=np.array([False, True, False])), "what a pinned node hangs from"),
    ],
)
def test_broken_promises_are_named(bad: DraftTree, message: str) -> None:
    check_tree(GOOD, 3)
    with pytest.raises(ValueError, match=message):
        check_tree(bad, 3)
