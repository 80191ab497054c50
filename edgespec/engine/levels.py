"""How many threads passes may take: all that were wanted, half of them, one. Plain data; decides nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from edgespec.spec.cost import CostTable
from edgespec.tune.tuning import Tuned


@dataclass(frozen=True, slots=True)
class Level:
    """n_threads: of passes of one row; n_batch: of wider ones, 0 for as many. table: what passes take, if measured."""

    n_threads: int
    n_batch: int = 0
    table: CostTable | None = None

    @property
    def most(self) -> int:
        return max(self.n_threads, self.n_batch)

    @property
    def counts(self) -> frozenset[int]:
        return frozenset((self.n_threads, self.n_batch or self.n_threads))


def ladder(n_threads: int, n_batch: int = 0, tuned: Tuned | None = None) -> tuple[Level, ...]:
    """All threads, half of them, one; a single level when there is nothing to step down to.

    For half the threads nothing was measured: half-way, as a ratio, is close enough for prices that live rounds
    correct.
    """
    first = Level(n_threads, n_batch, tuned.table if tuned else None)
    if first.most == 1:
        return (first,)
    last = Level(1, 0, tuned.alone if tuned else None)
    if first.most < 4:
        return first, last
    between = _scaled(tuned.table, math.sqrt(_ratio(tuned))) if tuned else None
    return first, Level(max(1, n_threads // 2), n_batch // 2, between), last


def _ratio(tuned: Tuned) -> float:
    return tuned.alone.seconds[0][0] / tuned.table.seconds[0][0]


def _scaled(table: CostTable, factor: float) -> CostTable:
    return replace(table, seconds=tuple(tuple(one * factor for one in row) for row in table.seconds))
