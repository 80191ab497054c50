"""Live rounds correct the table: plain ones its load, drafted ones their width, and neither is taken for the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.cost import CostTable
from edgespec.spec.livecosts import LiveCosts
from edgespec.spec.trials import ENOUGH

WIDTHS = (1, 2, 4, 8, 16)
TIMES = (0.010, 0.014, 0.016, 0.021, 0.030)
TABLE = CostTable((0,), WIDTHS, (TIMES,))


def true_seconds(rows: int) -> float:
    return TABLE.steps(0)[rows]


def plain(costs: LiveCosts, n: int, factor: float = 1.0, overhead_seconds: float = 0.0) -> None:
    for _ in range(n):
        costs.observe_plain(1, 0, true_seconds(1) * factor, overhead_seconds)


def drafted(costs: LiveCosts, rows: int, factor: float = 1.0, n: int = 1) -> None:
    for _ in range(n):
        costs.observe_drafted(rows, 0, true_seconds(rows) * factor)


def decode(costs: LiveCosts, n: int, rows: int, factor: Callable[[int], float], random: Random) -> int:
    """n rounds that draft unless a plain one is needed; returns the number of plain ones."""
    n_plain = 0
    for _ in range(n):
        noise = math.exp(random.gauss(0.0, 0.03))
        if costs.needs_plain:
            n_plain += 1
            costs.observe_plain(1, 0, true_seconds(1) * factor(1) * noise, 0.0)
        else:
            costs.observe_drafted(rows, 0, true_seconds(rows) * factor(rows) * noise)
    return n_plain


def test_untouched_it_is_the_table() -> None:
    costs = LiveCosts(TABLE)
    assert [costs.seconds(rows, 0) for rows in range(17)] == TABLE.steps(0)
    assert costs.seconds(17, 0) == math.inf
    assert costs.load == 1.0
    assert not costs.needs_plain
    assert costs.bound(4, 0) > costs.seconds(4, 0)


@given(st.integers(0, 5000))
def test_prices_are_the_table_at_the_middle_of_their_grain(context: int) -> None:
    table = CostTable((100, 900), WIDTHS, (TIMES, tuple(2 * t for t in TIMES)))
    assert LiveCosts(table).prices(context) == pytest.approx(table.steps(context), rel=0.03)


def test_the_load_scales_every_width_and_overhead_adds() -> None:
    costs = LiveCosts(TABLE)
    plain(costs, 20, factor=1.5, overhead_seconds=0.001)
    assert costs.load == pytest.approx(1.5)
    assert costs.seconds(8, 0) == pytest.approx(0.021 * 1.5 + 0.001)


def test_a_hiccup_among_plain_rounds_moves_nothing() -> None:
    costs = LiveCosts(TABLE)
    plain(costs, 10)
    plain(costs, 2, factor=100.0, overhead_seconds=5.0)
    assert costs.load == pytest.approx(1.0, abs=1e-9)
    assert costs.overhead_seconds < 1e-4
    plain(costs, 1)
    assert costs.load == pytest.approx(1.0, abs=1e-9)


def test_three_slow_plain_rounds_are_another_machine_state() -> None:
    costs = LiveCosts(TABLE)
    plain(costs, 50)
    plain(costs, 3, factor=3.0)
    assert costs.load == pytest.approx(3.0)
    plain(costs, 3)
    assert costs.load == pytest.approx(1.0)


@given(st.lists(st.tuples(st.sampled_from(WIDTHS[1:]), st.floats(0.01, 100.0)), max_size=80))
def test_drafted_rounds_never_change_the_price_of_plain_ones(rounds: list[tuple[int, float]]) -> None:
    costs = LiveCosts(TABLE)
    plain(costs, 5, factor=1.2)
    before = costs.seconds(1, 0)
    for rows, factor in rounds:
        drafted(costs, rows, factor)
        assert costs.seconds(1, 0) == before
    plain(costs, 5, factor=1.2)
    assert costs.seconds(1, 0) == pytest.approx(before)


def test_at_least_one_round_in_64_is_plain() -> None:
    costs = LiveCosts(TABLE)
    assert decode(costs, 640, 4, lambda _: 1.0, Random(2)) == 10


def test_a_wrong_width_is_found_and_its_neighbours_follow_half_way() -> None:
    costs = LiveCosts(TABLE)
    n_plain = decode(costs, 120, 4, lambda rows: 1.0 if rows == 1 else 1.5, Random(3))
    assert costs.seconds(4, 0) == pytest.approx(0.016 * 1.5, rel=0.08)
    assert costs.seconds(1, 0) == pytest.approx(0.010, rel=0.03)
    assert 1.1 < costs.seconds(8, 0) / 0.021 < 1.5
    assert n_plain < 25


def test_a_slow_machine_seen_first_while_drafting_is_not_blamed_on_the_width() -> None:
    costs = LiveCosts(TABLE)
    random = Random(4)
    decode(costs, 30, 8, lambda _: 1.0, random)
    decode(costs, 40, 8, lambda _: 2.5, random)
    assert costs.load == pytest.approx(2.5, rel=0.05)
    assert costs.prices(0)[8] == pytest.approx(0.021, rel=0.1)


def test_one_very_slow_drafted_round_asks_for_one_plain_round() -> None:
    costs = LiveCosts(TABLE)
    drafted(costs, 4, factor=4.0)
    assert costs.needs_plain
    plain(costs, 1)
    assert not costs.needs_plain
    drafted(costs, 4, factor=4.0)
    plain(costs, 1, factor=4.0)
    assert costs.needs_plain


def test_a_width_that_looked_dear_is_tried_again_some_day() -> None:
    costs = LiveCosts(TABLE)
    for _ in range(10):
        drafted(costs, 4, factor=2.0, n=3)
        plain(costs, 3)
    dear = costs.prices(0)[4]
    assert dear > 1.5 * 0.016
    plain(costs, 64 * 20)
    assert costs.prices(0)[4] < 1.1 * 0.016


def test_an_unmeasured_plain_width_says_nothing_about_the_load() -> None:
    costs = LiveCosts(TABLE)
    costs.observe_plain(3, 0, 0.5, 0.0)
    costs.observe_plain(40, 0, 0.5, 0.0)
    assert costs.load == 1.0


def test_the_bound_holds_for_nineteen_rounds_in_twenty() -> None:
    costs, random, above = LiveCosts(TABLE), Random(5), 0
    for _ in range(2000):
        seconds = true_seconds(8) * math.exp(random.gauss(0.0, 0.08))
        above += seconds > costs.bound(8, 0)
        costs.observe_drafted(8, 0, seconds)
    assert 0.02 < above / 2000 < 0.08


# -- widths that were not measured ------------------------------------------------------------------------------------


def tried(costs: LiveCosts, rows: int, seconds: float, n: int = 1) -> None:
    """Rounds of an unmeasured width, each told apart from the machine's load by a plain one."""
    for _ in range(n):
        costs.observe_drafted(rows, 0, seconds)
        plain(costs, 1)


def test_a_trial_moves_the_price_of_its_width_from_the_next_wider_one_towards_what_it_took() -> None:
    costs = LiveCosts(TABLE)
    prices = [costs.prices(0)[6]]
    for _ in range(ENOUGH):
        tried(costs, 6, 0.017)
        prices.append(costs.prices(0)[6])
    assert prices[0] == 0.021
    assert prices == sorted(prices, reverse=True)
    assert 0.017 < prices[-1] < 0.019
    tried(costs, 6, 0.017, n=40)
    assert costs.prices(0)[6] == pytest.approx(0.017, rel=0.01)


def test_what_a_trial_takes_says_nothing_about_other_widths_nor_about_plain_decoding() -> None:
    costs = LiveCosts(TABLE)
    before = [costs.prices(0)[rows] for rows in (*WIDTHS, 3, 7, 12)]
    bound = costs.bound(8, 0)
    tried(costs, 6, 0.017, n=ENOUGH - 1)
    assert [costs.prices(0)[rows] for rows in (*WIDTHS, 3, 7, 12)] == before
    assert costs.bound(8, 0) == bound
    assert costs.load == 1.0


def test_a_narrower_width_that_was_not_tried_takes_the_price_of_the_next_one_with_a_price() -> None:
    costs = LiveCosts(TABLE)
    tried(costs, 6, 0.017, n=10)
    assert costs.prices(0)[5] == costs.prices(0)[6]
    assert costs.prices(0)[7] == costs.prices(0)[8]
    tried(costs, 5, 0.0165)
    assert 0.0165 < costs.prices(0)[5] < costs.prices(0)[6]


def test_an_unmeasured_width_may_be_dearer_than_the_next_but_never_cheaper_than_the_one_before() -> None:
    costs = LiveCosts(TABLE)
    tried(costs, 6, 0.025, n=60)
    assert costs.prices(0)[6] == pytest.approx(0.025, rel=0.02)
    assert costs.prices(0)[8] < 0.0225
    tried(costs, 12, 0.001, n=200)
    assert costs.prices(0)[12] == costs.prices(0)[8]


def test_an_unmeasured_width_grows_with_the_context_as_the_next_one_does() -> None:
    costs = LiveCosts(CostTable((0, 1000), WIDTHS, (TIMES, tuple(2 * t for t in TIMES))))
    tried(costs, 6, 0.017, n=60)
    short, long = costs.prices(0), costs.prices(992)
    assert long[6] / short[6] == pytest.approx(long[8] / short[8])


def test_a_very_slow_trial_asks_for_a_plain_round() -> None:
    costs = LiveCosts(TABLE)
    costs.observe_drafted(6, 0, 0.021 * 4)
    assert costs.needs_plain


def test_what_was_learnt_of_a_cheap_width_stays_and_a_dear_look_wears_off() -> None:
    costs = LiveCosts(TABLE)
    tried(costs, 6, 0.017, n=60)
    tried(costs, 12, 0.045, n=60)
    cheap, dear = costs.prices(0)[6] / costs.prices(0)[8], costs.prices(0)[12] / costs.prices(0)[16]
    plain(costs, 64 * 30)
    assert costs.prices(0)[6] / costs.prices(0)[8] == pytest.approx(cheap)
    assert dear > 1.3
    assert costs.prices(0)[12] / costs.prices(0)[16] < 1.05


@given(st.lists(st.tuples(st.integers(2, 16), st.floats(0.5, 2.0)), max_size=60), st.data())
def test_a_width_that_no_round_had_costs_what_the_next_one_does_that_has_a_price(
    rounds: list[tuple[int, float]], data: st.DataObject
) -> None:
    """Plain twin of the look-up: search upwards for a width that was measured or tried."""
    costs = LiveCosts(TABLE)
    for rows, factor in rounds:
        drafted(costs, rows, factor)
        plain(costs, data.draw(st.integers(4, 6)))
    priced = {*WIDTHS, *(rows for rows, _ in rounds)}
    prices = costs.prices(0)
    for rows in range(1, 17):
        assert prices[rows] == prices[next(width for width in range(rows, 17) if width in priced)]
        assert prices[rows] > 0.0


def test_a_view_is_what_a_round_would_cost_and_changes_no_price() -> None:
    live = LiveCosts(CostTable((0, 4000), (1, 2, 4), ((0.010, 0.012, 0.014), (0.030, 0.040, 0.050))))
    for rows in (2, 4, 3):
        live.observe_drafted(rows, 40, 0.013)
        live.observe_plain(1, 40, 0.011, 0.001)
    for context in (40, 4000):
        expected = [live.seconds(rows, context) for rows in (1, 2, 4)]
        before = live.prices(40)
        assert live.view((1, 2, 4), context) == expected
        assert live.prices(40) is before
