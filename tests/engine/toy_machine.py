"""A machine with two cores, a clock and a processor clock of its own, on which the toy target runs.

Two threads that must share a core take a hundred times as long, as spinning threads do; one thread, and programs that
never rest, share the cores evenly.
"""

from __future__ import annotations

from edgespec.backend.cores import CoreUse
from edgespec.engine.levels import ladder
from edgespec.engine.pace import Pace
from edgespec.engine.paced import PacedTarget, Reprice
from edgespec.tune.tuning import Tuned
from tests.engine.toy_engine import EngineTarget, Pass

ROW_SECONDS = 0.002
PASS_SECONDS = 0.010
ALONE_FACTOR = 1.4
N_CORES = 2


class ToyMachine:
    """Passes of `target` take time here. n_busy: other programs; it may be changed at any time."""

    def __init__(self, target: EngineTarget) -> None:
        self.target = target
        self.n_busy = 0
        self.now = 0.0
        self.own = 0.0
        self.others = 0.0
        self.log: list[tuple[int, float, bool]] = []  # of each pass: threads, seconds, whether it was given up
        self._read = (0.0, 0.0, 0.0)
        target.before_pass = self._work

    def paced(self, tuned: Tuned | None = None, reprice: Reprice | None = None, n_threads: int = 2) -> PacedTarget:
        return PacedTarget(
            self.target, Pace(ladder(n_threads, 0, tuned)), self.read_use, reprice, self.clock, lambda: self.own
        )

    def clock(self) -> float:
        return self.now

    def read_use(self) -> CoreUse:
        before, self._read = self._read, (self.now, self.own, self.others)
        seconds, own, others = (b - a for a, b in zip(before, self._read, strict=True))
        if seconds <= 0.0:
            return CoreUse(0.0, N_CORES, 0.0, None)
        return CoreUse(seconds, N_CORES, own / seconds, others / seconds)

    def rest(self, seconds: float) -> None:
        """Time in which the target does nothing."""
        self.now += seconds
        self.others += seconds * min(self.n_busy, N_CORES)

    def seconds_of(self, one: Pass) -> float:
        seconds = PASS_SECONDS + ROW_SECONDS * ((one.width or sum(one.rows.values())) - 1)
        if self.target.n_threads > 1:
            return seconds if self.n_busy == 0 else 100.0 * seconds
        return ALONE_FACTOR * seconds / min(1.0, N_CORES / (1 + self.n_busy))

    def _work(self, one: Pass) -> None:
        wanted, limit = self.seconds_of(one), self.target.limit_seconds
        seconds = min(wanted, limit)
        n_threads = self.target.n_threads
        share = min(1.0, N_CORES / (n_threads + self.n_busy))
        self.now += seconds
        self.own += seconds * n_threads * share
        self.others += seconds * self.n_busy * share
        self.log.append((n_threads, seconds, wanted > limit))
        if wanted > limit:
            raise self.target.late
