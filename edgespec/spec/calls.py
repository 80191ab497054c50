"""Which drafters to ask, and for how much.

A drafter whose calls take no time to speak of is always asked: its guesses are scored even when nothing is drafted. One
that costs time is called if it is expected to beat what the free ones offer, and else seldom, to see whether it would;
never in the first tokens of an answer. Contract: learns from the calls that are recorded; knows no trees of this round
but those already offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from edgespec.spec.acceptance import Acceptance
from edgespec.spec.cost import DraftCosts
from edgespec.spec.ledger import Ledger
from edgespec.spec.livecosts import LiveCosts
from edgespec.spec.policy import Proposed, Reason
from edgespec.spec.ports import SequenceId
from edgespec.spec.predict import best_size, goodput
from edgespec.spec.prices import Pricing
from edgespec.spec.sequence import SequenceState

# A drafter whose call takes a larger share of a plain round has to be worth it; a cheaper one is always asked.
_FREE_SHARE = 0.01

# One that costs time is called if it promises this much more than the free ones.
_MARGIN = 1.02

# Answers up to this long never wait for it.
_SHORT_ANSWER = 3

# One that does not pay is tried so seldom that its calls take this share of the time, half of it once a trial failed:
# more would be felt, less would find a good phase when it is over. A call for a sixth of a plain round is made every
# 33rd round at first.
_PROBE_SHARE = 0.005
_PROBE_SOONEST = 8


class Probe:
    """When to try again a drafter that does not pay. Counts rounds."""

    def __init__(self) -> None:
        self._waited = 0
        self._longer = 1

    def due(self, interval: int) -> bool:
        """Count a round; True if this one is for a trial. `interval`: rounds between trials at first."""
        self._waited += 1
        return self._waited >= interval * self._longer

    def settle(self, right: bool) -> None:
        """A trial whose first token was right is repeated at once, one that failed twice after twice the wait."""
        self._longer = 0 if right else min(2, self._longer + 1)
        self._waited = 0


class Calls:
    """`costs`: seconds by drafter. `refusal`: why the last drafter that was not called was not.

    `risk_seconds` and `probing` are of the round in progress, until `begin_round`.
    """

    def __init__(
        self, live: LiveCosts, acceptance: Acceptance, ledger: Ledger, costs: Mapping[str, DraftCosts]
    ) -> None:
        self.costs = dict(costs)
        self.refusal = Reason.NO_DRAFTER
        self.risk_seconds = 0.0
        self.probing: set[str] = set()
        self._live = live
        self._acceptance = acceptance
        self._ledger = ledger
        self._probes: dict[str, Probe] = {}

    def reprice(self, live: LiveCosts) -> None:
        self._live = live

    def begin_round(self) -> None:
        self.risk_seconds = 0.0
        self.probing.clear()

    def is_free(self, drafter: str, t1_seconds: float) -> bool:
        costs = self.costs.get(drafter)
        return costs is None or costs.cheapest <= _FREE_SHARE * t1_seconds

    def may_ask(self, t1_seconds: float) -> bool:
        """May a free drafter be asked? The ledger has the last word even there."""
        self.refusal = Reason.LEDGER
        return self._ledger.allows(_FREE_SHARE * t1_seconds, t1_seconds)

    def size(self, drafter: str, state: SequenceState, room: int, pricing: Pricing, offered: Seq[Proposed]) -> int:
        """Nodes to ask of a drafter that costs time: as many as promise most, one to try it again, or none."""
        if state.n_output < _SHORT_ANSWER:
            self.refusal = Reason.SHORT_ANSWER
            return 0
        costs = self.costs[drafter]
        n_nodes = self._best(state.id, drafter, room, pricing, self._best_offered(state.id, room, pricing, offered))
        self.refusal = Reason.NOT_WORTH_IT
        interval = max(_PROBE_SOONEST, round(costs.seconds(1) / (_PROBE_SHARE * pricing.plain_seconds)))
        if not n_nodes and self._probes.setdefault(drafter, Probe()).due(interval):
            self.probing.add(drafter)
            n_nodes = 1
        if not self._ledger.allows(self.risk_seconds + costs.bound(n_nodes), pricing.t1_seconds):
            self.refusal = Reason.LEDGER
            self.probing.discard(drafter)
            return 0
        self.risk_seconds += costs.bound(n_nodes)
        return n_nodes

    def observe(self, call: Proposed) -> None:
        if call.plan.max_nodes:
            self.costs.setdefault(call.drafter, DraftCosts()).observe(call.plan.max_nodes, call.seconds)

    def settle(self, drafter: str, right: bool) -> None:
        """A trial has shown whether the first token was right."""
        self._probes[drafter].settle(right)

    def _best_offered(self, sequence: SequenceId, room: int, pricing: Pricing, offered: Seq[Proposed]) -> float:
        """The goodput of what others have proposed, as a multiple of plain decoding's."""
        survivals = sorted(
            (s for one in offered for s in self._acceptance.survival(sequence, one.drafter, one.tree).tolist()),
            reverse=True,
        )[:room]
        n_nodes = best_size(survivals, pricing.seconds, pricing.n_sequences)
        return goodput(survivals[:n_nodes], pricing.seconds[n_nodes], pricing.n_sequences) * pricing.t1_seconds

    def _best(self, sequence: SequenceId, drafter: str, room: int, pricing: Pricing, rival: float) -> int:
        """How many nodes of this drafter beat `rival` times plain decoding by most, calls included; 0 if none do."""
        costs = self.costs[drafter]
        seconds = [s + costs.seconds(n) for n, s in enumerate(pricing.seconds[: room + 1])]
        factor = max(self._live.excess.factor, costs.excess.factor)
        longest = (self._ledger.headroom(pricing.t1_seconds) + pricing.plain_seconds) / factor
        survivals = self._acceptance.expected(sequence, drafter, len(seconds) - 1)
        return best_size(survivals, seconds, pricing.n_sequences, 0.0, longest, _MARGIN * rival)
