from __future__ import annotations

import math

import pytest

from edgespec.doctor.facts import DrafterFacts, expected
from edgespec.doctor.measured import curve_at
from edgespec.spec.cost import CostTable
from edgespec.spec.predict import forecast
from tests.doctor.cases import FLAT, HEALTHY, STEEP, WIDTHS

LOOKUP = DrafterFacts("lookup", 0, 0.6)


@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("table", [FLAT, STEEP, CostTable((0, 512), (1, 3, 4), ((1.0, 1.5, 1.6), (2.0, 4.0, 4.5)))])
def test_the_best_width_is_found_as_the_forecast_has_it(table: CostTable, acceptance: float) -> None:
    found = expected(DrafterFacts("x", 0, acceptance), curve_at(table, 300, ()))
    tried = {width: forecast(table, 300, acceptance, width - 1) for width in table.widths[1:]}
    best = max(one.speedup for one in tried.values())
    assert found.speedup == pytest.approx(max(1.0, best))
    if found.rows > 1:
        assert found.tokens_per_pass == pytest.approx(tried[found.rows].tokens_per_pass)
    else:
        assert best <= 1.0


def test_in_an_exact_class_a_plain_round_pays_for_its_padding() -> None:
    curve = curve_at(FLAT, 256, (2, 8))
    assert (curve.widths, curve.seconds) == ((2, 8), (0.011, 0.014))
    (only,) = curve.break_even
    assert only.rows == 8
    assert only.cost_ratio == pytest.approx(14 / 11)
    assert expected(LOOKUP, curve).speedup == pytest.approx((1 - 0.6**8) / (1 - 0.6) / (14 / 11))


def test_the_easiest_width() -> None:
    assert HEALTHY.curve is not None
    assert HEALTHY.curve.easiest is not None
    assert HEALTHY.curve.easiest.rows in WIDTHS[1:]
    assert curve_at(CostTable((256,), (1,), ((0.01,),)), 256, ()).easiest is None
    steep = curve_at(STEEP, 256, ()).easiest
    assert steep is not None
    assert steep.acceptance == pytest.approx(1.0) or math.isinf(steep.acceptance)


def test_what_was_seen_counts_from_enough_steps_on() -> None:
    assert not DrafterFacts("x", 31, 0.5).is_observed
    assert DrafterFacts("x", 32, 0.5).is_observed
