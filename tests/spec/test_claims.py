from __future__ import annotations

import math

import pytest

from edgespec.spec.claims import Claims
from edgespec.spec.cost import CostTable
from edgespec.spec.livecosts import LiveCosts
from edgespec.spec.predict import least_claim
from edgespec.spec.prices import Prices

WIDTHS = (1, 2, 4, 8, 16)
STEEP = CostTable((0,), WIDTHS, ((0.010, 0.019, 0.027, 0.044, 0.088),))
FLAT = CostTable((0,), WIDTHS, ((0.0100, 0.0101, 0.0102, 0.0103, 0.0104),))


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_nobody_is_asked_for_less_than_nine_tenths_of_what_could_pay(n: int) -> None:
    assert Claims(STEEP, 1.05).least(n) == least_claim(STEEP, n)
    assert Claims(STEEP, 1.05).least_asked(n) == pytest.approx(1.8 * least_claim(STEEP, n))
    assert Claims(STEEP, 1.05).least_asked(16) == math.inf, "no pass is wider"


def test_a_refused_claim_holds_for_one_sequence_until_one_like_it_is_drafted() -> None:
    claims = Claims(FLAT, 1.05)
    claims.refused(0.5)
    claims.refused(0.3)
    assert claims.least_asked(1) == pytest.approx(0.5, rel=0.01)
    assert claims.least_asked(1) > 0.5
    assert claims.least_asked(2) < 0.1
    claims.drafted(0.4)
    assert claims.least_asked(1) < 0.4


@pytest.mark.parametrize(("table", "may"), [(STEEP, [True, True, True, False]), (FLAT, [True] * 4)])
def test_in_a_batch_even_sure_guesses_may_cost_more_than_they_give(table: CostTable, may: list[bool]) -> None:
    """On the steep curve sixteen rows cost twice what eight do, so that no guess could ever pay beside eight."""
    prices = Prices(LiveCosts(table))
    assert [Claims(table, 1.05).may_pay(n, prices) for n in (1, 2, 4, 8)] == may
