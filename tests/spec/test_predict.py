"""Closed forms against the sums, searches and limits they stand for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.cost import CostTable
from edgespec.spec.predict import (
    best_size,
    break_even,
    break_even_table,
    forecast,
    goodput,
    least_claim,
    least_node,
    least_useful,
    leviathan_speedup,
    linear_speedup,
    may_pay,
    serial_seconds,
    slope,
    tokens_per_pass,
)

TABLE = CostTable((256,), (1, 2, 4, 8, 16), ((0.0093, 0.0131, 0.0157, 0.0208, 0.0292),))
acceptances = st.floats(0.0, 1.0)
survival_lists = st.lists(acceptances, max_size=8).map(lambda values: sorted(values, reverse=True))


@given(st.floats(0.0, 0.999), st.integers(0, 31))
def test_tokens_per_pass_is_the_geometric_sum(acceptance: float, n_drafted: int) -> None:
    wanted = (1.0 - acceptance ** (n_drafted + 1)) / (1.0 - acceptance)
    assert tokens_per_pass(acceptance, n_drafted) == pytest.approx(wanted)
    assert tokens_per_pass(1.0, n_drafted) == n_drafted + 1


@given(
    survival_lists,
    st.lists(st.floats(0.1, 9.0) | st.just(math.inf), min_size=9, max_size=9),
    st.integers(1, 3),
    st.floats(0.0, 2.0),
    st.floats(0.1, 9.0),
    st.floats(1.0, 1.5),
)
def test_the_best_size_is_the_best_of_all(
    survivals: list[float], seconds: list[float], n_sequences: int, spent: float, longest: float, margin: float
) -> None:
    seconds[0] = 1.0
    n = best_size(survivals, seconds, n_sequences, spent, longest, margin)
    rates = [goodput(survivals[:k], spent + seconds[k], n_sequences) for k in range(len(survivals) + 1)]
    able = [rates[k] for k in range(1, len(rates)) if seconds[k] <= longest]
    if max(able, default=0.0) > margin * rates[0] * (1.0 + 1e-9):
        assert seconds[n] <= longest
        assert rates[n] == pytest.approx(max(able))
    elif max(able, default=0.0) < margin * rates[0] * (1.0 - 1e-9):
        assert n == 0


@given(
    survival_lists,
    st.lists(st.one_of(st.floats(0.1, 9.0), st.just(math.inf)), min_size=9, max_size=9),
    st.integers(1, 8),
    st.sampled_from([1.0, 1.05]),
)
def test_where_guesses_as_sure_as_these_cannot_pay_nothing_is_drafted(
    survivals: list[float], seconds: list[float], n_sequences: int, margin: float
) -> None:
    seconds[0] = min(seconds[0], 9.0)
    if not may_pay(seconds, n_sequences, max(survivals, default=0.0), margin):
        assert best_size(survivals, seconds, n_sequences, margin=margin) == 0
    if any((n_sequences + n) / seconds[n] > 1.01 * margin * n_sequences / seconds[0] for n in range(1, 9)):
        assert best_size([1.0] * 8, seconds, n_sequences, margin=margin) > 0


def test_the_best_size_may_lie_beyond_a_step_that_does_not_pay() -> None:
    """Narrow passes cost nearly as much as the widest one, as on a GPU whose kernels change at nine rows."""
    seconds = [1.0, 2.4, 2.5, 2.6, 2.7, 2.8, 2.8, 2.8, 2.8]
    survivals = [0.95 ** (i + 1) for i in range(8)]
    assert best_size(survivals[:1], seconds) == 0
    assert best_size(survivals, seconds) == 8


@given(st.floats(1.0, 33.0), st.integers(1, 31))
def test_break_even_is_where_tokens_pay_for_the_round(cost_ratio: float, n_drafted: int) -> None:
    acceptance = break_even(cost_ratio, n_drafted)
    if cost_ratio > n_drafted + 1:
        assert acceptance == math.inf
    else:
        assert tokens_per_pass(acceptance, n_drafted) == pytest.approx(cost_ratio, rel=1e-6)


def test_a_free_pass_breaks_even_at_once() -> None:
    assert break_even(0.9, 4) == 0.0


def test_break_even_table_names_each_width() -> None:
    lines = break_even_table(TABLE.widths, TABLE.at(256))
    assert [line.rows for line in lines] == [2, 4, 8, 16]
    assert lines[0].acceptance == pytest.approx(131 / 93 - 1, abs=1e-6)
    assert lines[3].cost_ratio == pytest.approx(292 / 93)
    dearer = break_even_table(TABLE.widths, TABLE.at(256), extra_seconds=0.002)
    assert all(b.acceptance > a.acceptance for a, b in zip(lines, dearer, strict=True))


@given(acceptances, st.integers(1, 15), st.floats(0.0, 0.5))
def test_on_a_flat_curve_the_speedup_is_leviathans(acceptance: float, n_drafted: int, cost: float) -> None:
    flat = CostTable((0,), (1, 16), ((1.0, 1.0),))
    seen = forecast(flat, 0, acceptance, n_drafted, draft_seconds=cost * n_drafted)
    assert seen.speedup == pytest.approx(leviathan_speedup(acceptance, n_drafted, cost))
    assert seen.leviathan_speedup == pytest.approx(seen.speedup)


@given(acceptances, st.integers(1, 15), st.floats(0.0, 0.5), st.floats(0.0, 1.0))
def test_on_a_line_the_textbook_form_lacks_exactly_the_free_token(
    acceptance: float, n_drafted: int, draft: float, alpha: float
) -> None:
    widths = tuple(range(1, 17))
    table = CostTable((0,), widths, (tuple(1.0 + alpha * (width - 1) for width in widths),))
    assert slope(table, 0) == pytest.approx(alpha)
    seen = forecast(table, 0, acceptance, n_drafted, draft)
    ratio = seen.tokens_per_pass / seen.speedup
    assert seen.textbook_speedup == pytest.approx((seen.tokens_per_pass - 1.0) / ratio)
    assert linear_speedup(acceptance, 0, 0.0, alpha) == 0.0


def test_forecast_on_the_measured_curve() -> None:
    seen = forecast(TABLE, 256, acceptance=0.8, n_drafted=7)
    assert seen.tokens_per_pass == pytest.approx(4.161, abs=1e-3)
    assert seen.speedup == pytest.approx(4.161 * 93 / 208, abs=1e-3)
    assert forecast(TABLE, 256, seen.break_even_acceptance, 7).speedup == pytest.approx(1.0)
    assert forecast(TABLE, 256, 0.8, 4).speedup < forecast(TABLE, 256, 0.8, 4 + 3).speedup


@pytest.mark.parametrize(("acceptance", "n_drafted"), [(-0.1, 4), (1.1, 4), (math.nan, 4), (0.5, 0), (0.5, 16)])
def test_what_cannot_be_forecast_is_refused(acceptance: float, n_drafted: int) -> None:
    with pytest.raises(ValueError, match=r"acceptance|rows"):
        forecast(TABLE, 256, acceptance, n_drafted)


def test_in_turn_a_round_takes_its_steps_and_its_pass() -> None:
    assert serial_seconds(4, 0.1, 1.2) == pytest.approx(1.6)
    assert serial_seconds(4, 0.1, 1.2, handover=0.01) == pytest.approx(1.61)


@given(survival_lists, st.lists(st.floats(0.0, 1.0), min_size=8, max_size=8), st.floats(0.0, 0.5))
def test_below_the_least_useful_survival_no_further_node_raises_the_best_goodput(
    survivals: list[float], growth: list[float], step: float
) -> None:
    seconds = [1.0 + sum(growth[:n]) for n in range(9)]
    least = least_useful(survivals, seconds, step)
    rates = [goodput(survivals[:n], seconds[n] + n * step) for n in range(len(survivals) + 1)]
    assert 0.0 <= least <= 1.0
    for k in range(len(survivals)):
        for m in range(k + 1, len(survivals) + 1):
            tail = [least * 0.999] * (m - k)
            longer = goodput([*survivals[:k], *tail], seconds[m] + m * step)
            assert longer <= max(rates) + 1e-9


def test_a_step_in_the_curve_does_not_stop_a_draft_that_reaches_beyond_it() -> None:
    """The second row is dear, the next ones are nearly free: what counts is the cheapest way on."""
    assert least_useful([0.5] * 4, [1.0, 1.8, 1.81, 1.82, 1.83], 0.0) == pytest.approx(0.01 * 3.0 / 1.83)
    assert least_useful([0.9], [1.0, math.inf], 0.1) == 0.0
    assert least_useful([], [1.0], 0.1) == 0.0


@given(st.lists(st.floats(0.01, 2.0), min_size=1, max_size=6), st.floats(0.0, 1.0), st.integers(1, 7))
def test_a_claim_below_the_least_one_never_pays(grown: list[float], claim: float, n_sequences: int) -> None:
    """Not even chains of any length, of any of the sequences, whose tokens are all right once the first one is."""
    seconds = [1.0]
    for step in grown:
        seconds.append(seconds[-1] + step)
    table = CostTable((0,), tuple(range(1, len(seconds) + 1)), (tuple(seconds),))
    least = least_claim(table, n_sequences)
    if n_sequences >= len(seconds):
        assert least == math.inf
        return
    plain = n_sequences / seconds[n_sequences - 1]
    rows = range(n_sequences + 1, len(seconds) + 1)
    best = max((n_sequences + (row - n_sequences) * claim) / seconds[row - 1] for row in rows)
    if claim < least:
        assert best < plain
    if best > plain * (1.0 + 1e-9):
        assert claim >= least


def test_where_wider_passes_are_not_measured_yet_no_claim_is_too_small() -> None:
    assert least_claim(CostTable((0,), (1,), ((1.0,),))) == math.inf
    assert least_claim(CostTable((0,), (1, 4), ((1.0, 1.5),), is_partial=True), 4) == 0.0


def test_the_more_share_a_pass_the_surer_a_guess_must_be() -> None:
    """On a curve that is flat at first and then grows with every row, as weights are read once for all."""
    table = CostTable((0,), (1, 2, 4, 8, 16, 32), ((1.0, 1.1, 1.3, 2.0, 4.0, 8.0),))
    claims = [least_claim(table, n) for n in (1, 2, 4, 8)]
    assert claims == sorted(claims)
    assert claims[0] == pytest.approx(0.05)
    assert claims[-1] == pytest.approx(0.5)


def test_a_node_below_half_of_the_cheapest_row_is_worth_none() -> None:
    widths = tuple(range(1, 17))
    assert least_node(CostTable((0,), widths, (tuple(1.0 + 0.4 * (n - 1) for n in widths),))) == pytest.approx(0.2)
    stepped = tuple(1.0 if n <= 1 else 2.0 if n <= 8 else 3.0 for n in widths)
    assert least_node(CostTable((0,), widths, (stepped,))) == 0.0, "inside a step a row costs nothing"
    hiccup = tuple(1.0 + 0.4 * (n - 1) - 0.39 * (n == 6) for n in widths)
    assert 0.1 < least_node(CostTable((0,), widths, (hiccup,))) < 0.2, "one row that seems nearly free is no step"
    assert least_node(CostTable((0,), (1, 2, 4, 8), ((1.0, 1.4, 2.2, 3.8),), is_partial=True)) == 0.0
    assert least_node(CostTable((0,), (1,), ((1.0,),))) == 0.0
