"""Which widths the rounds of fast answers may have: the measured ones, and those whose price earlier rounds have shown.

A width between two known ones gets its price by being tried, seldom, at the price of the next wider one. A pass with
fewer rows hardly takes longer, so whoever may pay that price risks nothing; if it does take longer, it is some rounds
of all. Contract: counts rounds; knows no seconds.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

# Rounds of an unmeasured width before it is one like the others: fewer, and one pass' noise would be its price.
ENOUGH = 4

# Drafted rounds from one trial to the next: a trial may cost as much as a wider pass and gives fewer tokens.
EVERY = 16


class Trials:
    """known: the widths whose price is known, ascending. open: those that the next round may have."""

    def __init__(self, measured: Seq[int]) -> None:
        self.known = self.open = tuple(measured)
        self._n_tried: dict[int, int] = {}
        self._waited = 0

    @property
    def due(self) -> bool:
        """Whether the next round may be a trial."""
        return self.open is not self.known

    def knows(self, rows: int) -> bool:
        return rows in self.known

    def observe(self, rows: int) -> None:
        """A round with a draft had so many rows, at most the widest measured ones."""
        self._waited += 1
        if not self.knows(rows):
            self._waited = 0
            self._count(rows)
            self.open = self.known
        elif self._waited >= EVERY and not self.due and len(self.known) < self.known[-1]:
            self.open = tuple(range(1, self.known[-1] + 1))

    def _count(self, rows: int) -> None:
        self._n_tried[rows] = self._n_tried.get(rows, 0) + 1
        if self._n_tried[rows] >= ENOUGH:
            self.known = tuple(sorted({*self.known, rows}))
