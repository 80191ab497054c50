from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.events import RoundReport
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.merging import merge
from edgespec.spec.policy import FixedPolicy, Offer, Policy, Proposed, node_room, through
from edgespec.spec.ports import Capabilities, Plan
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY, DraftTree, best_first, n_pinned, tree_of, unpinned
from tests.spec.random_trees import trees

ROOMY = Capabilities(n_ctx=100, n_vocab=4, max_rows=16, max_chunk=8, max_leaves=4, can_rollback=True)


def state_of(
    n_tokens: int = 10, n_pending: int = 1, widths: tuple[int, ...] = (), max_tokens: int = 50
) -> SequenceState:
    state = SequenceState.start(0, [1] * n_tokens, Law(SamplingSettings()), max_tokens, frozenset(), widths)
    state.pending = np.ones(n_pending, np.int32)
    return state


def offer_of(tree: DraftTree, plan: Plan) -> Offer:
    return Offer(state_of(), (Proposed("any", plan, tree, 0.0),))


@pytest.mark.parametrize(
    ("n_pending", "n_sequences", "room"),
    [(1, 1, 15), (3, 1, 13), (16, 1, 0), (17, 1, 0), (1, 2, 7), (1, 5, 2), (1, 16, 0), (1, 17, 0)],
)
def test_a_pass_holds_so_many_rows(n_pending: int, n_sequences: int, room: int) -> None:
    assert node_room(state_of(n_pending=n_pending), ROOMY, n_sequences) == room


@pytest.mark.parametrize(("n_tokens", "room"), [(84, 15), (85, 15), (86, 14), (99, 1), (100, 0)])
def test_a_context_holds_so_many_tokens(n_tokens: int, room: int) -> None:
    # All but the pending ones are in the cache, and these go first.
    assert node_room(state_of(n_tokens), ROOMY, 1) == room
    assert node_room(state_of(n_tokens, n_pending=2), ROOMY, 1) == min(14, room)


@pytest.mark.parametrize(
    ("widths", "n_pending", "room"),
    [
        ((2, 4, 8), 1, 7),
        ((2, 4, 8), 8, 0),
        ((4,), 1, 3),
        ((1,), 1, 0),
        ((2, 16), 1, 15),
        ((2, 32), 1, 1),
        ((32,), 1, 0),
    ],
)
def test_an_exact_request_stays_inside_its_class(widths: tuple[int, ...], n_pending: int, room: int) -> None:
    # Widths beyond the pass (16 rows) are of no use.
    assert node_room(state_of(n_pending=n_pending, widths=widths), ROOMY, 1) == room


def test_without_rollback_there_is_no_room() -> None:
    assert node_room(state_of(), replace(ROOMY, can_rollback=False), 1) == 0


def test_the_fixed_policy_asks_for_what_it_is_told_to() -> None:
    policy: Policy = FixedPolicy(max_nodes=6, max_leaves=3)
    assert policy.plan(state_of(), "any", ROOMY, 1) == Plan(6, 3)
    assert policy.plan(state_of(n_tokens=98), "any", ROOMY, 1) == Plan(2, 3)
    assert policy.plan(state_of(n_pending=16), "any", ROOMY, 1).max_nodes == 0


def test_nothing_is_asked_for_that_lies_past_the_token_limit() -> None:
    # A chain of k nodes makes k + 1 tokens.
    for max_tokens in (1, 2, 5):
        assert (
            FixedPolicy(max_nodes=9).plan(state_of(max_tokens=max_tokens), "any", ROOMY, 1).max_nodes == max_tokens - 1
        )
    assert FixedPolicy(max_nodes=9, max_leaves=2).plan(state_of(max_tokens=3), "any", ROOMY, 1) == Plan(4, 2)


def test_a_tree_has_no_more_leaves_than_the_target_can_hold() -> None:
    assert FixedPolicy(max_nodes=9, max_leaves=8).plan(state_of(), "any", ROOMY, 2) == Plan(7, 4)


def test_an_exact_request_is_asked_for_one_branch() -> None:
    assert FixedPolicy(max_nodes=9, max_leaves=4).plan(state_of(widths=(2, 8)), "any", ROOMY, 1) == Plan(7, 1)


@given(trees(), st.integers(0, 8), st.integers(1, 4))
def test_it_selects_the_likeliest(tree: DraftTree, max_nodes: int, max_leaves: int) -> None:
    chosen = FixedPolicy().select([offer_of(tree, Plan(max_nodes, max_leaves))], ROOMY)[0]
    merged, (in_merged,) = merge([tree])
    plain, plain_nodes = best_first(merged, max_nodes, max_leaves)
    if n_pinned(plain) < n_pinned(merged):
        bare, in_bare = unpinned(tree)
        merged, (bare_in_merged,) = merge([bare])
        in_merged = through(in_bare, bare_in_merged)
        plain, plain_nodes = best_first(merged, max_nodes, max_leaves)
    assert chosen.tree.tokens.tolist() == plain.tokens.tolist()
    assert chosen.nodes[0].tolist() == through(in_merged, plain_nodes).tolist()


def test_it_learns_nothing() -> None:
    policy, state = FixedPolicy(), state_of()
    before = policy.plan(state, "any", ROOMY, 1)
    policy.record([offer_of(EMPTY, before)], [RoundReport(4, 0, 3, 0, (1,), ("",), 0.0, 0.0, 0.0)], 0.0)
    assert policy.plan(state, "any", ROOMY, 1) == before


def test_the_fixed_policy_keeps_pinned_nodes_that_fit_and_else_what_others_guess() -> None:
    window = tree_of([1, 2, 3], [-1, 0, 1], [0.1, 0.1, 0.1], pinned=[True, True, True])
    guesses = tree_of([1, 3], [-1, 0], [0.9, 0.8])
    for max_nodes, kept, own in ((5, 4, [0, 1, 2]), (2, 2, [-1, -1, -1])):
        plan = Plan(max_nodes, 2)
        offer = Offer(state_of(), (Proposed("window", plan, window, 0.0), Proposed("any", plan, guesses, 0.0)))
        chosen = FixedPolicy(max_nodes, 2).select([offer], ROOMY)[0]
        assert len(chosen.tree) == kept
        assert (chosen.nodes[0] >= 0).tolist() == [node >= 0 for node in own]
        assert chosen.tree.tokens[chosen.nodes[1]].tolist() == [1, 3]
