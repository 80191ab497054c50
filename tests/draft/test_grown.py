from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft.grown import HOPELESS, Child, Draft, grow
from edgespec.draft.rates import Rates
from edgespec.spec.ports import Plan
from edgespec.spec.tree import EMPTY, check_tree, n_leaves

CHANCES = (0.9, 0.6, 0.3, 0.04)


def offered(salt: int, path: Sequence[int]) -> list[Child[int]]:
    """Up to four different tokens, decided by the path alone."""
    found = [(CHANCES[hash((salt, token, *path)) % 4], token, token, salt) for token in range(4)]
    kept = [child for child in found if hash((child[1], salt, *path)) % 3]
    return sorted(kept, key=lambda child: -child[0])


def all_nodes(salt: int, depth: int) -> dict[tuple[int, ...], float]:
    """The plain twin: every path with its survival, hopeless ones and what lies below them left out."""
    known: dict[tuple[int, ...], float] = {(): 1.0}
    paths: list[tuple[int, ...]] = [()]
    for path in paths:
        for chance, token, _, _ in offered(salt, path) if len(path) < depth else ():
            survival = known[path] * chance
            if survival >= HOPELESS:
                below = (*path, token)
                known[below] = survival
                paths.append(below)
    del known[()]
    return known


def paths_of(draft: Draft) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return paths


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 7))
def test_with_leaves_to_spare_it_takes_the_likeliest_nodes_of_all(salt: int, n: int) -> None:
    draft = grow(salt, offered, Plan(n, max_leaves=99))
    known = all_nodes(salt, depth=n)
    assert [known[path] for path in paths_of(draft)] == draft.survival
    assert draft.survival == sorted(known.values(), reverse=True)[:n]


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 12), st.integers(0, 4))
def test_every_draft_is_a_valid_tree_within_the_plan(salt: int, n: int, max_leaves: int) -> None:
    draft = grow(salt, offered, Plan(n, max_leaves))
    tree = draft.tree()
    check_tree(tree, 4)
    assert len(tree) <= n
    assert n_leaves(tree) <= max_leaves
    assert len(set(paths_of(draft))) == len(tree)
    assert draft.survival == sorted(draft.survival, reverse=True)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_one_leaf_follows_the_likeliest_child(salt: int, n: int) -> None:
    path: list[int] = []
    for token in grow(salt, offered, Plan(n)).tokens:
        assert token == offered(salt, path)[0][1]
        path.append(token)


def test_no_children_mean_no_draft() -> None:
    def none(_state: int, _path: list[int]) -> list[Child[int]]:
        return []

    assert grow(0, none, Plan(8)).tree() is EMPTY


def scored(draft: Draft, emitted: Sequence[int]) -> tuple[list[int], list[int], int]:
    """Situations that were observed, those that came true, and what `learn` returned."""
    rates = Rates([0.5] * len(draft.tokens))
    n_right = draft.learn(rates, emitted)
    right = [i for i, rate in enumerate(rates.values) if rate > 0.5]
    wrong = [i for i, rate in enumerate(rates.values) if rate < 0.5]
    return right, wrong, n_right


def tree_draft() -> Draft:
    """1 -> (2 -> 4, 3), and 5 beside 1."""
    draft = Draft()
    for situation, (token, parent) in enumerate([(1, -1), (2, 0), (3, 0), (4, 1), (5, -1)]):
        draft.add(token, parent, 0.5, situation)
    return draft


@pytest.mark.parametrize(
    ("emitted", "right", "wrong", "n_right"),
    [
        ([1, 2, 4], [0, 1, 3], [2, 4], 3),
        ([1, 2], [0, 1], [2, 4], 2),
        ([1, 3, 4], [0, 2], [1, 4], 2),
        ([5, 9], [4], [0], 1),
        ([9], [], [0, 4], 0),
        ([], [], [], 0),
    ],
)
def test_only_reached_nodes_are_scored(emitted: list[int], right: list[int], wrong: list[int], n_right: int) -> None:
    assert scored(tree_draft(), emitted) == (right, wrong, n_right)
