from __future__ import annotations

from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.policy import Offer, Proposed
from edgespec.spec.ports import Plan
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY
from edgespec.spec.underway import Round, spent_of_grants


def offer(sequence: int, *seconds: float) -> Offer:
    state = SequenceState.start(sequence, [1], Law(SamplingSettings()), 10, frozenset())
    return Offer(state, tuple(Proposed("d", Plan(1), EMPTY, each) for each in seconds))


def test_of_a_grant_only_what_was_spent_counts() -> None:
    spent = spent_of_grants([offer(1, 0.5, 1.0), offer(2, 9.0), offer(3, 0.1)], {1: 4.0, 2: 4.0})
    assert spent == {1: 1.5, 2: 4.0}
    done = Round((), 0, 0, 1.0, 0.0, 0.0, frozenset(), spent)
    assert done.invested_seconds == 5.5
