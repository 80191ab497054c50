"""What a policy says of itself, and that saying it changes nothing."""

from __future__ import annotations

import pytest

from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.predict import break_even
from tests.spec.test_measured import AMX, Table


def test_the_explanation_adds_up() -> None:
    policy = MeasuredPolicy(AMX, {"model": DraftCosts([(4, 0.004)])})
    Table(policy).taught(*[0.6] * 3, n_right=1, n_rounds=50)
    seen = policy.explain(0)
    assert seen.last == policy.decision
    assert sum(seen.rounds.values()) == 50
    assert [line.rows for line in seen.break_even] == [2, 3, 4, 6, 8, 16]
    assert seen.break_even[0].acceptance == pytest.approx(break_even(0.0131 / 0.0093, 1), abs=0.02)
    views = {view.name: view for view in seen.drafters}
    assert views["d"].is_free
    assert not views["model"].is_free
    assert views["d"].n_steps >= 100
    assert seen.load == pytest.approx(1.0, abs=0.01)
    assert seen.headroom_seconds == pytest.approx(policy.ledger.headroom(policy.costs.seconds(1, 0)))
    assert [line.rows for line in policy.explain(0, (2, 4, 8)).break_even] == [4, 8]


def test_to_be_asked_for_an_explanation_changes_nothing() -> None:
    """It comes from another thread, in the middle of a round."""
    steep = CostTable((0, 4000), (1, 2, 4), ((0.010, 0.012, 0.014), (0.030, 0.040, 0.050)))
    player = Table(MeasuredPolicy(steep, {"model": DraftCosts([(1, 0.002), (4, 0.006)])}))
    player.taught(0.9, 0.9, n_right=2, n_rounds=9)
    costs, model = player.policy.costs, player.policy.calls.costs["model"]
    prices = costs.prices(40)
    explained = player.policy.explain(4000)
    assert costs.prices(40) is prices
    assert "model" not in player.policy.acceptance.profiles
    assert {view.name: view.call_seconds for view in explained.drafters}["model"] == model.seconds(1)
    assert explained.headroom_seconds == player.policy.ledger.headroom(costs.seconds(1, 4000))
    player.round(0.9, n_right=1, call_seconds=0.0)
    cheap = player.policy.calls._cheap_seconds
    player.policy.explain(4000)
    assert player.policy.calls._cheap_seconds == cheap
