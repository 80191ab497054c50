"""Which drafters to ask, and for how much.

A drafter whose calls take no time to speak of is always asked: its guesses are scored even when nothing is drafted. One
that costs time is called if it is expected to beat what the free ones offer, and else seldom, to see whether it would;
never in the first tokens of an answer. What it must read first is a part of the price, and where that is more than a
step an investment: made only if what the drafter is expected to save over the tokens to come is more, and lent by the
ledger and by the answer's account. One that was declared with its costs is never taken for free, however short its
calls become: a drafter that works ahead costs nothing as long as it is asked for what it works on.
Contract: learns from the calls that are recorded; knows no trees of this round but those already offered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq

from edgespec.spec.acceptance import Acceptance
from edgespec.spec.cost import DraftCosts
from edgespec.spec.investments import Investments, worth
from edgespec.spec.ledger import Account, Ledger
from edgespec.spec.livecosts import LiveCosts
from edgespec.spec.policy import Proposed, Reason
from edgespec.spec.ports import Plan, SequenceId
from edgespec.spec.predict import best_size, goodput, least_useful
from edgespec.spec.prices import Pricing
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import unpinned

# A drafter whose call takes a larger share of a plain round has to be worth it; a cheaper one is always asked.
_FREE_SHARE = 0.01

# One that nobody declared to cost time is taken for free up to this share. Weighing it would cost more than its call,
# and what it does take is in the ledger all the same.
_CHEAP_SHARE = 0.05

# One that costs time is called if it promises this much more than the free ones.
_MARGIN = 1.02

# Answers up to this long never wait for it.
_SHORT_ANSWER = 3

# One that does not pay is tried so seldom that its calls take this share of the time, half of it once a trial failed:
# more would be felt, less would find a good phase when it is over. A call for a sixth of a plain round is made every
# 33rd round at first.
_PROBE_SHARE = 0.005
_PROBE_SOONEST = 8

# One that has been read in is tried for so many rounds more when it no longer seems to pay, before it is let go: every
# token that it then falls behind has to be read again, so that it hardly comes back in the same answer.
_PATIENCE = 12

# A new one is tried so many rounds before the first failures can silence it for long.
_PATIENCE_AT_FIRST = 10

# Tokens of the longest draft that is hoped for.
_HOPED = 16

# Reading of less than this share of a plain round is a part of the call's price, not an investment.
_SMALL_SHARE = 0.1

# A survival below which no row ever paid.
_HOPELESS = 0.02

NO_PLAN = Plan(max_nodes=0)


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

    `risk_seconds`, `probing` and what `investments` has lent are of the round in progress, until `begin_round`.
    """

    def __init__(
        self, live: LiveCosts, acceptance: Acceptance, ledger: Ledger, costs: Mapping[str, DraftCosts]
    ) -> None:
        self.costs = dict(costs)
        self.refusal = Reason.NO_DRAFTER
        self.risk_seconds = 0.0
        self.probing: set[str] = set()
        self.investments = Investments()
        self._declared = frozenset(costs)
        self._cheap_seconds = 0.0
        self._patience = dict.fromkeys(costs, _PATIENCE_AT_FIRST)
        self._live = live
        self._acceptance = acceptance
        self._ledger = ledger
        self._probes: dict[str, Probe] = {}

    def reprice(self, live: LiveCosts) -> None:
        self._live = live

    def begin_round(self) -> None:
        self.risk_seconds = 0.0
        self.probing.clear()
        self.investments.begin_round()

    def is_free(self, drafter: str, t1_seconds: float) -> bool:
        """Is it asked without weighing its call? Calls of this round that are as cheap teach nothing."""
        if drafter not in self._declared:
            self._cheap_seconds = _CHEAP_SHARE * t1_seconds
        return self.seems_free(drafter, t1_seconds)

    def seems_free(self, drafter: str, t1_seconds: float) -> bool:
        """The same of a price of which no round is the matter. From any thread."""
        if drafter in self._declared:
            return False
        costs = self.costs.get(drafter)
        return costs is None or costs.cheapest <= _CHEAP_SHARE * t1_seconds

    def may_ask(self, t1_seconds: float) -> bool:
        """May a free drafter be asked? The ledger has the last word even there."""
        self.refusal = Reason.LEDGER
        return self._ledger.allows_look(_FREE_SHARE * t1_seconds, t1_seconds)

    def plan(
        self,
        drafter: str,
        state: SequenceState,
        room: Plan,
        pricing: Pricing,
        offered: Seq[Proposed],
        n_behind: int,
        account: Account,
    ) -> Plan:
        """What to ask of a drafter that costs time, within `room`: as much as promises most, one node to try it again,
        or nothing.
        """
        if state.n_output < _SHORT_ANSWER:
            self.refusal = Reason.SHORT_ANSWER
            return NO_PLAN
        costs = self.costs[drafter]
        n_nodes, invested = self._wanted(drafter, state, room.max_nodes, pricing, offered, n_behind, account)
        bound = costs.bound(n_nodes, n_behind) if n_nodes else 0.0
        self.refusal = Reason.NOT_WORTH_IT
        if not self._ledger.allows(self.risk_seconds + bound, pricing.t1_seconds, self._lent + invested):
            self.refusal = Reason.LEDGER
            self.probing.discard(drafter)
            return NO_PLAN
        if not n_nodes:
            return NO_PLAN
        self.risk_seconds += bound
        if invested:
            self.investments.grant(drafter, state.id, invested)
            self._patience[drafter] = _PATIENCE
        least = 0.0 if drafter in self.probing else self._least(state.id, drafter, n_nodes, pricing)
        return Plan(n_nodes, room.max_leaves, costs.deadline(n_nodes, n_behind), least)

    def _wanted(
        self,
        drafter: str,
        state: SequenceState,
        room: int,
        pricing: Pricing,
        offered: Seq[Proposed],
        n_behind: int,
        account: Account,
    ) -> tuple[int, float]:
        """How many nodes are wanted, one of a trial included, and the seconds of reading to be lent for them."""
        costs = self.costs[drafter]
        reading = costs.reading(n_behind)
        invests = reading > max(costs.seconds(1), _SMALL_SHARE * pricing.plain_seconds)
        rival = self._best_offered(state.id, room, pricing, offered)
        n_nodes = self._best(state.id, drafter, room, pricing, rival, 0.0 if invests else reading)
        if n_nodes and invests:
            invested = costs.bound(0, n_behind)
            if self._pays_back(drafter, state, n_nodes, pricing, rival, invested, account):
                return n_nodes, invested
        elif n_nodes:
            if self._patience.get(drafter, 0) > _PATIENCE_AT_FIRST:
                self._patience[drafter] = _PATIENCE
            return n_nodes, 0.0
        patient = not invests and rival <= 1.0 and self._is_tried_again(drafter, pricing)
        if patient or self._is_due(drafter, pricing, costs.seconds(1) + reading):
            self.probing.add(drafter)
            return 1, 0.0
        return 0, 0.0

    def observe(self, call: Proposed) -> None:
        if call.plan.max_nodes:
            known = self.costs.get(call.drafter)
            if known is not None and call.drafter not in self._declared and call.seconds <= self._cheap_seconds:
                return  # most calls of most rounds: they cost what they always do
            costs = known or self.costs.setdefault(call.drafter, DraftCosts())
            costs.observe(call.plan.max_nodes, call.seconds, call.n_behind)

    @property
    def _lent(self) -> float:
        return sum(self.investments.lent.values())

    def _is_tried_again(self, drafter: str, pricing: Pricing) -> bool:
        """Is there patience left, and something to hope for? Some draft must pay if it is always right."""
        patience = self._patience.get(drafter, 0)
        if not patience or self._hope(drafter, pricing) <= 1.0:
            return False
        self._patience[drafter] = patience - 1
        return True

    def _hope(self, drafter: str, pricing: Pricing) -> float:
        """The goodput of its best draft, if every token of it were right, as a multiple of plain decoding's."""
        costs = self.costs[drafter]
        sizes = range(1, min(len(pricing.seconds), _HOPED))
        rates = ((pricing.n_sequences + n) / (pricing.seconds[n] + costs.seconds(n)) for n in sizes)
        return pricing.t1_seconds * max(rates, default=0.0)

    def _is_due(self, drafter: str, pricing: Pricing, seconds: float) -> bool:
        """May it be tried again this round, in a call of so many seconds? The dearer it is, the more seldom."""
        interval = max(_PROBE_SOONEST, round(seconds / (_PROBE_SHARE * pricing.plain_seconds)))
        return self._probes.setdefault(drafter, Probe()).due(interval)

    def _pays_back(
        self,
        drafter: str,
        state: SequenceState,
        n_nodes: int,
        pricing: Pricing,
        rival: float,
        invested: float,
        account: Account,
    ) -> bool:
        """Is so much reading expected to be given back in this answer, and may it be lent?"""
        survivals = self._acceptance.expected(state.id, drafter, n_nodes)
        seconds = pricing.seconds[n_nodes] + self.costs[drafter].seconds(n_nodes)
        with_it = 1.0 / goodput(survivals, seconds, pricing.n_sequences)
        saved = worth(state.remaining, pricing.t1_seconds / rival, with_it)
        credit = min(self._ledger.credit(pricing.t1_seconds) - self._lent, account.credit(pricing.t1_seconds))
        if saved < invested or invested > credit:
            return False
        return not self.investments.debt(drafter).blocks(state.id, invested, pricing.plain_seconds)

    def _least(self, sequence: SequenceId, drafter: str, n_nodes: int, pricing: Pricing) -> float:
        """The stop rule, in the drafter's own claims.

        One that claims too little, step after step, is given the room for it; one that claims too much is left alone.
        """
        survivals = self._acceptance.expected(sequence, drafter, n_nodes)
        each = self.costs[drafter].seconds(n_nodes) / n_nodes
        least = least_useful(survivals, pricing.seconds, each, pricing.n_sequences)
        return float(least / max(1.0, self._acceptance.profile(drafter).trust) ** n_nodes)

    def settle(self, drafter: str, right: bool) -> None:
        """A trial has shown whether the first token was right."""
        self._probes.setdefault(drafter, Probe()).settle(right)

    def _best_offered(self, sequence: SequenceId, room: int, pricing: Pricing, offered: Seq[Proposed]) -> float:
        """The goodput of what others have proposed, as a multiple of plain decoding's."""
        trees = [(one.drafter, unpinned(one.tree)[0]) for one in offered]
        found = (s for name, tree in trees for s in self._acceptance.survival(sequence, name, tree).tolist())
        survivals = sorted(found, reverse=True)[:room]
        n_nodes = best_size(survivals, pricing.seconds, pricing.n_sequences)
        return goodput(survivals[:n_nodes], pricing.seconds[n_nodes], pricing.n_sequences) * pricing.t1_seconds

    def _best(
        self, sequence: SequenceId, drafter: str, room: int, pricing: Pricing, rival: float, reading: float
    ) -> int:
        """How many nodes of this drafter beat `rival` times plain decoding by most, calls included; 0 if none do.

        Sizes whose pass and call together may exceed what the ledger allows are left out.
        """
        costs, factor = self.costs[drafter], self._live.excess.factor
        longest = self._ledger.headroom(pricing.t1_seconds) + pricing.plain_seconds - reading
        seconds = pricing.seconds[:1]
        survivals = self._survivals(sequence, drafter, min(room, len(pricing.seconds) - 1))
        for n, passed in enumerate(pricing.seconds[1 : len(survivals) + 1], 1):
            possible = passed * factor + costs.bound(n) <= longest
            seconds.append(passed + costs.seconds(n) + reading if possible else math.inf)
        return best_size(survivals, seconds, pricing.n_sequences, margin=_MARGIN * rival)

    def _survivals(self, sequence: SequenceId, drafter: str, room: int) -> list[float]:
        """Of a chain of up to `room` nodes; only as long as may be worth a look, since this is asked every round."""
        for n in (4, 12):
            survivals = self._acceptance.expected(sequence, drafter, min(n, room))
            if n >= room or survivals[-1] < _HOPELESS:
                return survivals
        return self._acceptance.expected(sequence, drafter, room)
