"""A pass costs what the width that carries it was measured at, and what was not measured is not drafted at."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.cost import CostTable
from edgespec.spec.livecosts import LiveCosts
from edgespec.spec.predict import best_size
from edgespec.spec.prices import Prices, Pricing
from edgespec.spec.trials import ENOUGH, EVERY

TABLE = CostTable((0,), (1, 2, 4, 8), ((10.0, 14.0, 16.0, 20.0),))
INF = math.inf


def priced(table: CostTable = TABLE) -> Prices:
    return Prices(LiveCosts(table))


def test_fast_mode_drafts_at_measured_widths_only() -> None:
    pricing = priced().pricing(1, 1, 0, ())
    assert pricing.seconds == [10.0, 14.0, INF, 16.0, INF, INF, INF, 20.0]
    assert (pricing.plain_seconds, pricing.t1_seconds) == (10.0, 10.0)


def test_exact_mode_pays_for_the_padding_also_when_plain() -> None:
    pricing = priced().pricing(1, 1, 0, (2, 4, 8))
    assert pricing.seconds == [14.0, 14.0, 16.0, 16.0, 20.0, 20.0, 20.0, 20.0]
    assert pricing.plain_seconds == 14.0


def test_tokens_to_be_read_again_cost_rows() -> None:
    pricing = priced().pricing(1, 3, 0, (2, 4, 8))
    assert pricing.seconds == [16.0, 16.0, 20.0, 20.0, 20.0, 20.0]
    assert pricing.plain_seconds == 14.0


def test_widths_of_a_class_that_were_not_measured_are_left_out() -> None:
    assert priced().pricing(1, 1, 0, (3, 4, 16)).seconds == [16.0, 16.0, 16.0, 16.0]
    assert priced().widest((3, 16), 99) == 0
    assert priced().pricing(1, 1, 0, (3, 16)).seconds == [10.0]


def test_a_batch_is_plain_at_its_own_width_or_the_next_smaller_one() -> None:
    assert priced().pricing(4, 4, 0, ()).plain_seconds == 16.0
    three = priced().pricing(3, 3, 0, ())
    assert three.seconds == [14.0, 16.0, INF, INF, INF, 20.0]
    assert three.t1_seconds == pytest.approx(14.0 / 3)
    assert priced().pricing(9, 9, 0, ()).seconds == [20.0]


def test_the_widest_pass_keeps_to_the_limit_padding_included() -> None:
    prices = priced()
    assert [prices.widest((), rows) for rows in (1, 3, 8, 50)] == [1, 2, 8, 8]
    assert [prices.widest((2, 4, 8), rows) for rows in (1, 3, 7, 8)] == [0, 2, 4, 8]


def test_prices_are_kept_until_they_are_to_be_forgotten() -> None:
    costs = LiveCosts(TABLE)
    prices = Prices(costs)
    before = prices.pricing(1, 1, 0, ())
    for _ in range(5):
        costs.observe_plain(1, 0, 20.0, 1.0)
    assert prices.pricing(1, 1, 0, ()) is before
    prices.forget()
    assert prices.pricing(1, 1, 0, ()).seconds[:2] == [21.0, 29.0]


@given(st.sets(st.integers(1, 20), min_size=1), st.sets(st.integers(1, 20)), st.integers(1, 12))
def test_any_class_is_priced_like_its_plain_twin(measured: set[int], width_class: set[int], n_pending: int) -> None:
    """The twin looks for the narrowest allowed width each time."""
    widths = tuple(sorted(measured | {1}))
    table = CostTable((0,), widths, (tuple(float(10 + width) for width in widths),))
    asked = tuple(sorted(width_class))
    seconds = priced(table).pricing(1, n_pending, 0, asked).seconds
    for n, price in enumerate(seconds):
        rows = n_pending + n
        allowed = [w for w in widths if (w in asked and w >= rows if asked else w == rows)]
        if allowed:
            assert price == 10.0 + allowed[0]
        elif n:
            assert price == INF


# -- trials -----------------------------------------------------------------------------------------------------------


def due(costs: LiveCosts, table: CostTable = TABLE) -> None:
    for _ in range(EVERY):
        costs.observe_drafted(4, 0, table.steps(0)[4])
        costs.observe_plain(1, 0, table.steps(0)[1], 0.0)


def test_when_a_trial_is_due_every_width_has_the_price_of_the_next_known_one() -> None:
    costs = LiveCosts(TABLE)
    prices = Prices(costs)
    due(costs)
    assert prices.pricing(1, 1, 0, ()).trials == frozenset()  # until the old prices are forgotten
    prices.forget()
    pricing = prices.pricing(1, 1, 0, ())
    assert pricing.seconds == [10.0, 14.0, 16.0, 16.0, 20.0, 20.0, 20.0, 20.0]
    assert pricing.trials == {2, 4, 5, 6}
    assert prices.pricing(1, 1, 0, (2, 4, 8)).trials == frozenset()


def test_a_batch_of_a_width_on_trial_is_plain_at_the_next_smaller_one() -> None:
    costs = LiveCosts(TABLE)
    due(costs)
    three = Prices(costs).pricing(3, 3, 0, ())
    assert three.plain_seconds == three.seconds[0] == 14.0
    assert three.seconds[1:] == [16.0, 20.0, 20.0, 20.0, 20.0]
    assert three.trials == {2, 3, 4}


def test_a_width_that_was_learnt_is_drafted_at_and_plain_batches_of_it_stay_on_the_safe_side() -> None:
    costs = LiveCosts(TABLE)
    prices = Prices(costs)
    for _ in range(ENOUGH):
        due(costs)
        costs.observe_drafted(6, 0, 17.0)
        costs.observe_plain(1, 0, 10.0, 0.0)
    prices.forget()
    pricing = prices.pricing(1, 1, 0, ())
    assert 17.0 < pricing.seconds[5] < 19.0
    assert [s == INF for s in pricing.seconds] == [False, False, True, False, True, False, True, False]
    six = prices.pricing(6, 6, 0, ())
    assert six.plain_seconds == six.seconds[0] == pricing.seconds[3] < 16.1
    assert [prices.widest((), rows) for rows in (5, 6, 7, 8)] == [4, 6, 6, 8]


GAPS = Pricing(1, [10.0, 12.0, 13.0, 30.0, 30.0, 30.0, 30.0, 40.0], 10.0, frozenset({3, 4, 5}))


@pytest.mark.parametrize(
    ("n_best", "survivals", "longest", "wanted"),
    [
        (2, [0.95] * 7, INF, 4),  # the middle of the gap above
        (2, [0.95] * 3, INF, 3),  # as far as the drafts go
        (2, [0.95] * 2, INF, 2),
        (6, [0.95] * 7, INF, 4),  # the gap below
        (7, [0.95] * 7, INF, 7),  # 6 is known: no gap
        (1, [0.95] * 7, INF, 1),
        (2, [0.95] * 7, 29.9, 2),  # its full price is not allowed
        (2, [0.45] * 7, INF, 2),  # 1 + 4 * 0.45 tokens for 30 seconds are worse than plain ones
        (0, [0.95] * 7, INF, 0),
    ],
)
def test_a_trial_is_taken_beside_the_best_where_it_is_allowed_and_worth_it(
    n_best: int, survivals: list[float], longest: float, wanted: int
) -> None:
    assert GAPS.or_trial(n_best, survivals, 0.0, longest) == wanted


def test_the_gap_with_the_larger_step_comes_first() -> None:
    above = Pricing(1, [1.0, 1.1, 1.2, 1.2, 9.0, 9.0], 1.0, frozenset({2, 4}))
    below = Pricing(1, [1.0, 1.1, 2.0, 2.0, 2.1, 2.1], 1.0, frozenset({2, 4}))
    certain = [1.0] * 9
    assert above.or_trial(3, certain, 0.0, INF) == 2  # 5 tokens for the price of 9 are not worth it
    assert below.or_trial(3, certain, 0.0, INF) == 2
    assert Pricing(1, above.seconds, 3.0, above.trials).or_trial(3, certain, 0.0, INF) == 4


@given(
    st.lists(st.floats(0.0, 1.0), max_size=20).map(lambda found: sorted(found, reverse=True)),
    st.sets(st.integers(2, 20)),
    st.floats(0.0, 100.0),
    st.floats(0.0, 5.0),
)
def test_whatever_is_chosen_is_allowed_and_a_trial_never_expected_to_be_slower_than_plain(
    survivals: list[float], measured: set[int], longest: float, spent: float
) -> None:
    widths = tuple(sorted(measured | {1, 20}))
    table = CostTable((0,), widths, (tuple(10.0 + width for width in widths),))
    costs = LiveCosts(table)
    for _ in range(EVERY):
        costs.observe_drafted(20, 0, 30.0)
    pricing = Prices(costs).pricing(1, 1, 0, ())
    survivals = survivals[: len(pricing.seconds) - 1]
    best = best_size(survivals, pricing.seconds, 1, spent, longest)
    chosen = pricing.or_trial(best, survivals, spent, longest)
    assert chosen <= len(survivals)
    if chosen != best:
        assert chosen in pricing.trials
        assert best > 0
        between = range(min(chosen, best) + 1, max(chosen, best))
        assert all(n in pricing.trials for n in between)
        assert pricing.seconds[chosen] <= longest
        assert (1 + sum(survivals[:chosen])) / (pricing.seconds[chosen] + spent) > 1.0 / pricing.plain_seconds
