"""What is predicted of a pair, from tables and times that a test writes."""

from __future__ import annotations

import numpy as np
import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.engine.pair.facts import PairFacts
from edgespec.engine.pair.standings import BESIDE, IN_TURN
from edgespec.engine.pair.weighing import left_for, speedups, standings, weigh, weighed
from edgespec.spec.cost import CostTable
from edgespec.spec.latency import Placement
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.outcomes import constant
from edgespec.tune.agreement import RANKS, ChainStep, PairAcceptance
from edgespec.tune.pair import PairTimes, StepTimes
from edgespec.tune.tuning import Tuned

FLAT = CostTable((0,), (1, 2, 4, 8, 16), ((0.1, 0.1, 0.1, 0.1, 0.1),))
TUNED = Tuned(LlamaSettings(n_threads=2), FLAT, FLAT)


def times(step_seconds: float, kappa: float = 0.0) -> PairTimes:
    steps = StepTimes(1, ((64, step_seconds),), 0.001)
    return PairTimes(steps, steps, 1, kappa, 0.0)


def test_what_some_threads_cost_lies_between_one_and_all() -> None:
    one = CostTable((0,), (1, 2), ((0.4, 0.8),))
    four = CostTable((0,), (1, 2), ((0.1, 0.2),))
    assert left_for(four, one, 4, 4) == four
    assert left_for(four, one, 4, 1) == one
    assert left_for(four, one, 4, 2).seconds[0] == pytest.approx((0.2, 0.4))


@pytest.mark.parametrize(
    ("step_seconds", "kappa", "best"),
    [(0.001, 0.5, IN_TURN), (0.04, 0.0, BESIDE), (9.0, 0.0, Placement.PLAIN)],
)
def test_the_fastest_way_is_taken_and_all_are_compared_with_plain(
    step_seconds: float, kappa: float, best: Placement
) -> None:
    choice = weigh(FLAT, FLAT, times(step_seconds, kappa), constant(0.8))
    assert choice.best.placement is best
    gains = speedups(choice)
    assert set(gains) == {Placement.PLAIN, IN_TURN, BESIDE}
    assert gains[Placement.PLAIN] == 1.0
    assert max(gains.values()) == gains[best]
    found = standings("draft", choice)
    assert (found is None) is (best is Placement.PLAIN)
    if found is not None:
        assert found.present is best
        assert found.cost(best) == pytest.approx(1.0 / gains[best])


def seen(share: float) -> PairAcceptance:
    """Of chains whose steps come true so often, each time as often as claimed."""
    draws = np.random.default_rng(1).random((40, 8)) < share
    steps = tuple(
        ChainStep(depth, share, bool(right[depth])) for right in draws for depth in range(8) if right[:depth].all()
    )
    return PairAcceptance(320, share, constant(share, 8), RANKS, steps)


def test_a_way_is_worth_what_a_policy_dares_to_draft() -> None:
    """Which is less than what was measured, since texts differ, and nearer to it than to nothing."""
    for share in (0.5, 0.8, 0.95):
        facts = PairFacts(times(0.02), seen(share))
        policy = MeasuredPolicy(FLAT)
        policy.acceptance.recall(seen(share).experience(("draft",)))
        assert facts.believed == pytest.approx(policy.acceptance.expected(0, "draft", 8))
        assert facts.survivals[0] - 0.2 < facts.believed[0] < facts.survivals[0] + 0.1
    assert PairFacts(times(0.02)).believed == PairFacts(times(0.02)).survivals


def test_the_token_that_is_read_along_is_a_part_of_the_price() -> None:
    """A draft of two rows that cost twice one row makes each round a step longer."""
    flat, steep = (StepTimes(1, ((64, 0.02),), 0.001, ((1, 0.02), (2, seconds))) for seconds in (0.02, 0.04))
    assert flat.call_seconds == 0.0
    assert steep.call_seconds == pytest.approx(0.02)
    rates = [
        speedups(weigh(FLAT, FLAT, PairTimes(one, one, 1, 0.0, 0.0), constant(0.8)))[IN_TURN] for one in (flat, steep)
    ]
    assert rates[0] > rates[1]


def test_what_was_measured_of_the_acceptance_counts() -> None:
    """A draft that costs half a pass and is seldom right does not pay; nor is it known before it was measured."""
    rates = []
    for acceptance in (seen(0.1), None, seen(0.95)):
        choice = weighed(PairFacts(times(0.05), acceptance), TUNED)
        assert choice is not None
        rates.append(choice.best.tokens_per_second)
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(10.0)
    assert rates[2] > 15.0


def test_without_ranks_to_hit_it_gets_ahead_less_often() -> None:
    hits = []
    for ranks in ((0.0, 0.0), RANKS, (1.0,)):
        choice = weigh(FLAT, FLAT, times(0.02), constant(0.8), ranks)
        overlapped = [choice.best, *(loser.estimate for loser in choice.losers)]
        hits.append(next(one.tokens_per_second for one in overlapped if one.placement is BESIDE))
    assert hits == sorted(hits)
    assert hits[0] < hits[2]


def test_a_target_that_was_not_measured_lets_nothing_be_weighed() -> None:
    assert weighed(PairFacts(times(0.01)), None) is None
    assert standings("draft", None) is None
