"""What the passes of one round would cost, each on the width that would really carry it.

In fast mode a pass has as many rows as it needs, and only measured widths are drafted at. In exact mode it is padded to
the next width of the request's class, and costs what that one does; plain decoding too. Knows no trees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgespec.spec.livecosts import LiveCosts


@dataclass(frozen=True, slots=True)
class Pricing:
    """seconds[n]: a round with n nodes beside the pending rows, drafting excepted; inf where no measured width fits.

    plain_seconds: the round of plain decoding, which gives `n_sequences` tokens. It is seconds[0] unless tokens beyond
    one per sequence are pending.
    """

    n_sequences: int
    seconds: list[float]
    plain_seconds: float

    @property
    def t1_seconds(self) -> float:
        """The price of one token by plain decoding."""
        return self.plain_seconds / self.n_sequences


class Prices:
    """Pricings of live costs, kept until `forget` is called because a round has changed the costs."""

    def __init__(self, costs: LiveCosts) -> None:
        self._costs = costs
        self._grids: dict[tuple[int, ...], list[int]] = {}
        self._widest: dict[tuple[tuple[int, ...], int], int] = {}
        self._known: dict[tuple[int, int, int, tuple[int, ...]], Pricing] = {}

    def forget(self) -> None:
        self._known.clear()

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
        carried = grid[n_sequences] if n_sequences < len(grid) else 0
        plain = prices[carried or costs.table.next_below(n_sequences)] * load + overhead
        seconds = [prices[width] * load + overhead if width else math.inf for width in grid[n_pending:]]
        if not seconds or math.isinf(seconds[0]):
            seconds[:1] = [plain]
        return Pricing(n_sequences, seconds, plain)

    def _grid(self, width_class: tuple[int, ...]) -> list[int]:
        """By rows: the width of the pass that carries them, 0 where none does. Ends with the last that one does."""
        known = self._grids.get(width_class)
        if known is None:
            measured = self._costs.table.widths
            known = [0]
            for width in sorted(set(width_class).intersection(measured)) if width_class else measured:
                gap = width - len(known)
                known += [width if width_class else 0] * gap + [width]
            self._grids[width_class] = known
        return known
