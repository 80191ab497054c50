"""What a policy has decided for the pass under way, kept until the pass is over. Knows no costs."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.spec.policy import Offer
from edgespec.spec.ports import SequenceId
from edgespec.spec.weighed import Weighed


@dataclass(frozen=True, slots=True)
class Round:
    """What was decided for the pass under way. `weighed` is empty in a quiet round, where nobody had a guess.

    lent: seconds of reading in this round that count as investments, by sequence.
    """

    weighed: Seq[Weighed]
    context: int
    n_nodes: int
    t1_seconds: float
    bound_seconds: float
    risk_seconds: float
    probing: frozenset[str]
    lent: Mapping[SequenceId, float]

    @property
    def invested_seconds(self) -> float:
        return sum(self.lent.values())


def spent_of_grants(offers: Seq[Offer], granted: Mapping[SequenceId, float]) -> dict[SequenceId, float]:
    """What was really spent of each grant: calls may have taken less."""
    found: dict[SequenceId, float] = {}
    for offer in offers:
        if offer.state.id in granted:
            found[offer.state.id] = min(granted[offer.state.id], sum(one.seconds for one in offer.proposed))
    return found
