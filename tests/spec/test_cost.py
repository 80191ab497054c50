"""Tables are steps in rows and lines in context; calls of drafters are learned without being fooled by one hiccup."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.cost import CostTable, DraftCosts, Excess

TABLE = CostTable((100, 900), (1, 2, 4, 8), ((10.0, 14.0, 16.0, 20.0), (18.0, 22.0, 32.0, 36.0)))


@st.composite
def tables(draw: st.DrawFn) -> CostTable:
    contexts = sorted(draw(st.sets(st.integers(0, 4096), min_size=1, max_size=3)))
    widths = [1, *sorted(draw(st.sets(st.integers(2, 40), max_size=6)))]
    times = st.floats(1e-4, 10.0)
    rows = [tuple(draw(times) for _ in widths) for _ in contexts]
    return CostTable(tuple(contexts), tuple(widths), tuple(rows), draw(st.booleans()))


def test_a_row_count_costs_the_next_measured_width() -> None:
    assert TABLE.steps(100) == [10.0, 10.0, 14.0, 16.0, 16.0, 20.0, 20.0, 20.0, 20.0]
    assert TABLE.widest == 8
    assert [TABLE.next_below(rows) for rows in (1, 3, 7, 8, 99)] == [1, 2, 4, 8, 8]


def test_context_goes_on_a_line_through_the_measured_ones_and_beyond() -> None:
    assert TABLE.at(500) == pytest.approx([14.0, 18.0, 24.0, 28.0])
    assert TABLE.at(1700) == pytest.approx([26.0, 30.0, 48.0, 52.0])
    assert TABLE.at(0) == pytest.approx([9.0, 13.0, 14.0, 18.0])


def test_noise_is_never_extrapolated_below_what_was_measured() -> None:
    """A longer context measured as faster, and a wider pass too: both are flat, and the plain pass keeps its time."""
    table = CostTable((100, 200), (1, 2, 4), ((10.0, 9.0, 12.0), (8.0, 11.0, 12.0)))
    assert table.at(1000)[0] == 10.0
    assert table.at(100) == [10.0, 10.0, 12.0]


@given(tables(), st.integers(0, 100_000))
def test_steps_never_fall_and_stay_positive(table: CostTable, context: int) -> None:
    steps = table.steps(context)
    assert len(steps) == table.widest + 1
    assert all(below <= above for below, above in pairwise(steps))
    assert 0.0 < steps[0] < math.inf
    assert [steps[width] for width in table.widths] == table.at(context)


@given(tables())
def test_text_brings_back_the_same_table(table: CostTable) -> None:
    assert CostTable.from_text(table.to_text()) == table


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", '{"contexts": [0], "widths": [1], "seconds": [[0.0]], "partial": false}'],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        CostTable.from_text(text)


@pytest.mark.parametrize(
    ("contexts", "widths", "seconds"),
    [
        ((), (1,), ()),
        ((0,), (), ((),)),
        ((0,), (2, 4), ((1.0, 2.0),)),
        ((0,), (1, 4, 2), ((1.0, 2.0, 3.0),)),
        ((5, 5), (1,), ((1.0,), (1.0,))),
        ((-1,), (1,), ((1.0,),)),
        ((0,), (1, 2), ((1.0,),)),
        ((0, 9), (1,), ((1.0,),)),
        ((0,), (1,), ((math.nan,),)),
        ((0,), (1,), ((math.inf,),)),
    ],
)
def test_a_table_that_is_none_is_refused(
    contexts: tuple[int, ...], widths: tuple[int, ...], seconds: tuple[tuple[float, ...], ...]
) -> None:
    with pytest.raises(ValueError, match=r"must"):
        CostTable(contexts, widths, seconds)


def test_one_time_in_twenty_exceeds_the_bound() -> None:
    random, excess, above = Random(1), Excess(), 0
    for round_number in range(4000):
        nats = random.gauss(0.0, 0.1)
        above += round_number >= 500 and nats > math.log(excess.factor)
        excess.observe(nats)
    assert 0.03 < above / 3500 < 0.07


def test_one_hiccup_hardly_moves_the_bound_and_rest_forgets_it() -> None:
    excess = Excess(0.1)
    excess.observe(5.0)
    assert excess.nats == pytest.approx(0.138)
    for _ in range(60):
        excess.relax(0.9)
    assert excess.nats == pytest.approx(0.1, abs=1e-3)


def test_calls_between_measured_sizes_lie_on_a_line() -> None:
    costs = DraftCosts([(8, 0.5), (2, 0.2)])
    assert [costs.seconds(n) for n in (0, 1, 2, 5, 8, 16)] == pytest.approx([0.0, 0.2, 0.2, 0.35, 0.5, 1.0])
    assert costs.bound(8) > costs.seconds(8)


def test_an_unknown_drafter_is_free_until_it_was_called() -> None:
    costs = DraftCosts()
    assert costs.seconds(4) == costs.bound(4) == 0.0
    costs.observe(4, 0.4)
    assert costs.seconds(4) == 0.4


def test_calls_follow_the_truth_but_not_one_hiccup() -> None:
    costs = DraftCosts([(4, 0.4)])
    costs.observe(4, 60.0)
    assert costs.seconds(4) < 0.5
    for _ in range(80):
        costs.observe(4, 0.1)
    assert costs.seconds(4) == pytest.approx(0.1, rel=0.05)


def test_what_is_read_first_is_priced_apart_from_the_steps() -> None:
    costs = DraftCosts([(4, 0.4)], read_seconds=0.01)
    assert costs.reading(50) == pytest.approx(0.5)
    assert costs.bound(4, 50) == pytest.approx(0.9 * costs.excess.factor)
    for _ in range(40):
        costs.observe(4, 0.4 + 1000 * 0.02, 1000)
    assert costs.read_seconds == pytest.approx(0.02, rel=0.05)
    assert costs.seconds(4) == pytest.approx(0.4, rel=0.1)


def test_where_reading_was_never_measured_a_token_is_a_quarter_of_a_step_until_some_are_read() -> None:
    costs = DraftCosts([(1, 0.4)])
    assert costs.read_seconds == pytest.approx(0.1)
    costs.observe(1, 0.4 + 300 * 0.1, 300)
    assert costs.read_seconds == pytest.approx(0.1)
    assert costs.seconds(1) == pytest.approx(0.4)
    unknown = DraftCosts()
    assert unknown.reading(300) == 0.0
    unknown.observe(5, 20.0, 300)
    assert unknown.seconds(5) + unknown.reading(300) == pytest.approx(20.0)


def test_calls_that_are_mostly_free_cost_their_mean_and_are_bounded_by_the_long_ones() -> None:
    """A drafter that works ahead: four of five drafts are there, the fifth takes its steps."""
    costs = DraftCosts([(1, 0.1)])
    for i in range(200):
        costs.observe(4, 0.4 if i % 5 == 0 else 1e-5)
    assert costs.seconds(4) == pytest.approx(0.08, rel=0.5)
    assert costs.seconds(3) <= costs.seconds(4)
    assert costs.bound(4) >= 0.8 * 0.4
    assert costs.deadline(4) > 1.5 * 0.4
    assert costs.seconds(1) < 0.07
    for _ in range(200):
        costs.observe(4, 1e-5)
    assert costs.seconds(4) < 1e-3
    assert costs.bound(4) < 1e-3


def test_the_deadline_is_far_beyond_the_bound() -> None:
    costs = DraftCosts([(1, 0.01)], read_seconds=0.001)
    assert costs.deadline(3, 10) == pytest.approx(2.0 * costs.bound(3, 10) + 0.001)
    assert costs.deadline(3, 10) > 2.0 * (costs.seconds(3) + costs.reading(10))


def test_a_view_of_a_call_is_its_price_and_keeps_nothing() -> None:
    costs = DraftCosts()
    assert costs.view(3) == 0.0
    for n_nodes, seconds in ((4, 0.008), (1, 0.003), (4, 0.009)):
        costs.observe(n_nodes, seconds)
        assert [costs.view(n) for n in (1, 2, 4, 9)] == [costs.seconds(n) for n in (1, 2, 4, 9)]
