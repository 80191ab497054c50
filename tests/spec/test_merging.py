from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.law import Sparse
from edgespec.spec.merging import merge
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, chain, check_tree, tree_of
from tests.spec.random_trees import N_VOCAB, Path, is_pinned, path, same, trees


def test_merging_nothing_gives_nothing() -> None:
    merged, maps = merge([EMPTY, EMPTY])
    assert same(merged, EMPTY)
    assert [m.tolist() for m in maps] == [[], []]
    assert merge([])[1] == []


@given(st.lists(trees(6), max_size=4))
def test_merge_is_the_union_of_the_paths(drafts: list[DraftTree]) -> None:
    merged, maps = merge(drafts)
    check_tree(merged, N_VOCAB)
    guesses: dict[Path, list[tuple[int, float]]] = {}
    for source, tree in enumerate(drafts):
        for node in range(len(tree)):
            guesses.setdefault(path(tree, node), []).append((source, float(tree.survival[node])))
    found = [path(merged, node) for node in range(len(merged))]
    assert sorted(found) == sorted(guesses)
    for node, guess in enumerate(found):
        assert merged.sources[node] == guesses[guess][0][0]
        assert merged.survival[node] == max(survival for _, survival in guesses[guess])
        owners = {source for source, _ in guesses[guess]}
        assert is_pinned(merged, node) == any(
            is_pinned(drafts[source], own)
            for source in owners
            for own in range(len(drafts[source]))
            if path(drafts[source], own) == guess
        )
    assert len(maps) == len(drafts)
    for tree, node_map in zip(drafts, maps, strict=True):
        assert node_map.dtype == np.int32
        assert [found[new] for new in node_map.tolist()] == [path(tree, node) for node in range(len(tree))]


@given(trees(siblings_differ=True), st.integers(0, 2))
def test_merging_one_tree_changes_nothing_but_its_source(tree: DraftTree, place: int) -> None:
    drafts = [EMPTY] * place + [tree, EMPTY]
    merged, maps = merge(drafts)
    assert same(merged, replace(tree, sources=np.full(len(tree), place, np.uint8)))
    assert maps[place].tolist() == list(range(len(tree)))


def test_merged_modes() -> None:
    point, coupled, sampled, repeated = (chain([1], [0.5], mode=mode) for mode in DraftMode)
    assert merge([point, coupled])[0].mode == merge([coupled, point])[0].mode == DraftMode.COUPLED
    assert merge([point, point])[0].mode == merge([point, EMPTY])[0].mode == DraftMode.POINT
    assert merge([EMPTY, sampled])[0].mode == DraftMode.SAMPLED
    assert merge([repeated])[0].mode == DraftMode.REPEATED
    for drawn_one in (sampled, repeated):
        with pytest.raises(ValueError, match="SAMPLED"):
            merge([point, drawn_one])


def test_merging_keeps_laws_and_twins_that_were_drawn() -> None:
    law = Sparse(np.array([1, 2, 3], np.int32), np.array([0.5, 0.25, 0.25]))
    fork = replace(tree_of([2, 1], [-1, -1], [0.5, 0.5], mode=DraftMode.SAMPLED), laws=(law, None, None))
    merged, maps = merge([EMPTY, fork])
    assert same(merged, replace(fork, sources=np.ones(2, np.uint8)))
    assert (merged.laws, merged.mode, maps[1].tolist()) == (fork.laws, DraftMode.SAMPLED, [0, 1])
    twins = replace(tree_of([2, 2], [-1, -1], [0.5, 0.5], mode=DraftMode.SAMPLED), laws=(law, None, None))
    assert merge([twins])[0].tokens.tolist() == [2, 2]
