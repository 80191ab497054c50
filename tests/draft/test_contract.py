"""What every draft-free drafter keeps in any run of rounds: its index is the committed text, its trees fit the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft.given import GivenDrafter
from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.events import Notice
from edgespec.spec.ports import Drafter, Needs, Plan
from edgespec.spec.tree import EMPTY, DraftTree, check_tree, leaves, tree_of
from tests.draft.fake import NoRows, joined, prompt_of, walk

N_VOCAB = 6


def next_token(salt: int, text: Sequence[int]) -> int:
    """The target: mostly decided by the last two tokens, so that it repeats itself, now and then by the position."""
    position = len(text)
    key = (salt, *text[-2:]) if position % 7 else (salt, position)
    return hash(key) % N_VOCAB


def truth_of(salt: int, prompt: Sequence[int], n: int) -> list[int]:
    text = list(prompt)
    for _ in range(n):
        text.append(next_token(salt, text))
    return text[len(prompt) :]


@dataclass(frozen=True)
class Round:
    """One round: whether the drafter is asked, for what, and how much room another drafter's guesses leave it."""

    asked: bool
    plan: Plan
    foreign: DraftTree
    max_nodes: int
    max_leaves: int
    limit: int


def random_tree(choices: list[tuple[int, int, float]]) -> DraftTree:
    tokens: list[int] = []
    parents: list[int] = []
    survival: list[float] = []
    for i, (token, up, share) in enumerate(choices):
        parent = i - 1 - up if up <= i - 1 else -1
        tokens.append(token)
        parents.append(parent)
        survival.append(share * (survival[parent] if parent >= 0 else 1.0))
    return tree_of(tokens, parents, survival)


foreign_trees = st.lists(st.tuples(st.integers(0, N_VOCAB - 1), st.integers(0, 3), st.floats(0, 1)), max_size=6).map(
    random_tree
)
rounds = st.builds(
    Round,
    asked=st.booleans(),
    plan=st.builds(Plan, st.integers(0, 16), st.integers(1, 4)),
    foreign=foreign_trees,
    max_nodes=st.integers(0, 20),
    max_leaves=st.integers(1, 5),
    limit=st.integers(1, 20),
)


class Follower:
    """One drafter, and the committed text it ought to know."""

    def __init__(self, drafter: Drafter, indexed: Callable[[int], tuple[int, ...]], counts_prompt: bool) -> None:
        self.drafter = drafter
        self._indexed = indexed
        self._counts_prompt = counts_prompt
        self._texts: dict[int, tuple[list[int], int]] = {}

    def begin(self, sequence: int, prompt: Sequence[int]) -> None:
        self.drafter.begin(sequence, prompt_of(prompt))
        self._texts[sequence] = (list(prompt), len(prompt))

    def round(self, sequence: int, one: Round, salt: int) -> None:
        text, n_prompt = self._texts[sequence]
        own = self._propose(sequence, one)
        shared, nodes = joined(own, one.foreign, one.max_nodes, one.max_leaves)
        self.drafter.anticipate(sequence, shared)
        commit = walk(shared, truth_of(salt, text, one.limit))
        self.drafter.observe(sequence, commit, NoRows(), nodes)
        text += commit.tokens.tolist()
        assert self._indexed(sequence) == tuple(text if self._counts_prompt else text[n_prompt:])

    def _propose(self, sequence: int, one: Round) -> DraftTree:
        if not one.asked:
            return EMPTY
        tree = self.drafter.propose(sequence, one.plan)
        check_tree(tree, N_VOCAB)
        assert len(tree) <= one.plan.max_nodes
        assert len(leaves(tree)) <= one.plan.max_leaves
        places = set(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True))
        assert len(places) == len(tree), "two siblings carry the same token"
        return tree


def lookup(_: Sequence[int]) -> Follower:
    drafter = LookupDrafter()
    return Follower(drafter, drafter.indexed, counts_prompt=True)


def eager_lookup(_: Sequence[int]) -> Follower:
    drafter = LookupDrafter(min_match=1)
    return Follower(drafter, drafter.indexed, counts_prompt=True)


def given_text(tokens: Sequence[int]) -> Follower:
    drafter = GivenDrafter(tokens)
    return Follower(drafter, drafter.output, counts_prompt=False)


def guarded(_: Sequence[int]) -> Follower:
    drafter = LookupDrafter()
    return Follower(GuardedDrafter(drafter, N_VOCAB, lambda: 0.0, complain), drafter.indexed, counts_prompt=True)


def complain(notice: Notice) -> None:
    raise AssertionError(notice.message)


KINDS = [lookup, eager_lookup, given_text, guarded]
prompts = st.lists(st.integers(0, N_VOCAB - 1), max_size=30)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
@settings(deadline=None)
@given(prompts, st.lists(st.tuples(rounds, st.integers(0, 1)), max_size=15), st.integers(0, 50), st.data())
def test_the_index_is_the_committed_text_and_every_tree_fits(
    kind: Callable[[Sequence[int]], Follower],
    prompt: list[int],
    played: list[tuple[Round, int]],
    salt: int,
    data: st.DataObject,
) -> None:
    """Two sequences in turn, rounds the drafter is not asked in, trees shared with and cut for another drafter."""
    predicted = truth_of(salt, prompt, 40)
    for _ in range(data.draw(st.integers(0, 3))):
        predicted[data.draw(st.integers(0, 39))] = data.draw(st.integers(0, N_VOCAB - 1))
    follower = kind(predicted)
    for sequence in (0, 1):
        follower.begin(sequence, prompt[sequence:])
    for one, sequence in played:
        follower.round(sequence, one, salt)
    follower.begin(0, prompt)
    for sequence in (0, 0, 1):
        follower.drafter.end(sequence)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
@settings(deadline=None)
@given(prompts, st.integers(0, 50), st.integers(1, 16))
def test_drafts_are_the_same_when_asked_again(
    kind: Callable[[Sequence[int]], Follower], prompt: list[int], salt: int, max_nodes: int
) -> None:
    drafter = kind(truth_of(salt, prompt, 40)).drafter
    drafter.begin(0, prompt_of([*prompt, *prompt]))
    first, second = (drafter.propose(0, Plan(max_nodes, 2)) for _ in range(2))
    for ours, again in (
        (first.tokens, second.tokens),
        (first.parents, second.parents),
        (first.survival, second.survival),
    ):
        np.testing.assert_array_equal(ours, again)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_only_tokens_are_needed(kind: Callable[[Sequence[int]], Follower]) -> None:
    assert kind([1]).drafter.needs == Needs.TOKENS
