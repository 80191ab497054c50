"""A pass costs what the width that carries it was measured at, and what was not measured is not drafted at."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.cost import CostTable
from edgespec.spec.livecosts import LiveCosts
from edgespec.spec.prices import Prices

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
