"""Proposals of several drafters and sequences as one ranking."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.acceptance import Acceptance
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.merging import merge
from edgespec.spec.policy import Offer, Proposed, Selection, cut
from edgespec.spec.ports import Plan
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import DraftTree, best_first, chain, n_pinned, through, unpinned
from edgespec.spec.weighed import Weighed, ranked, shares, weigh
from tests.spec.random_trees import trees


def offer(drafts: list[DraftTree], plan: Plan | None = None) -> Offer:
    state = SequenceState.start(0, [1, 2, 3], Law(SamplingSettings(temperature=0.0)), 100, frozenset())
    plan = plan or Plan(64, 8)
    return Offer(state, tuple(Proposed(f"d{i}", plan, tree, 0.0) for i, tree in enumerate(drafts)))


def chains() -> st.SearchStrategy[DraftTree]:
    return st.integers(0, 6).map(lambda n: chain(list(range(n)), [0.8 ** (i + 1) for i in range(n)]))


def same(one: Selection, other: Selection) -> bool:
    fields = ("tokens", "parents", "survival", "sources")
    trees_agree = all(np.array_equal(getattr(one.tree, f), getattr(other.tree, f)) for f in fields)
    return trees_agree and all(np.array_equal(a, b) for a, b in zip(one.nodes, other.nodes, strict=True))


@given(
    st.lists(chains() | trees(max_nodes=8, siblings_differ=True), max_size=3),
    st.integers(0, 12),
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_it_selects_what_calibrating_merging_and_cutting_would(
    drafts: list[DraftTree], n_nodes: int, max_nodes: int, max_leaves: int
) -> None:
    acceptance = Acceptance()
    weighed = weigh(offer(drafts, Plan(max_nodes, max_leaves)), acceptance)
    bare = [unpinned(tree) for tree in drafts]
    merged, nodes = merge([acceptance.calibrate(0, f"d{i}", i, tree, 3)[0] for i, (tree, _) in enumerate(bare)])
    nodes = [through(old, own) for (_, old), own in zip(bare, nodes, strict=True)]
    n = min(n_nodes, len(weighed.likely))
    assert same(weighed.select(n), cut(merged, nodes, n, max_leaves if drafts else 1))
    best, _ = best_first(merged, max_nodes, max_leaves)
    assert weighed.likely == sorted(best.survival.tolist(), reverse=True)
    assert len(weighed.select(n).tree) == n
    assert set(weighed.watches) == {f"d{i}" for i, (tree, _) in enumerate(bare) if len(tree)}
    assert (weighed.position, weighed.n_pinned) == (3, 0)


@given(st.lists(trees(max_nodes=8, siblings_differ=True), max_size=3), st.integers(1, 12), st.integers(1, 4))
def test_pinned_nodes_are_kept_on_demand_and_are_nothing_to_count_on(
    drafts: list[DraftTree], max_nodes: int, max_leaves: int
) -> None:
    acceptance = Acceptance()
    weighed = weigh(offer(drafts, Plan(max_nodes, max_leaves)), acceptance, keeps_pinned=True)
    merged, nodes = merge([acceptance.calibrate(0, f"d{i}", i, tree, 3)[0] for i, tree in enumerate(drafts)])
    best, _ = best_first(merged, max_nodes, max_leaves)
    assert weighed.n_pinned == n_pinned(best) in (0, n_pinned(merged))
    pinned = best.pinned if len(best.pinned) else np.zeros(len(best), np.bool_)
    assert weighed.likely == sorted(best.survival[~pinned].tolist(), reverse=True)
    for n in range(len(weighed.likely) + 1):
        chosen = weighed.select(n)
        assert same(chosen, cut(merged, nodes, weighed.n_pinned + n, max_leaves if drafts else 1))
        assert n_pinned(chosen.tree) == weighed.n_pinned


@given(st.lists(st.lists(st.sampled_from([0.9, 0.5, 0.5, 0.1]), max_size=5), min_size=1, max_size=4), st.data())
def test_shares_are_those_of_one_global_sort(survivals: list[list[float]], data: st.DataObject) -> None:
    weighed = [one_chain(sorted(values, reverse=True)) for values in survivals]
    order = sorted(
        ((survival, index) for index, one in enumerate(weighed) for survival in one.likely),
        key=lambda place: (-place[0], place[1]),
    )
    n = data.draw(st.integers(0, len(order)))
    assert ranked(weighed) == [survival for survival, _ in order]
    assert shares(weighed, n) == [sum(i == index for _, i in order[:n]) for index in range(len(weighed))]


def one_chain(survivals: list[float]) -> Weighed:
    tree = chain(list(range(len(survivals))), survivals)
    return Weighed(tree, (np.arange(len(tree), dtype=np.int32),), survivals, 1, {}, 3)
