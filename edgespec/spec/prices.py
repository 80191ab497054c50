"""What the passes of one round would cost, each on the width that would really carry it.

In fast mode a pass has as many rows as it needs, and is drafted at widths whose price is known, or is to be tried (see
`spec.trials`). In exact mode it is padded to the next measured width of the request's class, and costs what that one
does; plain decoding too. Knows no trees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.spec.livecosts import LiveCosts


@dataclass(frozen=True, slots=True)
class Pricing:
    """seconds[n]: a round with n nodes beside the pending rows, drafting excepted; inf where no such width fits.

    plain_seconds: the round of plain decoding, which gives `n_sequences` tokens. It is seconds[0] unless tokens beyond
    one per sequence are pending. trials: numbers of nodes whose width is to be tried; they cost what the next ones do.
    """

    n_sequences: int
    seconds: list[float]
    plain_seconds: float
    trials: frozenset[int] = frozenset()

    @property
    def t1_seconds(self) -> float:
        """The price of one token by plain decoding."""
        return self.plain_seconds / self.n_sequences

    def or_trial(self, n_best: int, survivals: Seq[float], spent_seconds: float, longest_seconds: float) -> int:
        """`n_best` nodes, the number chosen by price, or those of a trial of the widths next to theirs.

        A trial must be allowed at its full price, and be worth it against plain decoding: it then never makes an answer
        slower. Of the gaps below and above the one with the larger step in price is tried first, in its middle. Where
        nothing is to be drafted, nothing is tried.
        """
        if not self.trials or not n_best:
            return n_best
        gaps = [self._gap(n_best, -1), self._gap(n_best, +1)]
        for gap in sorted(gaps, key=self._step, reverse=True):
            able = [n for n in gap if n <= len(survivals) and self.seconds[n] <= longest_seconds]
            for n in sorted(able, key=lambda n: abs(2 * n - gap[0] - gap[-1]))[:1]:
                tokens = self.n_sequences + sum(survivals[:n])
                if tokens * self.t1_seconds > self.seconds[n] + spent_seconds:
                    return n
        return n_best

    def _gap(self, n_best: int, step: int) -> list[int]:
        """The trials between `n_best` and the next number of nodes whose price is known, in this direction."""
        found: list[int] = []
        while n_best + step * (len(found) + 1) in self.trials:
            found.append(n_best + step * (len(found) + 1))
        return found

    def _step(self, gap: Seq[int]) -> float:
        """How much of the price is gained or lost over the gap; 0 for none. A trial costs what its upper end does."""
        if not gap:
            return 0.0
        return self.seconds[max(gap)] - self.seconds[min(gap) - 1]


class Prices:
    """Pricings of live costs, kept until `forget` is called because a round has changed the costs."""

    def __init__(self, costs: LiveCosts) -> None:
        self._costs = costs
        self._grids: dict[tuple[int, ...], list[int]] = {}
        self._widest: dict[tuple[tuple[int, ...], int], int] = {}
        self._known: dict[tuple[int, int, int, tuple[int, ...]], Pricing] = {}
        self._open = costs.trials.open

    def forget(self) -> None:
        self._known.clear()
        if self._open is not self._costs.trials.open:
            self._open = self._costs.trials.open
            self._grids.pop((), None)
            self._widest = {key: widest for key, widest in self._widest.items() if key[0]}

    def widest(self, width_class: tuple[int, ...], max_rows: int) -> int:
        """The most rows that a pass of at most `max_rows`, padding included, may have for its requests; 0 if none."""
        key = (width_class, max_rows)
        known = self._widest.get(key)
        if known is None:
            known = self._widest[key] = max(width for width in self._grid(width_class) if width <= max_rows)
        return known

    def pricing(self, n_sequences: int, n_pending: int, context: int, width_class: tuple[int, ...]) -> Pricing:
        """For a batch with so many rows pending, at so many tokens of context. `width_class` is empty in fast mode."""
        key = (n_sequences, n_pending, context, width_class)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._pricing(n_sequences, n_pending, context, width_class)
        return known

    def _pricing(self, n_sequences: int, n_pending: int, context: int, width_class: tuple[int, ...]) -> Pricing:
        costs, grid = self._costs, self._grid(width_class)
        prices, load, overhead = costs.prices(context), costs.load, costs.overhead_seconds
        # An unmeasured batch is priced as the next smaller one: too low a price of plain decoding is the safe side.
        carried = grid[n_sequences] if width_class and n_sequences < len(grid) else 0
        plain = prices[carried or costs.table.next_below(n_sequences)] * load + overhead
        seconds = [prices[width] * load + overhead if width else math.inf for width in grid[n_pending:]]
        undrafted = n_pending == n_sequences and not width_class  # what is tried is tried with drafts only
        if undrafted or not seconds or math.isinf(seconds[0]):
            seconds[:1] = [plain]
        return Pricing(n_sequences, seconds, plain, self._trials(n_pending, width_class))

    def _trials(self, n_pending: int, width_class: tuple[int, ...]) -> frozenset[int]:
        known = self._costs.trials.known
        if width_class or self._open is known:
            return frozenset()
        return frozenset(width - n_pending for width in self._open if width > n_pending and width not in known)

    def _grid(self, width_class: tuple[int, ...]) -> list[int]:
        """By rows: the width of the pass that carries them, 0 where none does. Ends with the last that one does."""
        known = self._grids.get(width_class)
        if known is None:
            measured = self._costs.table.widths
            known = [0]
            for width in sorted(set(width_class).intersection(measured)) if width_class else self._open:
                gap = width - len(known)
                known += [width if width_class else 0] * gap + [width]
            self._grids[width_class] = known
        return known
