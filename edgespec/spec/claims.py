"""Which first guesses are worth asking for, by what they would claim: the more share a pass, the surer they must be.

Contract: of free drafters, in fast mode; knows tables and prices, no trees.
"""

from __future__ import annotations

from edgespec.spec.cost import CostTable
from edgespec.spec.predict import USUAL_CONTEXT, least_claim, may_pay
from edgespec.spec.prices import Prices

# A drafter that knows what it would claim is not asked where that is so many times `least_claim`, which is half of what
# the best draft must come true with: a proposal that is then refused takes 0.3 ms of a round, its caches being cold.
_NOT_ASKED = 1.8
_JUST_ABOVE = 1.001  # claims are rounded to float32 on their way

# Long copies come true so often, token by token. Where a batch's rows are so dear that drafts like these would not pay,
# looking for them is all cost: 1 % of every round.
_SURE = 0.9


class Claims:
    """Of one table: another one begins anew. margin: what drafting must promise, as a multiple of plain decoding."""

    def __init__(self, table: CostTable, margin: float) -> None:
        self._table = table
        self._margin = margin
        self._least: dict[int, float] = {}  # by sequences in a pass
        self._refused = 0.0

    def least(self, n_sequences: int) -> float:
        """What no draft can pay below."""
        known = self._least.get(n_sequences)
        if known is None:
            known = self._least[n_sequences] = least_claim(self._table, n_sequences)
        return known

    def least_asked(self, n_sequences: int) -> float:
        """What can never pay, or was last found not to where one sequence had the pass."""
        least = _NOT_ASKED * self.least(n_sequences)
        return max(least, _JUST_ABOVE * self._refused) if n_sequences == 1 else least

    def may_pay(self, n_sequences: int, prices: Prices) -> bool:
        """Could guesses as sure as they get pay in a batch of so many? Of one sequence it is never denied: `least` says
        enough there.
        """
        if n_sequences == 1:
            return True
        seconds = prices.pricing(n_sequences, n_sequences, USUAL_CONTEXT, ()).seconds
        return may_pay(seconds, n_sequences, _SURE, self._margin)

    def drafted(self, claim: float) -> None:
        """A draft that begins with such a claim was worth its rows, where one sequence had the pass."""
        self._refused = min(self._refused, claim / _JUST_ABOVE**2)

    def refused(self, claim: float) -> None:
        """It was not worth them; the same claim is then refused again."""
        self._refused = max(self._refused, claim)
