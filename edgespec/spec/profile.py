"""How often one drafter's steps come true, by depth and by what it claims, as `edgespec.spec.acceptance` tells it.

Steps are counted, discounted, and shrunk to coarser counts where they are few:

    cell (depth, bucket) -> bucket, made to rise with the claim by isotonic regression -> claim * trust in this drafter

Contract: is told single steps; knows no trees and no texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq

# One observation counts so much less with each that follows: some fifty decide, and five of the fast count.
_SLOW = 0.98
_FAST = 0.8

# A coarser estimate is worth this many observations: fewer, and the cells' own noise costs more than it tells.
_WEIGHT = 16.0

# The fast count rules when it is this many standard errors away: late alarms cost more than false ones.
_ALARM = 1.5

# Claims of one step that share a bucket begin here; high ones are told apart finely, since long chains live on them.
_EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.95)
_N_BUCKETS = len(_EDGES)
_MIDDLES = [(low + high) / 2 for low, high in zip(_EDGES, (*_EDGES[1:], 1.0), strict=True)]
_BUCKET = [max(i for i, edge in enumerate(_EDGES) if edge <= claim / 100 + 1e-9) for claim in range(101)]

# Depths told apart are 1, 2, 3, 4-5 and the rest: a chain's later steps differ little, and are seldom reached.
_N_DEPTHS = 5
_DEPTH = (0, 1, 2, 3, 3, *[4] * 251)

_UNKNOWN = (-1.0,) * _N_DEPTHS

# Observations between two isotonic fits.
_REFIT = 16

# What was kept from an earlier run is worth this many observations at most: enough to start from, and outvoted by
# a few steps of a new domain, which is what the next text may be of.
_KEPT = 6.0

# A new drafter is believed by this factor, worth this many steps: enough to be tried, too little to bet much on.
_TRUST = 0.75
_TRUST_STEPS = 3.0

# Before anything is known of a drafter's steps: this share, worth so many observations.
_ROOT = (0.6, 4.0)


class Rate:
    """A share of successes counted at two speeds. The slow one is used until the fast one contradicts it."""

    __slots__ = ("_fast", "_fast_n", "n", "successes")

    def __init__(self) -> None:
        self.successes = self.n = self._fast = self._fast_n = 0.0

    def observe(self, success: bool) -> None:
        self.successes = self.successes * _SLOW + success
        self.n = self.n * _SLOW + 1.0
        self._fast = self._fast * _FAST + success
        self._fast_n = self._fast_n * _FAST + 1.0

    def recall(self, successes: float, n: float) -> None:
        """Start from an earlier run's slow count, or as much of it as is kept."""
        scale = min(1.0, _KEPT / n) if n > 0.0 else 0.0
        self.successes, self.n = scale * successes, scale * n

    def estimate(self, prior: float, weight: float = _WEIGHT) -> float:
        """The share, shrunk to `prior`: (s + w * prior) / (n + w). The fast count rules where it contradicts."""
        slow = (self.successes + weight * prior) / (self.n + weight)
        n_fast = self._fast_n + 1.0
        fast = (self._fast + slow) / n_fast
        if (slow - fast) ** 2 > _ALARM**2 * (fast * (1.0 - fast) / n_fast + 1e-3):
            return fast
        return slow


def isotonic(values: Seq[float], weights: Seq[float]) -> list[float]:
    """The never-falling sequence nearest to `values` in weighted squares, by pooling adjacent violators."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            below, pool_weight, n = pools.pop()
            total = pool_weight + pool[1]
            pool = ((below * pool_weight + pool[0] * pool[1]) / total, total, n + pool[2])
        pools.append(pool)
    return [value for value, _, n in pools for _ in range(n)]


class Profile:
    """What is known of one drafter."""

    def __init__(self) -> None:
        self._cells = [Rate() for _ in range(_N_BUCKETS * _N_DEPTHS)]
        self._buckets = [Rate() for _ in range(_N_BUCKETS)]
        self._depths = [Rate() for _ in range(_N_DEPTHS)]
        self._all = Rate()
        self._claimed = self._kept = 0.0
        self._curve = [claim * _TRUST for claim in _MIDDLES]
        self._until_refit = 0
        self._steps = [*_UNKNOWN] * _N_BUCKETS
        self.n_steps = 0

    def observe(self, depth: int, claim: float, right: bool) -> None:
        """A step whose parent was accepted. `depth` counts from 0 at the children of the last committed token."""
        group = _DEPTH[depth]
        bucket = _BUCKET[int(100.0 * claim + 0.5)]
        self._cells[bucket * _N_DEPTHS + group].observe(right)
        self._buckets[bucket].observe(right)
        self._depths[group].observe(right)
        self._all.observe(right)
        self._steps[bucket * _N_DEPTHS : (bucket + 1) * _N_DEPTHS] = _UNKNOWN
        self._claimed = self._claimed * _SLOW + _MIDDLES[bucket]
        self._kept = self._kept * _SLOW + right
        self.n_steps += 1
        self._until_refit -= 1
        if self._until_refit <= 0:
            self._refit()

    def counts(self) -> list[list[float]]:
        """(place, successes, n) of every count that has any: what `recall` starts from. Steps in [0, 1]."""
        kept = [(rate.successes, rate.n) for rate in self._rates()] + [(self._kept, self._claimed)]
        return [[place, round(s, 3), round(n, 3)] for place, (s, n) in enumerate(kept) if n > 0.0]

    def recall(self, counts: Seq[Seq[float]]) -> None:
        """What an earlier run's `counts` said, believed in part. Raises ValueError for anything else."""
        rates = self._rates()
        for place, successes, n in counts:
            if place not in range(len(rates) + 1) or not (0.0 <= successes < math.inf and 0.0 < n < math.inf):
                raise ValueError(f"no count of an acceptance: {place}, {successes}, {n}")
            if place < len(rates):
                if successes > n + 0.01:
                    raise ValueError(f"{successes} successes of {n}")
                rates[int(place)].recall(successes, n)
            else:
                scale = min(1.0, _KEPT / n)
                self._kept, self._claimed = scale * successes, scale * n
        self._refit()

    def _rates(self) -> list[Rate]:
        return [*self._cells, *self._buckets, *self._depths, self._all]

    def step_of(self, depth: int, claim: float) -> float:
        """P(right | parent accepted) of a step with this claim; `depth` as in `observe`."""
        bucket = _BUCKET[int(100.0 * claim + 0.5)]
        place = bucket * _N_DEPTHS + _DEPTH[depth]
        known = self._steps[place]
        if known < 0.0:
            parent = self._buckets[bucket].estimate(self._curve[bucket])
            known = self._steps[place] = self._cells[place].estimate(parent)
        return known

    @property
    def trust(self) -> float:
        """What came true over what was claimed."""
        return (self._kept + _TRUST * _TRUST_STEPS) / (self._claimed + _TRUST_STEPS)

    @property
    def acceptance(self) -> float:
        """The share of all its steps that were right, lately."""
        return self._all.estimate(*_ROOT)

    def expected(self, n: int) -> list[float]:
        """Survival by depth of a chain of n nodes that has not been drafted yet."""
        survival, found = 1.0, []
        for depth in range(n):
            survival *= self._depths[_DEPTH[depth]].estimate(self.acceptance)
            found.append(survival)
        return found

    def _refit(self) -> None:
        # Soon after the start every observation matters; later the counts in the buckets carry the news.
        self._until_refit = _REFIT if self.n_steps >= _REFIT else 1
        trust = self.trust
        priors = [min(1.0, claim * trust) for claim in _MIDDLES]
        weights = [rate.n + _WEIGHT for rate in self._buckets]
        pairs = zip(self._buckets, priors, weights, strict=True)
        self._steps = [*_UNKNOWN] * _N_BUCKETS
        self._curve = isotonic([(rate.successes + _WEIGHT * prior) / weight for rate, prior, weight in pairs], weights)
