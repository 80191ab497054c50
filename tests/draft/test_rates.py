from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft.rates import Rates


def test_nothing_seen_means_the_prior() -> None:
    assert Rates((0.3, 0.9)).values == [0.3, 0.9]


@settings(deadline=None)
@given(st.floats(0.01, 0.99), st.lists(st.booleans(), max_size=200))
def test_a_rate_never_reaches_zero_or_one(prior: float, seen: list[bool]) -> None:
    rates = Rates((prior,))
    for accepted in seen:
        rates.observe(0, accepted)
        assert 0.0 < rates.values[0] < 1.0


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=100))
def test_one_rate_leaves_the_others_alone(seen: list[bool]) -> None:
    rates = Rates((0.5, 0.25))
    for accepted in seen:
        rates.observe(0, accepted)
    assert rates.values[1] == 0.25


def test_the_value_is_the_discounted_share_pulled_to_the_prior() -> None:
    rates = Rates((0.5,))
    for accepted in (True, True, False):
        rates.observe(0, accepted)
    successes, count = 0.99**2 + 0.99, 0.99**2 + 0.99 + 1
    assert rates.values[0] == pytest.approx((successes + 4 * 0.5) / (count + 4), rel=1e-12)


@pytest.mark.parametrize("truth", [0.2, 0.8])
def test_many_observations_outweigh_the_prior_and_a_change_shows(truth: float) -> None:
    rates = Rates((0.5,))
    pattern = [i % 10 < truth * 10 for i in range(300)]
    for accepted in pattern:
        rates.observe(0, accepted)
    assert rates.values[0] == pytest.approx(truth, abs=0.05)
    for accepted in pattern:
        rates.observe(0, not accepted)
    assert rates.values[0] == pytest.approx(1 - truth, abs=0.06)
