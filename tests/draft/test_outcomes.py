"""Chances of what a pass may say, against a world in which rates and claims are true."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.draft.outcomes import DepthRates, Outcome, likely_outcomes
from edgespec.draft.sparse import Children

N_VOCAB = 4


class Fixed(DepthRates):
    """Rates that are known."""

    def __init__(self, rates: list[float]) -> None:
        super().__init__()
        self._fixed = rates

    def at(self, depth: int) -> float:
        return self._fixed[depth]


def row_of(weights: list[int]) -> Children:
    """What follows, best first, with claims that sum to 1."""
    order = sorted(range(N_VOCAB), key=lambda token: -weights[token])
    return Children(order, [weights[token] / sum(weights) for token in order])


weights = st.lists(st.integers(1, 9), min_size=N_VOCAB, max_size=N_VOCAB)


@given(st.lists(st.tuples(weights, st.integers(0, N_VOCAB - 1)), max_size=3), weights)
def test_chances_are_those_of_every_possible_text(draft: list[tuple[list[int], int]], last: list[int]) -> None:
    """Where claims are the truth and rates follow from them, P(i, z) is the chance of all texts that go that way."""
    rows = [row_of(one) for one, _ in draft] + [row_of(last)]
    tokens = [token for _, token in draft]
    claims = [dict(zip(row.tokens, row.claims, strict=True)) for row in rows]
    found = likely_outcomes(tokens, rows, Fixed([claims[i][token] for i, token in enumerate(tokens)]))
    expected: dict[tuple[int, int], float] = {}
    for text in product(range(N_VOCAB), repeat=len(rows)):
        n = next((i for i, token in enumerate(tokens) if text[i] != token), len(tokens))
        chance = 1.0
        for i, token in enumerate(text):
            chance *= claims[i][token]
        expected[n, text[n]] = expected.get((n, text[n]), 0.0) + chance
    assert {(one.n_accepted, one.token): one.chance for one in found} == pytest.approx(expected)
    assert [one.chance for one in found] == sorted((one.chance for one in found), reverse=True)


def test_rows_that_are_missing_name_no_outcome_and_a_certain_draft_stays_finite() -> None:
    rows = [Children([3, 1], [1.0, 0.0]), Children([], [])]
    assert likely_outcomes([3, 2], rows, Fixed([0.9, 0.9])) == [Outcome(0, 1, 0.0)]
    # A token that the drafter had not ranked was drafted by somebody else.
    assert likely_outcomes([0], rows[:1], Fixed([0.5])) == [Outcome(0, 3, 0.5), Outcome(0, 1, 0.0)]


def test_rates_are_learnt_by_depth_up_to_the_first_wrong_token() -> None:
    rates = DepthRates()
    before = [rates.at(depth) for depth in range(20)]
    for _ in range(200):
        rates.observe(1, 3)
    assert rates.at(0) > 0.95
    assert rates.at(1) < 0.05
    assert [rates.at(depth) for depth in range(2, 20)] == before[2:]
    assert rates.reach(0) == 1.0
    assert rates.reach(2) == pytest.approx(rates.at(0) * rates.at(1))
    rates.observe(40, 40)
    assert rates.at(15) == rates.at(30) > before[15]
