"""Reading as an investment: what a drafter was lent time for, and whether it has given it back.

A drafter that must read a prompt before its first proposal costs its seconds at once and can only give them back over
the tokens that follow. One that did not do so in an earlier answer is not lent anything for another one until so many
rounds have passed that the reading is a small share of them.
Contract: numbers are handed in; knows no tokens and no ledger. A debt is one drafter's, over all sequences.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from edgespec.spec.ports import SequenceId

# Tokens to come that an investment may count on: limits of answers are no forecasts, and most answers end sooner.
MOST_TOKENS = 128

# A drafter that failed to give back is lent again when that reading is this share of the rounds since, as for probes.
_RETRY_SHARE = 0.005


class Debt:
    """One drafter's. owed_seconds: read and not yet given back."""

    __slots__ = ("_longer", "_n_refused", "owed_seconds", "sequence")

    def __init__(self) -> None:
        self.owed_seconds = 0.0
        self.sequence: SequenceId = -1
        self._n_refused = 0
        self._longer = 1

    def blocks(self, sequence: SequenceId, seconds: float, plain_seconds: float) -> bool:
        """Is another investment, of `seconds`, to be refused? Counts the rounds in which it is, and then forgives."""
        if self.owed_seconds <= 0.0:
            self._longer = 1
            return False
        if sequence == self.sequence:
            return False
        self._n_refused += 1
        if self._n_refused * _RETRY_SHARE * plain_seconds < seconds * self._longer:
            return True
        self._longer = 2 * self._longer
        self._n_refused = 0
        self.owed_seconds = 0.0
        return False


class Investments:
    """`lent`: seconds granted in the round in progress, by sequence, until `begin_round`."""

    def __init__(self) -> None:
        self.lent: dict[SequenceId, float] = {}
        self._debts: dict[str, Debt] = {}

    def begin_round(self) -> None:
        self.lent.clear()

    def debt(self, drafter: str) -> Debt:
        return self._debts.setdefault(drafter, Debt())

    def grant(self, drafter: str, sequence: SequenceId, seconds: float) -> None:
        self.lent[sequence] = self.lent.get(sequence, 0.0) + seconds
        debt = self.debt(drafter)
        debt.owed_seconds += seconds
        debt.sequence = sequence

    def end(self, sequence: SequenceId) -> None:
        """The answer is over; its number may come back for another one."""
        for debt in self._debts.values():
            if debt.sequence == sequence:
                debt.sequence = -1

    def settle(self, drafters: Seq[str], gained_seconds: float) -> None:
        """A round with guesses of these drafters gained so much on plain decoding, what was lent for it excepted."""
        for drafter in drafters:
            if drafter in self._debts:
                self._debts[drafter].owed_seconds -= gained_seconds


def worth(tokens: int, seconds_without: float, seconds_with: float) -> float:
    """Seconds that a drafter saves over at most so many tokens, at these seconds per token without and with it."""
    return min(tokens, MOST_TOKENS) * (seconds_without - seconds_with)
