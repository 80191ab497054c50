"""Counts of two speeds and their isotonic calibration; what profiles do in whole is in the tests of acceptance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.profile import Profile, Rate, isotonic


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.1, 9.0)), min_size=1, max_size=9))
def test_isotonic_is_the_min_max_of_means(pairs: list[tuple[float, float]]) -> None:
    """The textbook form: the largest over starts i <= k of the smallest over ends j >= k of the mean over i..j."""
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]

    def mean(start: int, end: int) -> float:
        part = range(start, end + 1)
        return sum(values[i] * weights[i] for i in part) / sum(weights[i] for i in part)

    n = len(pairs)
    wanted = [max(min(mean(i, j) for j in range(k, n)) for i in range(k + 1)) for k in range(n)]
    assert isotonic(values, weights) == pytest.approx(wanted)


def test_a_change_is_noticed_long_before_the_slow_count_would() -> None:
    rate = Rate()
    for _ in range(200):
        rate.observe(True)
    for _ in range(6):
        rate.observe(False)
    slow = rate.successes / rate.n
    assert slow > 0.85
    assert rate.estimate(0.6) < 0.4


def test_few_observations_count_little_against_the_prior() -> None:
    rate = Rate()
    assert rate.estimate(0.7) == 0.7
    rate.observe(False)
    assert 0.5 < rate.estimate(0.7) < 0.7


def test_a_recalled_count_counts_little_and_keeps_its_share() -> None:
    rate = Rate()
    rate.recall(40.0, 50.0)
    assert rate.successes / rate.n == pytest.approx(0.8)
    assert rate.n < 10.0
    few = Rate()
    few.recall(1.0, 2.0)
    assert (few.successes, few.n) == (1.0, 2.0)


def test_a_recalled_profile_trusts_as_the_earlier_one_did_in_part() -> None:
    earlier, again = Profile(), Profile()
    for _ in range(100):
        earlier.observe(0, 0.95, False)
    again.recall(earlier.counts())
    assert earlier.trust < again.trust < 0.5 * Profile().trust
