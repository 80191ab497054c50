"""How long a pass should take at one setting of threads: by the cost table, else by the fastest of its like lately.

Contract: seconds are handed in, estimates come out, `inf` where nothing is known. Knows no clock and no threads.
"""

from __future__ import annotations

import math
from collections import deque

from edgespec.spec.cost import CostTable

# Attention grows slowly with the context, so one look at the table serves so many tokens.
CONTEXT_GRAIN = 256
# Of the last so many passes of a size the fastest counts: fewer would take a disturbed one for normal, more would hold
# a long context to what a short one took.
_RECENT = 4


class PassTimes:
    """`table`: passes of few rows, None when nothing was measured. Prompt chunks are never in it."""

    def __init__(self, table: CostTable | None) -> None:
        self._table = table
        self._grain = -1
        self._steps: list[float] = []
        self._verified: dict[int, deque[float]] = {}
        self._extended: dict[int, deque[float]] = {}

    def verify_seconds(self, rows: int, context: int) -> float:
        if self._table is None:
            return _fastest(self._verified, rows)
        steps = self._steps_at(context)
        if rows < len(steps):
            return steps[rows]
        return steps[-1] * rows / (len(steps) - 1)

    def extend_seconds(self, n_tokens: int, context: int) -> float:
        """Until a chunk has been read, a wide pass of the table stands for it, token by token: it costs more."""
        known = _fastest(self._extended, n_tokens)
        if known < math.inf or self._table is None:
            return known
        steps = self._steps_at(context)
        return steps[-1] * max(1.0, n_tokens / (len(steps) - 1))

    def observe_verify(self, rows: int, seconds: float) -> None:
        if self._table is None:
            self._verified.setdefault(rows, deque(maxlen=_RECENT)).append(seconds)

    def observe_extend(self, n_tokens: int, seconds: float) -> None:
        self._extended.setdefault(n_tokens, deque(maxlen=_RECENT)).append(seconds)

    def _steps_at(self, context: int) -> list[float]:
        grain = context // CONTEXT_GRAIN
        if grain != self._grain and self._table is not None:
            self._grain = grain
            self._steps = self._table.steps((grain + 1) * CONTEXT_GRAIN)
        return self._steps


def _fastest(seen: dict[int, deque[float]], size: int) -> float:
    """A pass costs at most its share of a larger one's time times its size, and no more than a larger one."""
    own = seen.get(size)
    if own is not None:
        return min(own)
    return min((min(times) * max(1.0, size / other) for other, times in seen.items()), default=math.inf)
