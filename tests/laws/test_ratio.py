"""The laws of all ratio verifiers, exactly, and what they accept on average; with controls that must fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from edgespec.spec.ratio import (
    BlockVerifier,
    RecursiveVerifier,
    RejectionVerifier,
    SiblingVerifier,
    SpecInferVerifier,
    TraversalVerifier,
)
from edgespec.spec.tree import DraftMode, DraftTree
from tests.laws.harness import Chance, Path, TokenLawOf, Vector, deviation, shapes
from tests.laws.ratio import MakeVerifier, drawn, expected_accepted, given, ratio_round, sparse
from tests.laws.test_enumeration import CAUGHT, EXACT, fits, labelled

CHAIN_VERIFIERS = (RejectionVerifier, BlockVerifier)
TREE_VERIFIERS = (RecursiveVerifier, TraversalVerifier)


def random_laws(n_vocab: int, seed: int, support: int) -> TokenLawOf:
    """A law after each text, over at most `support` tokens and at least 2; equal, one-hot-like and flat ones among
    them.
    """

    @cache
    def law(text: Path) -> Vector:
        rng = np.random.default_rng([seed, n_vocab, *text])
        p = np.zeros(n_vocab)
        chosen = rng.permutation(n_vocab)[:support]
        kind = rng.integers(4)
        weights = rng.dirichlet(np.ones(support))
        if kind == 0:
            weights = np.full(support, 1.0 / support)
        elif kind == 1:
            weights = np.array([1.0 - 0.01 * (support - 1), *[0.01] * (support - 1)])
        p[chosen] = weights
        return p / float(p.sum())

    return law


def one_hot_law(n_vocab: int, seed: int) -> TokenLawOf:
    def law(text: Path) -> Vector:
        p = np.zeros(n_vocab)
        p[np.random.default_rng([seed, *text]).integers(n_vocab)] = 1.0
        return p

    return law


def most_siblings(shape: list[int]) -> int:
    return max((shape.count(parent) for parent in shape), default=0)


@pytest.mark.parametrize("make", [RecursiveVerifier, TraversalVerifier])
@pytest.mark.parametrize("n_nodes", [0, 1, 2, 3, 4, 5, 6])
def test_drawn_trees_of_every_shape_are_exact(make: MakeVerifier, n_nodes: int) -> None:
    n_vocab = 3
    for seed, shape in enumerate(one for one in shapes(6, 3) if len(one) == n_nodes and most_siblings(one) <= n_vocab):
        support = 3 if n_nodes <= 3 or most_siblings(shape) == 3 else 2
        p, q = random_laws(n_vocab, seed, 3), random_laws(n_vocab, seed + 500, support)
        draft = drawn(shape, q, DraftMode.SAMPLED)
        assert deviation(ratio_round(make, draft, p), p, horizon=4 if n_nodes < 5 else 3) <= EXACT, shape


@pytest.mark.parametrize("make", [SiblingVerifier, RecursiveVerifier, TraversalVerifier])
@pytest.mark.parametrize("n_vocab", [3, 4, 5])
def test_chosen_trees_of_every_shape_are_exact(make: MakeVerifier, n_vocab: int) -> None:
    rng = np.random.default_rng(n_vocab)
    for seed, shape in enumerate(one for one in shapes(6, 3) if fits(one, n_vocab)):
        p = random_laws(n_vocab, seed, n_vocab)
        play = ratio_round(make, given(labelled(shape, n_vocab, rng)), p)
        assert deviation(play, p, horizon=4 if n_vocab < 5 else 3) <= EXACT, shape


@pytest.mark.parametrize("n_nodes", [0, 1, 2, 3, 4])
def test_independent_siblings_are_exact(n_nodes: int) -> None:
    for seed, shape in enumerate(one for one in shapes(4, 3) if len(one) == n_nodes):
        p, q = random_laws(3, seed, 3), random_laws(3, seed + 500, 3 if n_nodes < 4 else 2)
        play = ratio_round(SpecInferVerifier, drawn(shape, q, DraftMode.REPEATED), p)
        assert deviation(play, p, horizon=4) <= EXACT, shape


@pytest.mark.parametrize("n_nodes", [5, 6])
def test_many_independent_siblings_are_exact(n_nodes: int) -> None:
    for seed, shape in enumerate(one for one in shapes(6, 3) if len(one) == n_nodes):
        p, q = random_laws(3, seed, 3), random_laws(3, seed + 500, 2)
        play = ratio_round(SpecInferVerifier, drawn(shape, q, DraftMode.REPEATED), p)
        assert deviation(play, p, horizon=2) <= EXACT, shape


@pytest.mark.parametrize("make", [RejectionVerifier, BlockVerifier, RecursiveVerifier, TraversalVerifier])
@pytest.mark.parametrize("n_vocab", [3, 4, 5])
def test_chains_are_exact(make: MakeVerifier, n_vocab: int) -> None:
    for seed in range(8):
        p, q = random_laws(n_vocab, seed, n_vocab), random_laws(n_vocab, seed + 500, n_vocab - seed % 2)
        for laws in ((p, q), (p, p), (one_hot_law(n_vocab, seed), q), (p, one_hot_law(n_vocab, seed))):
            draft = drawn([-1, 0, 1][: 2 + (n_vocab == 3)], laws[1], DraftMode.SAMPLED)
            assert deviation(ratio_round(make, draft, laws[0]), laws[0], horizon=4) <= EXACT


@pytest.mark.parametrize("make", [RejectionVerifier, BlockVerifier, RecursiveVerifier, TraversalVerifier])
def test_limits_and_end_tokens_are_exact(make: MakeVerifier) -> None:
    for seed in range(6):
        p, q = random_laws(3, seed, 3), random_laws(3, seed + 500, 3)
        draft = drawn([-1, 0, 1], q, DraftMode.SAMPLED)
        play = ratio_round(make, draft, p, limit=1 + seed % 4, end=seed % 3)
        assert deviation(play, p, horizon=4, end=seed % 3) <= EXACT


def test_block_accepts_no_less_than_token_by_token_and_more_somewhere() -> None:
    gains = [_gain(BlockVerifier, RejectionVerifier, [-1, 0, 1], seed) for seed in range(40)]
    assert min(gains) >= -EXACT
    assert max(gains) > CAUGHT


def test_traversal_accepts_no_less_than_recursive_rejection_and_more_somewhere() -> None:
    gains = [
        _gain(TraversalVerifier, RecursiveVerifier, shape, seed)
        for seed, shape in enumerate([[-1, 0, 0], [-1, 0, -1, 2], [-1, 0, 1, 0, -1], [-1, 0, 1]] * 6)
    ]
    assert min(gains) >= -EXACT
    assert max(gains) > CAUGHT


def _gain(better: MakeVerifier, worse: MakeVerifier, shape: list[int], seed: int) -> float:
    p, q = random_laws(3, seed, 3), random_laws(3, seed + 500, 3)
    draft = drawn(shape, q, DraftMode.SAMPLED)
    return expected_accepted(better, draft, p) - expected_accepted(worse, draft, p)


def test_a_guessed_chain_is_accepted_alike_by_all() -> None:
    """With one draft path no verifier can beat the target's own chance of it."""
    rng = np.random.default_rng(4)
    for seed in range(10):
        p = random_laws(4, seed, 4)
        draft = given(labelled([-1, 0, 1], 4, rng))
        makes: list[MakeVerifier] = [RejectionVerifier, BlockVerifier, SiblingVerifier, TraversalVerifier]
        accepted = [expected_accepted(make, draft, p) for make in makes]
        assert accepted == pytest.approx([accepted[0]] * len(accepted), abs=EXACT)


# -- controls: what must not pass ---------------------------------------------------------------------------------


def soft(p: list[float]) -> TokenLawOf:
    return lambda _text: np.array(p)


def claiming(draft: Callable[[Chance], DraftTree], q: Vector) -> Callable[[Chance], DraftTree]:
    """The same draft, said to be drawn from q."""

    def told(chance: Chance) -> DraftTree:
        tree = draft(chance)
        return replace(tree, laws=tuple(None if law is None else sparse(q) for law in tree.laws))

    return told


P, Q = [0.5, 0.3, 0.2], [0.25, 0.45, 0.3]
# Where two tokens are left after a rejection, the second sibling counts.
P4, Q4 = [0.4, 0.3, 0.2, 0.1], [0.15, 0.2, 0.3, 0.35]


@pytest.mark.parametrize("make", [RejectionVerifier, BlockVerifier, RecursiveVerifier, TraversalVerifier])
def test_control_a_draw_from_a_truncated_law_that_claims_the_full_one_is_caught(make: MakeVerifier) -> None:
    truncated = np.array([0.0, 0.6, 0.4])
    draft = claiming(drawn([-1, 0], lambda _text: truncated, DraftMode.SAMPLED), np.array(Q))
    assert deviation(ratio_round(make, draft, soft(P)), soft(P), horizon=3) > CAUGHT


@pytest.mark.parametrize("make", [RecursiveVerifier, TraversalVerifier])
def test_control_independent_siblings_taken_for_others_are_caught(make: MakeVerifier) -> None:
    def draft(chance: Chance) -> DraftTree:
        tree = drawn([-1, -1], soft(Q4), DraftMode.REPEATED)(chance)
        return replace(tree, mode=DraftMode.SAMPLED)

    assert _law_is_off(make, draft)


def test_control_siblings_without_replacement_taken_for_independent_ones_are_caught() -> None:
    def draft(chance: Chance) -> DraftTree:
        tree = drawn([-1, -1], soft(Q4), DraftMode.SAMPLED)(chance)
        return replace(tree, mode=DraftMode.REPEATED)

    assert _law_is_off(SpecInferVerifier, draft)


def _law_is_off(make: MakeVerifier, draft: Callable[[Chance], DraftTree]) -> bool:
    """Also where p / q with q = 0 is met, which no draft that keeps its word can lead to."""
    with np.errstate(divide="ignore", invalid="ignore"):
        try:
            return deviation(ratio_round(make, draft, soft(P4)), soft(P4), horizon=2) > CAUGHT
        except IndexError:
            return True


@pytest.mark.parametrize("make", [*CHAIN_VERIFIERS, *TREE_VERIFIERS])
def test_control_a_token_dropped_after_its_draw_is_caught(make: MakeVerifier) -> None:
    def draft(chance: Chance) -> DraftTree:
        tree = drawn([-1], soft(Q), DraftMode.SAMPLED)(chance)
        return tree if Q[int(tree.tokens[0])] >= 0.28 else drawn([], soft(Q), DraftMode.SAMPLED)(chance)

    assert deviation(ratio_round(make, draft, soft(P)), soft(P), horizon=3) > CAUGHT
